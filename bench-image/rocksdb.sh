#!/bin/sh
# Builds RocksDB once per machine, for every profile and target folder, and prints the folder that holds it.
# cargo would compile it again for each profile, and that takes most of a build's time. The sources are
# those of the librocksdb-sys that Cargo.lock names; point ROCKSDB_LIB_DIR at the printed folder to link it.
#
# usage: rocksdb.sh [where]   where: only say which folder that will be
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

# Much of the time that a file takes goes into the headers of the standard library, the same for each of them: GCC reads them once, and
# makes the same code of that to the byte. Where its options don't fit theirs, it reads them again.
read_headers_once() {
    headers=$1/headers.h
    mkdir -p "$1"
    for header in algorithm array atomic cassert chrono cinttypes condition_variable cstdint cstdio cstring deque functional limits list \
        map memory mutex optional set sstream string thread tuple unordered_map unordered_set utility variant vector; do
        echo "#include <$header>"
    done >"$headers"
    # shellcheck disable=SC2086 # words
    c++ -x c++-header -std=c++20 -O3 $flags -DNDEBUG -fPIC -ffunction-sections -fdata-sections "$headers" -o "$headers.gch"
    # Before all other headers, or they would not be taken.
    printf '#!/bin/sh\nexec c++ -include "%s" "$@"\n' "$headers" >"$1/c++"
    chmod +x "$1/c++"
    export CXX="$1/c++"
}

build() {
    echo "building RocksDB ($version) once, into $dir: about 8 minutes on 2 cores" >&2
    case "${CXX:-}$compiler" in 'c++ ('* | 'g++ ('*) read_headers_once "$dir/build" ;; esac
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
[ "${1:-}" = where ] || once "$dir/librocksdb.a" build
echo "$dir"
