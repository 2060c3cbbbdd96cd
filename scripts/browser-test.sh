#!/bin/sh
# Opens report pages in a real browser without a window, light and dark, from 360 to 1280 pixels wide: nothing may be loaded, run
# over the edge, overlap, be cut without a hint, leave a third of the page empty, lack a title or be too pale to read. Then it shows that
# each of these is noticed.
#
# usage: browser-test.sh [--pictures] [PAGE...]     without pages: those of the examples report_sample and sweep_sample
#   --pictures   keep a picture of every page beside it
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH

fail() {
    printf 'browser-test: %s\n' "$*" >&2
    exit 1
}

browser=${CHROMIUM:-}
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || browser=$(command -v "$name" || true)
done
[ -n "$browser" ] || fail "Chromium not found: apt-get install chromium, or set CHROMIUM=/path/to/it"

pictures=
if [ "${1:-}" = --pictures ]; then
    pictures=yes
    shift
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ $# = 0 ]; then
    pages=$work/pages
    [ -z "$pictures" ] || pages=${CARGO_TARGET_DIR:-$root/target}/report-pages
    # With the crates and features of `make test`, so that nothing is compiled anew.
    (cd "$root" && cargo build --locked --quiet --workspace --features assay-e2e/cluster,assay-bench/planted \
        --example report_sample --example sweep_sample &&
        for sample in report sweep; do "${CARGO_TARGET_DIR:-target}/debug/examples/${sample}_sample" "$pages" || exit 1; done)
    set -- "$pages"/*.html
fi

# browse SCHEME ARGUMENT...: a fresh browser that can reach nothing; 0 is dark, 1 is light.
browse() {
    scheme=$1
    shift
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
        --no-first-run --disable-extensions --disable-background-networking --disable-sync --proxy-server=127.0.0.1:9 \
        --enable-logging=stderr --blink-settings=preferredColorScheme="$scheme" "$@"
}

# The page itself is not changed, so that its own rules hold; it is put into a frame that can be narrow.
frame() {
    printf '<!DOCTYPE html><html><head><meta charset="utf-8"></head><body style="margin:0"><pre id="result"></pre>'
    printf '<iframe id="page" style="border:0;width:%spx;height:%spx" srcdoc="' "$2" "$3"
    sed 's/&/\&amp;/g; s/"/\&quot;/g' "$1"
    printf '"></iframe>'
    if [ -n "${4:-}" ]; then
        printf '<script>\n'
        cat "$4"
        printf '</script>'
    fi
    printf '</body></html>\n'
}

# measure PAGE SCHEME: prints what was found; fails where that is a problem.
measure() {
    frame "$1" 1280 1000 "$root/scripts/browser-measure.js" >"$work/measure.html"
    browse "$2" --window-size=1280,1000 --virtual-time-budget=20000 --dump-dom "file://$work/measure.html" \
        >"$work/dom" 2>"$work/log" || { tail -n 5 "$work/log" >&2; return 1; }
    grep -E '^(<.*>)?(PROBLEM|MEASURED)' "$work/dom" | sed 's/<[^>]*>//g; s/&lt;/</g; s/&gt;/>/g' || true
    # What the browser itself complains about, such as a refused request.
    if grep -F 'CONSOLE' "$work/log"; then return 1; fi
    grep -q 'MEASURED .* 0 problems' "$work/dom"
}

for page; do
    for scheme in 1 0; do
        printf '%s: ' "$(basename "$page")"
        measure "$page" "$scheme" || fail "$page has problems; see above"
        [ -n "$pictures" ] || continue
        [ "$scheme" = 1 ] && name=light || name=dark
        # Some browsers have a smallest window, so the narrow page is in a frame as well.
        for size in 360,6000 1280,5000; do
            frame "$page" "${size%,*}" "${size#*,}" >"$work/picture.html"
            browse "$scheme" --window-size="$size" --screenshot="${page%.html}-$name-${size%,*}.png" \
                "file://$work/picture.html" >/dev/null 2>&1
        done
    done
done

# refused WHAT EXPECTED MARKUP: a page with this added does not pass, and for this reason.
refused() {
    sed "s|</main>|$3</main>|" "$page" >"$work/bad.html"
    if measure "$work/bad.html" 1 >"$work/found"; then fail "$1 was not detected"; fi
    grep -q "$2" "$work/found" || fail "$1 was reported as something else: $(cat "$work/found")"
    printf 'detected: %s\n' "$1"
}
page=$1
refused "what is too wide" 'px wide' '<p style="width:900px">wide</p>'
refused "pale text" 'contrast' '<p style="color:#ccc">pale</p>'
refused "a picture without a title" 'without a title' '<svg></svg>'
refused "what is cut without a hint" 'is cut without a hint' \
    '<div style="overflow-x:auto"><table style="width:2000px"><caption>x</caption><tr><td>wide</td></tr></table></div>'
refused "an empty third" 'fills' '<section><h2>Empty</h2><p style="width:300px">narrow</p></section>'
refused "an empty chart" 'a chart without data' \
    '<figure><svg role="img" width="90" height="40"><title>x</title><line x1="1" y1="1" x2="9" y2="1"/></svg></figure>'
refused "overlapping labels" 'overlaps' \
    '<svg role="img" width="90" height="40"><title>x</title><text x="9" y="20">one</text><text x="12" y="20">two</text></svg>'
refused "something from the network" 'CONSOLE' '<img alt="x" src="https://assay.invalid/x.png">'
refused "a script" 'CONSOLE' '<script>document.title = 1</script>'
