#!/bin/sh
# Builds a program from the Go module proxy, once per version, and prints its path.
#
# usage: go-tool.sh NAME VERSION PACKAGE
set -eu
name=$1
version=$2
package=$3
cache=${ASSAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/assay}
case $cache in /*) ;; *) cache=$(cd "$(dirname "$0")/.." && pwd)/$cache ;; esac
folder=$cache/$name-$version
fail() {
    echo "$name: $*" >&2
    exit 1
}

if [ ! -x "$folder/$name" ]; then
    mkdir -p "$folder"
    # One builder at a time: a second one waits here and then finds the program.
    exec 8>"$folder/lock"
    flock 8
fi
if [ ! -x "$folder/$name" ]; then
    # As scripts/setup.sh installs it, where the machine has none.
    go=$cache/go/bin/go
    [ -x "$go" ] || go=$(command -v go) || fail "there is no Go: run scripts/setup.sh chart"
    echo "$name: building $name $version once, into $folder: up to 2 minutes on 2 idle cores" >&2
    # From a folder without a go.mod, which could ask for another version.
    (cd / && CGO_ENABLED=0 GOFLAGS=-trimpath GOWORK=off GOBIN=$folder/new \
        "$go" install -ldflags '-s -w' "$package@v$version" >&2) || fail "it can't be built; see above"
    mv "$folder/new/$name" "$folder/$name"
    rmdir "$folder/new"
fi
echo "$folder/$name"
