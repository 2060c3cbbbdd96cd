#!/bin/sh
# Measures assay-bench against RocksDB's db_bench: same library, sizes, compression, cache and thread count,
# statistics and histograms on on both sides, the same files. Prints the ratio of operations per second with its interval,
# and whether assay-bench is non-inferior.
#
# A machine gets faster and slower within seconds, more than what is to be seen. So the two of a pair run at the same time
# and take turns on one CPU: while one runs, the other is stopped, and the time that it was stopped is not its own.
#
# usage: compare.sh [PAIRS [KEYS]]      environment: ASSAY_BENCH, WORK (a folder on the disk to measure on),
#        NAMES (fillrandom overwrite readrandom), CPU (the last), TURN (seconds)
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
turn=${TURN:-0.3}
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

start_assay() {
    spec "$1" "$2" >"$work/spec.json"
    rm -f "$work/record.json"
    taskset -c "$cpu" "$bench" run "$work/spec.json" --data "$work/data" --out "$work/record.json" \
        >"$work/assay.log" 2>"$work/assay.err" &
    pid=$!
}

start_db_bench() {
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
        --pin_top_level_index_and_filter=true --perf_level=2 --hard_pending_compaction_bytes_limit=274877906944 \
        --benchmarks="$1" --db="$db" --use_existing_db=$existing --num="$keys" --reads="$keys" --threads=1 \
        --key_size=20 --value_size=$value --compression_type=lz4 --compression_ratio=0.5 \
        --cache_type=lru_cache --cache_size=$cache --statistics --histogram --stats_interval=1000 --seed="$2" \
        >"$work/db_bench.log" 2>"$work/db_bench.err" &
    pid=$!
}

# What each of them says when its first and its last operation is done.
assay_runs() { grep -q '"phase":"measure"' "$work/assay.log"; }
assay_done() { grep -q '"phase":"drain"' "$work/assay.log" || is_over "$assay"; }
db_bench_runs() { grep -q 'thread 0: (' "$work/db_bench.err"; }
db_bench_done() { grep -q 'ops/sec' "$work/db_bench.log" || is_over "$other"; }
is_over() { ! grep -q '^State:[[:space:]]*[^Z]' "/proc/$1/status" 2>/dev/null; }

# wait_for CONDITION PID
wait_for() {
    until "$1"; do
        if is_over "$2"; then
            echo "compare.sh: it ended before it began: see $work/*.err" >&2
            exit 1
        fi
        sleep 0.005
    done
}

# turn PID DONE: lets it run for a while. Its stops up to now are in $stopped, in nanoseconds.
turn() {
    kill -CONT "$1"
    stopped=$((stopped + $(date +%s%N) - since))
    sleep "$turn"
    if ! "$2"; then
        kill -STOP "$1"
        since=$(date +%s%N)
    fi
}

# pair NAME NUMBER: both, in turns; sets $a and $b to their operations per second.
pair() {
    start_assay "$1" "$2"
    assay=$pid
    wait_for assay_runs "$assay"
    kill -STOP "$assay"
    assay_since=$(date +%s%N)
    start_db_bench "$1" "$2"
    other=$pid
    wait_for db_bench_runs "$other"
    kill -STOP "$other"
    other_since=$(date +%s%N)
    assay_stopped=0
    other_stopped=0
    # Who comes first is random.
    next=$(($(od -An -N1 -tu1 /dev/urandom) % 2))
    while ! assay_done && ! db_bench_done; do
        if [ $next = 0 ]; then
            stopped=$assay_stopped since=$assay_since
            turn "$assay" assay_done
            assay_stopped=$stopped assay_since=$since
        else
            stopped=$other_stopped since=$other_since
            turn "$other" db_bench_done
            other_stopped=$stopped other_since=$since
        fi
        next=$((1 - next))
    done
    # The other one goes on alone. The one that is done may have been stopped on its way out.
    assay_done || assay_stopped=$((assay_stopped + $(date +%s%N) - assay_since))
    db_bench_done || other_stopped=$((other_stopped + $(date +%s%N) - other_since))
    kill -CONT "$assay" "$other" 2>/dev/null || true
    wait "$assay" || true
    wait "$other" || true
    rate=$(sed -n 's/.*"throughput":\([0-9.e+]*\).*/\1/p' "$work/record.json" | head -n 1)
    a=$(awk "BEGIN { print $keys / ($keys / $rate - $assay_stopped / 1e9) }")
    took=$(sed -n "s/^$1 .* ops\/sec \([0-9.]*\) seconds.*/\1/p" "$work/db_bench.log")
    b=$(awk "BEGIN { print $keys / ($took - $other_stopped / 1e9) }")
    rm -rf "$db"
}

# The dataset is prepared by the first trial that needs it.
start_assay readrandom 1000
wait "$pid"
filled=$(dirname "$(find "$work/data/datasets" -name '*.sst' | head -n 1)")

: >"$work/pairs.csv"
for name in ${NAMES:-fillrandom overwrite readrandom}; do
    number=0
    while [ $number -lt "$pairs" ]; do
        pair "$name" "$number"
        echo "$name,$number,$a,$b" | tee -a "$work/pairs.csv" >&2
        number=$((number + 1))
    done
done
cargo run --quiet --release -p assay-core --example paired_ratio -- "$work/pairs.csv" 3
