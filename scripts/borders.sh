#!/bin/sh
# Checks the borders between crates on what cargo resolves, so that a dependency of a dependency counts too, and that modules of a
# crate form no circle.
set -eu
cd "$(dirname "$0")/.."

# check CRATE EDGES REASON NAMES <tree: fails where the tree of CRATE has a package whose name matches NAMES.
check() {
    names=$(sed 's/ .*//' | sort -u)
    if ! printf '%s\n' "$names" | grep -qx "$1"; then
        echo "borders: can't read the dependency tree of $1" >&2
        return 1
    fi
    bad=$(printf '%s\n' "$names" | grep -Ex "$4" || true)
    [ -n "$bad" ] || return 0
    for name in $bad; do
        echo "borders: $1 must not depend on $name: $3; see \`cargo tree -p $1 -e $2 -i $name\`" >&2
    done
    return 1
}

# only CRATE <inverted tree: fails where another crate of this workspace (shown with its path) depends on it.
only() {
    users=$(sed -n 's|^\([^ ]*\) v[^ ]* (/.*|\1|p' | sort -u)
    if [ "$users" = "$1" ]; then return 0; fi
    echo "borders: only $1 may link RocksDB, but these crates do: $(echo "$users" | tr '\n' ' ')" >&2
    return 1
}

# alone FOLDER ROOM: fails where a file below FOLDER names a type or function of RocksDB, except in its ROOM.
alone() {
    named=$(grep -rlE '(^|[^[:alnum:]_])(rocksdb::|(use|crate) rocksdb([^[:alnum:]_]|$))' "$1" || true)
    bad=$(printf '%s\n' "$named" | grep -v "^$1/$2/" || true)
    if [ -n "$named" ] && [ -z "$bad" ]; then return 0; fi
    echo "borders: in $1, only $2/ may call RocksDB, but these files do: $(echo "$bad" | tr '\n' ' ')" >&2
    return 1
}

# A check that can't fail checks nothing: each is shown a bad tree first.
self_test() {
    good='a v1.0.0 (/src/a)
tokio-free v1.0.0
b v1.0.0 (*)'
    printf '%s\n' "$good" | check a normal test 'tokio|hyper' || return 1
    printf '%s\n%s\n' "$good" 'tokio v1.0.0' | check a normal test 'tokio|hyper' 2>/dev/null && return 1
    printf '' | check a normal test 'tokio|hyper' 2>/dev/null && return 1
    printf '%s\n' 'librocksdb-sys v0.1.0' 'rocksdb v0.1.0' 'a v1.0.0 (/src/a)' | only a || return 1
    printf '%s\n' 'librocksdb-sys v0.1.0' 'a v1.0.0 (/src/a)' 'b v1.0.0 (/src/b)' | only a 2>/dev/null && return 1
    printf '' | only a 2>/dev/null && return 1
    crate=$(mktemp -d)
    trap 'rm -rf "$crate"' EXIT
    mkdir "$crate/engine"
    alone "$crate" engine 2>/dev/null && return 1
    echo 'use rocksdb::DB;' >"$crate/engine/open.rs"
    echo 'fn rocksdb_version() {}' >"$crate/main.rs"
    alone "$crate" engine || return 1
    for planted in 'use rocksdb::{DB, Options};' 'fn f(db: &rocksdb::DB) {}' 'use rocksdb as r;' 'extern crate rocksdb;'; do
        echo "$planted" >"$crate/planted.rs"
        alone "$crate" engine 2>/dev/null && return 1
    done
    scripts/modules.py --self-test
}
self_test || { echo "borders: the check itself is broken" >&2; exit 1; }

failed=0
# tree CRATE EDGES REASON NAMES
tree() {
    cargo tree --locked --quiet --prefix none -p "$1" -e "$2" | check "$@" || failed=1
}
runtime='(tokio|hyper|reqwest|async-std|smol)(-.*)?|kube-(client|runtime)'
engine='rocksdb|librocksdb-sys'
# Crates that compile foreign code, except those that only declare what the system has.
plusplus='cmake|bindgen|cxx|link-cplusplus|[a-z0-9-]+-sys'
foreign="cc|$plusplus"
tree assay-core normal "it is pure: no runtime, no client, no I/O" "$runtime|$engine"
tree assay-api normal "it is types only" "$runtime|$engine"
tree assay-protocol normal,build "the protocol is serde and nothing else" "$runtime|$engine|kube.*|k8s-openapi|assay-(api|core|cli)|$foreign"
# The client's TLS is ring, which has C and assembler in it; a linker, and so a compiler of C, is there wherever Rust is.
tree assay-cli normal,build "it builds without a compiler of C++" "$engine|$plusplus"
tree assay-controller normal,build "it builds without a compiler of C++" "$engine|$plusplus"
tree assay-agent normal,build "it builds without a compiler of C++" "$engine|$plusplus"
cargo tree --locked --quiet --prefix none --workspace -e normal,build,dev -i librocksdb-sys | only assay-bench || failed=1
alone bench-image/bench/src engine || failed=1
scripts/modules.py operator/*/ bench-image/bench bench-image/protocol || failed=1
scripts/modules.py --picture CONTRIBUTING.md || failed=1
if [ $failed = 0 ]; then echo "borders: ok"; fi
exit $failed
