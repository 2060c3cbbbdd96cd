#!/bin/sh
# Builds RocksDB's own db_bench over the very library that assay-bench links, and prints its path.
set -eu
cd "$(dirname "$0")/.."
lib=$(./rocksdb.sh)
out=$lib/db_bench
if [ ! -x "$out" ]; then
    version=$(basename "$lib" | sed 's/-[0-9a-f]*$//')
    source=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -type d -name "librocksdb-sys-$version" | head -n 1)/rocksdb
    echo "building db_bench ($version), half a minute; needs libgflags-dev, liblz4-dev, libsnappy-dev and libzstd-dev" >&2
    flags=$(sed -n 's/^flags=//p' "$lib/build-info")
    objects=
    mkdir -p "$lib/db_bench.build"
    for file in tools/db_bench tools/db_bench_tool tools/simulated_hybrid_file_system tools/tool_hooks \
        test_util/testutil test_util/sync_point test_util/sync_point_impl test_util/transaction_test_util; do
        object=$lib/db_bench.build/$(basename $file).o
        # shellcheck disable=SC2086 # flags are words
        c++ -std=c++20 $flags -DNDEBUG -DGFLAGS=gflags -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX -DOS_LINUX \
            -DLZ4 -DZSTD -DSNAPPY -DROCKSDB_SUPPORT_THREAD_LOCAL -DHAVE_ALIGNED_NEW -DHAVE_UINT128_EXTENSION \
            -include cstdint -I"$source" -I"$source/include" -c "$source/$file.cc" -o "$object"
        objects="$objects $object"
    done
    # The codecs that assay-bench links, not the system's: another version would be another measurement.
    codecs=
    for codec in snappy lz4 zstd; do
        codecs="$codecs $(find ../target/measured/build -name "lib$codec.a" | head -n 1)"
    done
    # shellcheck disable=SC2086 # objects and codecs are words
    c++ $objects "$lib/librocksdb.a" $codecs -lgflags -lpthread -ldl \
        -Wl,--allow-multiple-definition -o "$out.new"
    mv "$out.new" "$out"
    rm -rf "$lib/db_bench.build"
fi
echo "$out"
