#!/bin/sh
# Builds RocksDB once per machine, for every profile and target folder, and prints the folder that holds it.
# cargo would compile it again for each profile, and that takes most of a build's time. The sources are
# those of the librocksdb-sys that Cargo.lock names; point ROCKSDB_LIB_DIR at the printed folder to link it.
#
# usage: rocksdb.sh [where]   where: only say which folder that will be
set -eu
cd "$(dirname "$0")/.."
. scripts/cache.sh

# Files of RocksDB that are compiled as one.
PIECE=16

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
piece=$PIECE
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

# Most of the time that a file takes goes into headers, the same for each of them. GCC reads those of the standard library once; and
# RocksDB's own are read once for several files, which are compiled as one piece: its Makefile does that with all of them (`make unity.a`), so
# they may stand together. The first file of a piece stands for all of it, and of the others nothing is left to compile.
read_headers_once() {
    headers=$1/headers.h
    pieces=$1/pieces
    mkdir -p "$pieces"
    for header in algorithm array atomic cassert chrono cinttypes condition_variable cstdint cstdio cstring deque functional limits list \
        map memory mutex optional set sstream string thread tuple unordered_map unordered_set utility variant vector; do
        echo "#include <$header>"
    done >"$headers"
    # shellcheck disable=SC2086 # words
    c++ -x c++-header -std=c++20 -O3 $flags -DNDEBUG -fPIC -ffunction-sections -fdata-sections "$headers" -o "$headers.gch"
    case $package in
    path+file://*) sources=${package#path+file://} && sources=${sources%%#*} ;;
    *) sources=$(cargo metadata --format-version 1 --locked | sed -n 's/.*"manifest_path":"\([^"]*librocksdb-sys[^"]*\)\/Cargo.toml".*/\1/p') ;;
    esac
    grep '\.cc$' "$sources/rocksdb_lib_sources.txt" | grep -vx 'util/build_version.cc' |
        awk -v piece=$PIECE -v pieces="$pieces" -v sources="$sources/rocksdb" '{
            file = pieces "/" int((NR - 1) / piece) ".cc"
            print "#include \"" sources "/" $1 "\"" >file
            print $1, (NR - 1) % piece ? pieces "/empty.cc" : file >(pieces "/of")
        }'
    : >"$pieces/empty.cc"
    # The headers come before all others, or they would not be taken.
    cat >"$1/c++" <<EOF
#!/bin/sh
for argument do
    shift
    case \$argument in
    *rocksdb/*.cc)
        piece=\$(sed -n "s|^\${argument#*rocksdb/} ||p" "$pieces/of")
        argument=\${piece:-\$argument} ;;
    esac
    set -- "\$@" "\$argument"
done
exec c++ -include "$headers" "\$@"
EOF
    chmod +x "$1/c++"
    export CXX="$1/c++"
}

build() {
    echo "building RocksDB ($version) once, into $dir: about 6 minutes on 2 cores" >&2
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
