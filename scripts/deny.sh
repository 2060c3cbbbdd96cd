#!/bin/sh
# Checks dependencies by deny.toml with cargo-deny, which it builds once per version: licences, bans, where they come from, and
# known vulnerabilities.
set -eu
cd "$(dirname "$0")/.."
. scripts/cache.sh
version=0.20.2
folder=$cache/cargo-deny-$version
program=$folder/cargo-deny

build() {
    echo "cargo-deny: building cargo-deny $version once, into $folder: about a minute on 2 idle cores" >&2
    # It runs for seconds, so a compiler that optimises it would cost more than it saves. From a folder without a .cargo.
    (cd / && CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_DEBUG=false cargo install --quiet --locked --root "$folder/new" "cargo-deny@$version" >&2)
    mv "$folder/new/bin/cargo-deny" "$program"
    rm -rf "$folder/new"
}
once "$program" build

# The rules refuse what they are there for.
bad=$(mktemp -d)
trap 'rm -rf "$bad"' EXIT
mkdir "$bad/src"
: >"$bad/src/lib.rs"
printf '[package]\nname = "bad"\nversion = "1.0.0"\nedition = "2024"\nlicense = "GPL-3.0-only"\n' >"$bad/Cargo.toml"
if "$program" --offline --manifest-path "$bad/Cargo.toml" --config deny.toml check licenses >"$bad/out" 2>&1 || ! grep -q 'error\[rejected\]' "$bad/out"; then
    echo "deny: cargo-deny accepts a licence that deny.toml does not allow:" >&2
    cat "$bad/out" >&2
    exit 1
fi

"$program" --log-level error --locked check licenses bans sources
# Advisories are kept on a server of their own, which not every network lets through.
if "$program" --locked fetch db >"$bad/out" 2>&1; then
    "$program" --log-level error --locked --offline check advisories
else
    echo "deny: NOT RUN: advisory database: known vulnerabilities are not checked, since it can't be fetched: $(grep . "$bad/out" | tail -n 1)" >&2
fi
