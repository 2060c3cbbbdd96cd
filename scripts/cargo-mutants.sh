#!/bin/sh
# Prints the path of cargo-mutants, which it builds once per version.
set -eu
cd "$(dirname "$0")/.."
. scripts/cache.sh
version=27.1.0
folder=$cache/cargo-mutants-$version

build() {
    echo "cargo-mutants: building cargo-mutants $version once, into $folder: about a minute on 2 idle cores" >&2
    # From a folder without a .cargo.
    (cd / && CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=false \
        cargo install --quiet --locked --root "$folder/new" "cargo-mutants@$version" >&2)
    mv "$folder/new/bin/cargo-mutants" "$folder/cargo-mutants"
    rm -rf "$folder/new"
}
once "$folder/cargo-mutants" build
echo "$folder/cargo-mutants"
