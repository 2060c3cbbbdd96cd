#!/bin/sh
# Measures assay-bench against RocksDB's db_bench: same library, sizes, compression, cache and thread count,
# statistics and histograms on on both sides, in randomised interleaved pairs on the same files.
# Prints the ratio of operations per second with its interval, and whether assay-bench is non-inferior.
#
# usage: compare.sh [PAIRS [KEYS]]      environment: ASSAY_BENCH, WORK (a folder on the disk to measure on),
#        NAMES (fillrandom overwrite readrandom), CPU (the last)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
pairs=${1:-12}
keys=${2:-1000000}
bench=${ASSAY_BENCH:-$here/../../bin/assay-bench}
work=${WORK:-$(mktemp -d)}
mkdir -p "$work"
db_bench=$("$here/build.sh")
# Both on one CPU, and this script on others: what `assay run` does with a trial by default.
cpu=${CPU:-$(($(nproc) - 1))}
[ "$cpu" = 0 ] || taskset -cp 0-$((cpu - 1)) $$ >/dev/null
value=400
cache=33554432
engine='{"dbOptions":{},"columnFamilies":[{"match":["*"],"options":{"compression":"kLZ4Compression"}}],"blockCache":{"bytes":'$cache',"shared":true},"writeOptions":{},"policy":{}}'

# spec NAME SEED: the TrialSpec that does what db_bench does under that name
spec() {
    case $1 in
    fillrandom) preload=Empty mix='"put":1' ;;
    overwrite) preload=Shuffled mix='"put":1' ;;
    readrandom) preload=Shuffled mix='"get":1' ;;
    esac
    cat <<JSON
{"version":1,"experiment":"db-bench","plan":"00000000000000000000000000000000",
 "trial":{"scenario":"$1","block":$2,"config":"assay","replicate":0,"order":0,"attempt":0},"seed":$2,
 "config":$engine,"baseline":$engine,
 "workload":{"keyValue":{"keys":$keys,"valueBytes":{"fixed":$value},"preload":"$preload",
  "roles":[{"name":"worker","steps":$keys,"mix":{$mix}}]}},
 "dataset":{"seed":1,"format":$engine},"pageCache":"Warm","cpus":1,"deadlineSeconds":3600,
 "maxDiskBytes":100000000000,"metrics":["throughput"]}
JSON
}

run_assay() {
    spec "$1" "$2" >"$work/spec.json"
    rm -f "$work/record.json"
    taskset -c "$cpu" "$bench" run "$work/spec.json" --data "$work/data" --out "$work/record.json" >/dev/null
    sed -n 's/.*"throughput":\([0-9.e+]*\).*/\1/p' "$work/record.json" | head -n 1
}

run_db_bench() {
    db=$work/db_bench
    rm -rf "$db"
    mkdir "$db"
    existing=0
    if [ "$1" != fillrandom ]; then
        existing=1
        # The files that assay-bench prepared: both read the same tree.
        for file in "$filled"/*; do
            case $file in *.sst) ln "$file" "$db/" ;; *) cp "$file" "$db/" ;; esac
        done
        cat "$db"/*.sst >/dev/null
    fi
    # db_bench has defaults of its own for some options; these are the library's.
    taskset -c "$cpu" "$db_bench" --enable_pipelined_write=false --delayed_write_rate=16777216 --dump_malloc_stats=false \
        --table_cache_numshardbits=6 --level_compaction_dynamic_level_bytes=true --index_shortening_mode=1 \
        --pin_top_level_index_and_filter=true --hard_pending_compaction_bytes_limit=274877906944 \
        --benchmarks="$1" --db="$db" --use_existing_db=$existing --num="$keys" --reads="$keys" --threads=1 \
        --key_size=20 --value_size=$value --compression_type=lz4 --compression_ratio=0.5 --cache_size=$cache \
        --statistics --histogram --seed="$2" 2>/dev/null |
        sed -n "s/^$1 .* micros\\/op \\([0-9]*\\) ops\\/sec.*/\\1/p"
    rm -rf "$db"
}

# The dataset is prepared by the first trial that needs it.
run_assay readrandom 1000 >/dev/null
filled=$(dirname "$(find "$work/data/datasets" -name '*.sst' | head -n 1)")

: >"$work/pairs.csv"
for name in ${NAMES:-fillrandom overwrite readrandom}; do
    pair=0
    while [ $pair -lt "$pairs" ]; do
        # The order is random, so that neither side always comes second.
        if [ $(($(od -An -N1 -tu1 /dev/urandom) % 2)) = 0 ]; then
            a=$(run_assay $name $pair)
            b=$(run_db_bench $name $pair)
        else
            b=$(run_db_bench $name $pair)
            a=$(run_assay $name $pair)
        fi
        echo "$name,$pair,$a,$b" | tee -a "$work/pairs.csv" >&2
        pair=$((pair + 1))
    done
done
cargo run --quiet --release -p assay-core --example paired_ratio -- "$work/pairs.csv" 3
