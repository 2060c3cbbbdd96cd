#!/bin/sh
# Installs what building Assay needs and this machine lacks: Debian packages, Rust, RocksDB.
# Says what it will install and why, and does nothing if everything is there.
#
# usage: setup.sh [tools|bindings|scripts|browser|images|cluster|chart]
#   tools: leave out RocksDB, which only the bench links
#   bindings: all that is needed to read the code of the bench, as clippy does; not to link it
#   scripts: what checks these scripts and the borders between modules, and nothing else
#   browser: a browser instead of it, for tests of report pages
#   images: what builds container images, and nothing else
#   cluster: that, and what a Kubernetes on this machine is built and run with (e2e/cluster)
#   chart: what the Helm chart is tested and installed with
set -eu
cd "$(dirname "$0")/.."
# Tools for networks and firewalls are in sbin, which a user's PATH often lacks.
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/sbin:/sbin
. scripts/cache.sh
rust_version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
# any PATH...: one of them exists
any() {
    for path; do
        if [ -e "$path" ]; then return 0; fi
    done
    return 1
}
have_certificates() { [ -n "${SSL_CERT_FILE:-}" ] || any /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/* /etc/ssl/cert.pem; }
have_compiler() { have cc && have c++ && have make; }
# The library alone is not enough: it comes without the headers of its own that every C header includes.
have_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] ||
        { any /usr/lib/llvm*/lib*/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib64/libclang*.so* /usr/lib/libclang*.so* &&
            any /usr/lib/llvm*/lib*/clang/*/include/stddef.h /usr/lib*/clang/*/include/stddef.h; }
}
have_browser() { [ -n "${CHROMIUM:-}" ] || have chromium || have chromium-browser || have google-chrome; }
# From 1.21 on Go fetches the version that a module asks for.
have_go() {
    [ -x "$cache/go/bin/go" ] || {
        version=$(go version 2>/dev/null | sed -n 's/^go version go\([0-9.]*\).*/\1/p')
        [ -n "$version" ] && [ "$(printf '%s\n' 1.21 "$version" | sort -V | head -n 1)" = 1.21 ]
    }
}
# The cargo that would be used is new enough.
have_rust() {
    found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || true
    [ -n "$found" ] && [ "$(printf '%s\n' "$rust_version" "$found" | sort -V | head -n 1)" = "$rust_version" ]
}

# need PACKAGE WHY
packages=
reasons=
need() {
    packages="$packages $1"
    reasons="$reasons
setup:   $1: $2"
}

need_for_trials() {
    have_certificates || need ca-certificates "to trust the servers for Rust and crates"
    have_compiler || need build-essential "compiles RocksDB and links every program"
    { have flock && have prlimit; } || need util-linux "flock, so that only one process builds RocksDB; prlimit, in tests"
    [ "$1" != all ] || have strace || need strace "kills a run at each of its steps, in tests"
    have_rust || have rustup || have curl || need curl "to download Rust"
    { [ "$1" != all ] && [ "$1" != bindings ]; } || have_libclang || need libclang-dev "reads RocksDB's header to generate Rust bindings"
    [ "$1" != browser ] || have_browser || need chromium "opens report pages in tests"
}

need_for_images() {
    # Docker's command alone builds nothing: its service has to run, for this user too.
    have buildah || docker info >/dev/null 2>&1 || need buildah "builds container images"
    have python3 || need python3 "lists the contents of an image"
}

need_for_cluster() {
    have_certificates || need ca-certificates "to trust the servers for Go modules"
    # Docker would need a running service, and the cluster shall need none.
    have buildah || need buildah "builds container images"
    have containerd || need containerd "runs the containers of the node"
    have runc || need runc "starts each container, for containerd"
    any /usr/lib/cni/bridge || need containernetworking-plugins "connects pods"
    have iptables || need iptables "routes traffic to Kubernetes services"
    have ip || need iproute2 "connects the node to this machine"
    { have sysctl && have pgrep; } || need procps "sysctl and pgrep"
    have openssl || need openssl "creates the cluster's certificates"
    { have nsenter && have unshare && have flock; } || need util-linux "creates and enters the node's namespaces"
    have_go || have go || any /usr/lib/go/bin/go || need golang-go "builds Kubernetes, or fetches a Go that can"
}

