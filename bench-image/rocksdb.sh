#!/bin/sh
# Builds RocksDB once per machine, for every profile and target folder, and prints the folder that holds it.
# cargo would compile it again for each profile, and that takes most of a build's time. The sources are
# those of the librocksdb-sys that Cargo.lock names; point ROCKSDB_LIB_DIR at the printed folder to link it.
set -eu
cd "$(dirname "$0")/.."
. scripts/cache.sh

# RocksDB picks its CRC32C and bloom filter code at compile time: without these flags a trial would measure
# code that nobody ships. Every x86-64 server since 2013 has them.
flags=
if [ "$(uname -m)" = x86_64 ]; then
    if grep -qw avx2 /proc/cpuinfo; then flags="-march=x86-64-v3 -mpclmul"; else flags="-march=x86-64-v2 -mpclmul"; fi
fi
version=$(sed -n '/^name = "librocksdb-sys"$/{n;s/^version = "\(.*\)"$/\1/p;}' Cargo.lock)
compiler=$(c++ --version | head -n 1)
features=$(sed -n 's/^rocksdb = .*features = \[\(.*\)\].*/\1/p' Cargo.toml | tr -d '" ')
info="librocksdb-sys=$version
compiler=$compiler
flags=-O3 $flags
features=$features"
# Where Cargo.toml puts other sources in their place, the version says nothing about them.
package=$(cargo pkgid --quiet librocksdb-sys)
case $package in
registry+*) ;;
path+file://*)
    folder=${package#path+file://}
    sources=$(cd "${folder%%#*}" && find . -name .git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
    info="$info
sources=sha256:${sources%% *}"
    ;;
*) info="$info
sources=${package%%#*}" ;;
esac
key=$(printf '%s' "$info" | sha256sum | cut -c1-16)
dir=$cache/rocksdb/$version-$key

build() {
    echo "building RocksDB ($version) once, into $dir: about 11 minutes on 2 cores" >&2
    # From another folder, so that a .cargo/config.toml that already names a library is not read.
    manifest=$PWD/Cargo.toml
    (cd / && env -u ROCKSDB_LIB_DIR -u ROCKSDB_STATIC -u RUSTFLAGS \
        CXXFLAGS="${CXXFLAGS:-} $flags" CARGO_PROFILE_MEASURED_DEBUG=false \
        cargo build --quiet --locked --profile measured -p librocksdb-sys --manifest-path "$manifest" --target-dir "$dir/build" >&2)
    printf '%s\n' "$info" >"$dir/build-info"
    find "$dir/build" -name librocksdb.a -exec cp {} "$dir/librocksdb.a.new" \;
    mv "$dir/librocksdb.a.new" "$dir/librocksdb.a"
    rm -rf "$dir/build"
}
once "$dir/librocksdb.a" build
echo "$dir"
