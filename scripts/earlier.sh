#!/bin/sh
# Builds the operator, the agent and the CLI of another commit, once per commit, and prints the folder that has them in bin/, with the
# chart and the definitions of that commit.
#
# usage: earlier.sh COMMIT
set -eu
cd "$(dirname "$0")/.."
. scripts/cache.sh
fail() {
    echo "earlier: $*" >&2
    exit 1
}
[ $# = 1 ] || fail "usage: earlier.sh COMMIT"
commit=$(git rev-parse --verify --quiet "$1^{commit}") ||
    fail "this clone has no commit $1: in a shallow one, \`git fetch --unshallow\` brings it"
target=${CARGO_TARGET_DIR:-target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
folder=$cache/earlier/$commit

build() {
    echo "building the programs of $1 once, into $folder" >&2
    source=$target/earlier/source
    rm -rf "$source" "$folder.new"
    mkdir -p "$source" "$folder.new/bin"
    git archive --format=tar --output "$source.tar" "$commit"
    tar -xf "$source.tar" -C "$source"
    # What was compiled stays in target, for the next commit or after an interruption.
    (cd "$source" && CARGO_TARGET_DIR=$target/earlier/target cargo build --locked --release \
        -p assay-cli -p assay-controller -p assay-agent) >&2
    for program in assay assay-operator assay-agent; do
        cp "$target/earlier/target/release/$program" "$folder.new/bin"
    done
    cp -R "$source/charts" "$source/crds" "$source/operator/Containerfile" "$folder.new"
    mv "$folder.new" "$folder"
}
once "$folder" build "$1"
echo "$folder"