need_for_chart() {
    have_certificates || need ca-certificates "to trust the servers for Go modules"
    have flock || need util-linux "flock, so that only one process builds Helm"
    { python3 -c 'import yaml' || /usr/bin/python3 -c 'import yaml'; } 2>/dev/null || need python3-yaml "reads the rendered chart"
    have_go || have go || any /usr/lib/go/bin/go || need golang-go "builds Helm, or fetches a Go that can"
}

install_packages() {
    [ -n "$packages" ] || return 0

    if ! have apt-get; then
        fail "apt-get not found. Install these packages (Debian names), then run this again:$reasons"
    fi
    root=
    if [ "$(id -u)" != 0 ]; then
        have sudo || fail "packages are missing and sudo is not available. As root, run: apt-get update && apt-get install -y$packages"
        root=sudo
    fi
    say "installing with ${root:+$root }apt-get:$reasons"
    $root apt-get update -q >&2 || say "apt-get update failed; trying with the existing package lists"
    # Somebody else may hold apt's lock: a new machine often upgrades itself.
    # shellcheck disable=SC2086 # packages are words
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 $packages >&2 || fail "apt-get could not install$packages; see the message above"
}

how_to_rust="install Rust $rust_version or newer with clippy and rustfmt (see https://rustup.rs), then run this again"

install_rust() {
    if have_rust; then
        if ! cargo clippy --version >/dev/null 2>&1 || ! cargo fmt --version >/dev/null 2>&1; then
            if have rustup; then
                say "adding clippy and rustfmt to Rust $found, for \`make test\`"
                rustup component add clippy rustfmt >&2 || say "could not add them; \`make test\` needs them"
            else
                say "clippy or rustfmt is missing; \`make test\` needs both"
            fi
        fi
        return
    fi
    if [ -n "$found" ]; then why="cargo is $found, but Assay needs $rust_version or newer"; else why="cargo not found"; fi
    if have rustup; then
        say "$why: installing stable Rust with rustup"
        rustup toolchain install stable --profile minimal --component clippy --component rustfmt >&2 ||
            fail "rustup failed; see the message above, or $how_to_rust"
        # A default that somebody chose is theirs to change.
        rustup default >/dev/null 2>&1 || rustup default stable >&2
        have_rust || fail "cargo is still ${found:-missing}: another toolchain or program comes before stable Rust. Run \
\`rustup default stable\`, or put RUSTUP_TOOLCHAIN=stable before the command"
    else
        say "$why: installing Rust with rustup (https://rustup.rs) into ${RUSTUP_HOME:-$HOME/.rustup} and" \
            "${CARGO_HOME:-$HOME/.cargo}; rustup adds the latter to PATH in your shell's profile"
        script=$(mktemp)
        trap 'rm -f "$script"' EXIT
        # The second address has the same script, for networks that know only the download server.
        for url in https://sh.rustup.rs https://static.rust-lang.org/rustup/rustup-init.sh; do
            if curl --proto '=https' --tlsv1.2 --retry 3 -sSfL "$url" -o "$script"; then break; fi
            : >"$script"
        done
        [ -s "$script" ] || fail "can't download rustup: $how_to_rust"
        RUSTUP_INIT_SKIP_PATH_CHECK=yes sh "$script" -y --profile minimal --default-toolchain stable \
            --component clippy --component rustfmt >&2 || fail "rustup failed; see the message above, or $how_to_rust"
        have_rust || fail "cargo is still ${found:-missing} after the installation: $how_to_rust"
    fi
}

