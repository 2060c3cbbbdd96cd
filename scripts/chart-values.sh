#!/bin/sh
# Writes the table of values in charts/assay/README.md from the comments in charts/assay/values.yaml.
#
# usage: chart-values.sh [README]   another file instead
set -eu
cd "$(dirname "$0")/../charts/assay"
readme=${1:-README.md}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '
    function fail(why) { print "chart-values: values.yaml:" NR ": " why > "/dev/stderr"; failed = 1; exit 1 }
    /^ *#/ { sub(/^ *# ?/, ""); comment = comment == "" ? $0 : comment " " $0; next }
    /^$/ { comment = ""; next }
    {
        match($0, /^ */)
        depth = RLENGTH / 2
        if (!match($0, /^ *[A-Za-z]+:/)) fail("not a key on a line of its own")
        key[depth] = substr($0, 2 * depth + 1, RLENGTH - 2 * depth - 1)
        value = substr($0, RLENGTH + 2)
        if (value == "") { comment = ""; next }
        if (comment == "") fail(key[depth] " has no comment")
        path = key[0]
        for (i = 1; i <= depth; i++) path = path "." key[i]
        gsub(/\|/, "\\|", comment)
        printf "| `%s` | `%s` | %s |\n", path, value, comment
        comment = ""
    }
    END { exit failed }
' values.yaml >"$work/table"

sed -n '1,/^<!-- values -->$/p' "$readme" >"$work/readme"
{
    echo
    echo '| value | default | |'
    echo '|---|---|---|'
    cat "$work/table"
    echo
} >>"$work/readme"
sed -n '/^<!-- end of values -->$/,$p' "$readme" >>"$work/readme"
grep -q '^<!-- end of values -->$' "$work/readme" || { echo "chart-values: $readme has no markers for the table" >&2; exit 1; }
cmp -s "$work/readme" "$readme" || cp "$work/readme" "$readme"
