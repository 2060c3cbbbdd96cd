#!/bin/sh
# Builds a program from the Go module proxy, once per version, and prints its path.
#
# usage: go-tool.sh NAME VERSION PACKAGE
set -eu
cd "$(dirname "$0")/.."
. scripts/cache.sh
name=$1
version=$2
package=$3
folder=$cache/$name-$version

build() {
    find_go
    echo "$name: building $name $version once, into $folder: up to 4 minutes on 2 cores" >&2
    # From a folder without a go.mod, which could ask for another version.
    (cd / && CGO_ENABLED=0 GOWORK=off GOBIN=$folder/new "$go" install -ldflags '-s -w' "$package@v$version" >&2)
    mv "$folder/new/$name" "$folder/$name"
    rmdir "$folder/new"
}
once "$folder/$name" build
echo "$folder/$name"