# Debian's Go is too old to build Kubernetes, but it can fetch a newer one as a module, checked against Go's checksum database.
install_go() {
    if have_go; then return; fi
    go=$(command -v go || echo /usr/lib/go/bin/go)
    module=golang.org/toolchain@v0.0.1-go1.26.8.linux-$("$go" env GOARCH)
    say "$("$go" version | cut -d ' ' -f 3) is too old: fetching ${module#*-} from the Go module proxy into $cache/go"
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/.go.XXXXXX")
    trap 'chmod -R u+w "$new"; rm -rf "$new"' EXIT
    # From a folder without a go.mod, which could ask for another version.
    (cd "$new" && GOPATH=$new GOFLAGS=-modcacherw "$go" mod download "$module") >&2 ||
        fail "can't fetch Go; see the message above, or install Go 1.21 or newer (https://go.dev/doc/install)"
    # Modules have no executable files and no module inside; Go's own fetching mends that in the same way.
    chmod +x "$new/pkg/mod/$module"/bin/* "$new/pkg/mod/$module"/pkg/tool/*/*
    find "$new/pkg/mod/$module" -name _go.mod | while read -r file; do mv "$file" "${file%_go.mod}go.mod"; done
    rm -rf "$cache/go"
    mv "$new/pkg/mod/$module" "$cache/go"
}

# Debian's Prometheus, unpacked and not installed: nobody wants a service of it.
install_prometheus() {
    if [ -x "$cache/prometheus/usr/bin/promtool" ]; then return; fi
    say "unpacking Debian's prometheus into $cache/prometheus, for tests of alerts and metrics"
    mkdir -p "$cache/prometheus"
    root=
    [ "$(id -u)" = 0 ] || root=sudo
    # A new machine may not know yet which packages there are.
    download="apt-get download -q prometheus"
    (cd "$cache/prometheus" && { $download || { $root apt-get update -q && $download; }; } >&2 &&
        dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb) || fail "can't download prometheus; see the message above, or put prometheus and promtool into $cache/prometheus/usr/bin"
}

# Every cargo command, in every profile, links the RocksDB that was built once. Where that will be is known before.
configure_rocksdb() {
    dir=$(bench-image/rocksdb.sh where)
    mine='^(# Written by .make setup.*|\[env\]|ROCKSDB_LIB_DIR = .*|ROCKSDB_STATIC = .*|)$'
    config="# Written by \`make setup\`.
[env]
ROCKSDB_LIB_DIR = \"$dir\"
ROCKSDB_STATIC = \"1\""
    file=.cargo/config.toml
    if [ "$(cat $file 2>/dev/null)" = "$config" ]; then return; fi
    if [ -e $file ] && grep -Eqv "$mine" $file; then
        grep -qF "\"$dir\"" $file && return
        fail "$file has your own settings and was not changed. Add these lines, then run this again:
$config"
    fi
    mkdir -p .cargo
    printf '%s\n' "$config" >$file.new
    mv $file.new $file
}

[ "$(uname -s)" = Linux ] || fail "Assay needs Linux: it pins trials to CPUs and reads /proc and /sys"
case ${1:-all} in
images)
    need_for_images
    install_packages
    ;;
scripts)
    have shellcheck || need shellcheck "checks scripts"
    have python3 || need python3 "finds cycles between modules"
    install_packages
    ;;
cluster)
    need_for_cluster
    install_packages
    install_go
    install_prometheus
    ;;
chart)
    need_for_chart
    install_packages
    install_go
    install_prometheus
    scripts/helm.sh >/dev/null
    ;;
*)
    have_rust || true
    need_for_trials "${1:-all}"
    install_packages
    install_rust
    case ${1:-all} in all | bindings) configure_rocksdb ;; esac
    [ "${1:-all}" != all ] || bench-image/rocksdb.sh >/dev/null
    ;;
esac
