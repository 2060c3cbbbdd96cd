use assay_protocol::{KeyOrder, KeyValue, ValueBytes};

use super::*;
use crate::adopt::draft::Cache;

fn draft(command: &str) -> Draft {
    from_command("bench", command, 8).unwrap()
}

fn workload(command: &str) -> KeyValue {
    let draft = draft(command);
    assert_eq!(draft.scenarios.len(), 1, "{command}");
    draft.scenarios[0].workload.clone()
}

/// `role: steps mix`, as the file says it.
fn roles(workload: &KeyValue) -> Vec<String> {
    let mix = |role: &assay_protocol::Role| {
        let mix = role.mix;
        let weights = [
            ("put", mix.put),
            ("get", mix.get),
            ("missing", mix.get_missing),
            ("delete", mix.delete),
            ("scan", mix.scan),
        ];
        let set: Vec<String> =
            weights.iter().filter(|(_, weight)| *weight > 0).map(|(name, weight)| format!("{name} {weight}")).collect();
        set.join(" ")
    };
    let length =
        |role: &assay_protocol::Role| role.steps.map_or("until the first ends".to_owned(), |steps| steps.to_string());
    workload
        .roles
        .iter()
        .map(|role| format!("{} {}x{}: {}", role.name, role.threads, length(role), mix(role)))
        .collect()
}

#[test]
fn a_command_line_becomes_an_experiment() {
    let draft = draft(
        "db_bench --benchmarks=fillrandom,stats,readrandom --num=1000000 --value_size=400 --key_size=20 --threads=4 \
         --compression_type=lz4 --cache_size=1073741824 --write_buffer_size=33554432 --histogram --seed 7",
    );
    let names: Vec<&str> = draft.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    assert_eq!(names, ["fillrandom", "readrandom"]);
    let [fill, read] = [&draft.scenarios[0].workload, &draft.scenarios[1].workload];
    assert_eq!((fill.keys, fill.key_bytes, fill.value_bytes), (1_000_000, 20, ValueBytes::Fixed(400)));
    assert_eq!((fill.preload, read.preload), (Preload::Empty, Preload::Shuffled));
    assert_eq!(roles(fill), ["writer 4x4000000: put 1"]);
    assert_eq!(roles(read), ["reader 4x4000000: get 1"]);
    assert_eq!(draft.cache, Some(Cache { bytes: 1 << 30, shared: true }));
    assert_eq!(draft.baseline.families[0].1["write_buffer_size"], "33554432");
    assert!(!draft.baseline.families[0].1.contains_key("compression"), "it is RocksDB's default");
    assert_eq!(draft.seed, Some(7));
    assert_eq!(
        draft.lost,
        [
            "not needed, as datasets are settled and records have the statistics: stats",
            "not needed: --histogram",
            "same as RocksDB's default: --compression_type=lz4",
        ]
    );
}

#[test]
fn benchmarks_become_roles() {
    for (command, expected) in [
        ("--benchmarks=fillseq --num=100", &["writer 1x100: put 1"][..]),
        ("--benchmarks=fillrandom --num=100 --batch_size=8", &["writer 1x13: put 1"]),
        ("--benchmarks=fillbatch --num=5000", &["writer 1x5: put 1"]),
        ("--benchmarks=overwrite --num=100 --writes=30 --threads=2", &["writer 2x60: put 1"]),
        ("--benchmarks=readrandom --num=100 --reads=30", &["reader 1x30: get 1"]),
        ("--benchmarks=readmissing --num=100", &["reader 1x100: missing 1"]),
        ("--benchmarks=readseq --num=5000", &["reader 1x50: scan 1"]),
        ("--benchmarks=seekrandom --num=100 --seek_nexts=10", &["reader 1x100: scan 1"]),
        ("--benchmarks=deleterandom --num=100 --deletes=20", &["deleter 1x20: delete 1"]),
        ("--benchmarks=updaterandom --num=100", &["client 1x200: put 1 get 1"]),
        ("--benchmarks=readrandomwriterandom --num=100 --readwritepercent=80", &["client 1x100: put 20 get 80"]),
        (
            "--benchmarks=readwhilewriting --num=100 --threads=4",
            &["reader 4x400: get 1", "writer 1xuntil the first ends: put 1"],
        ),
        (
            "--benchmarks=seekrandomwhilewriting --num=100 --threads=2",
            &["reader 2x200: scan 1", "writer 1xuntil the first ends: put 1"],
        ),
    ] {
        assert_eq!(roles(&workload(command)), expected, "{command}");
    }
    assert_eq!(workload("--benchmarks=seekrandom --seek_nexts=10").roles[0].scan_length, 10);
    assert_eq!(workload("--benchmarks=seekrandom").roles[0].scan_length, 1);
    assert_eq!(workload("--benchmarks=fillseq").roles[0].key_order, KeyOrder::Sequential);
    let large = workload("--benchmarks=fill100K --num=2000 --threads=4");
    assert_eq!((large.keys, roles(&large)), (2, vec!["writer 4x8000: put 1".to_owned()]));
}

#[test]
fn readers_find_what_was_filled_before() {
    let preloads = |command: &str| -> Vec<(String, Preload)> {
        let scenarios = draft(command).scenarios.into_iter();
        scenarios.map(|scenario| (scenario.name, scenario.workload.preload)).collect()
    };
    assert_eq!(
        preloads("--benchmarks=fillseq,readrandom,fillrandom,readrandom"),
        [
            ("fillseq".to_owned(), Preload::Empty),
            ("readrandom".to_owned(), Preload::Sequential),
            ("fillrandom".to_owned(), Preload::Empty),
            ("readrandom-2".to_owned(), Preload::Shuffled),
        ]
    );
    let again = draft("--benchmarks=readrandom[X3-W1],readrandom");
    assert_eq!(again.scenarios.len(), 1);
    assert!(again.lost[0].starts_with("readrandom[X3-W1]: repetitions"), "{:?}", again.lost);
    assert!(again.lost[1].starts_with("readrandom: the same once more"), "{:?}", again.lost);
}

#[test]
fn rates_become_paces() {
    let pace = |command: &str| -> Vec<Option<u64>> {
        workload(command).roles.iter().map(|role| role.steps_per_second).collect()
    };
    let common = "--num=1000 --key_size=20 --value_size=80";
    assert_eq!(
        pace(&format!("--benchmarks=readwhilewriting --benchmark_write_rate_limit=1000000 {common}")),
        [None, Some(10_000)]
    );
    // db_bench's writer has no limit of its own; here it needs one.
    let unlimited = draft(&format!("--benchmarks=readwhilewriting {common}"));
    assert_eq!(unlimited.scenarios[0].workload.roles[1].steps_per_second, Some(10_000));
    assert!(unlimited.scenarios[0].notes[0].contains("set stepsPerSecond"), "{:?}", unlimited.scenarios[0].notes);
    assert_eq!(
        pace(&format!("--benchmarks=overwrite --benchmark_write_rate_limit=1000000 --batch_size=10 {common}")),
        [Some(1000)]
    );
    assert_eq!(pace(&format!("--benchmarks=readrandom --benchmark_read_rate_limit=500 {common}")), [Some(500)]);
    // What would take longer than a deadline is cut.
    let slow = draft("--benchmarks=readrandom --benchmark_read_rate_limit=500 --num=10000000");
    assert_eq!(slow.scenarios[0].workload.roles[0].steps, Some(600_000));
    assert_eq!(slow.scenarios[0].notes, ["Cut to 1200 s at this pace."]);
}

#[test]
fn what_has_no_counterpart_is_named() {
    let draft = draft(
        "db_bench --benchmarks=mixgraph,multireadrandom,overwrite,fillsync --duration=60 --cache_type=lru_cache \
         --merge_operator put --key_size=4 --num_column_families=40 --compression_type=zlib --db /x",
    );
    assert_eq!(
        draft.lost,
        [
            "--num_column_families=40: 32 are the most",
            "--key_size=4: keys have at least 8 bytes",
            "mixgraph: not supported: approximate it with a mix of get, put and scan",
            "multireadrandom: the workloads do not use MultiGet",
            "fillsync: sync belongs to a config here, so it can't differ between scenarios; make it another experiment, with --sync",
            "--cache_type=lru_cache: the block cache is an LRU cache",
            "--merge_operator=put: no counterpart",
            "not needed: --db",
        ]
    );
    assert!(
        draft.left_behind()[0].starts_with("compression that this build does not have"),
        "{:?}",
        draft.left_behind()
    );
    assert!(
        draft.scenarios[0].notes[0].starts_with("db_bench ends this after 60 s."),
        "{:?}",
        draft.scenarios[0].notes
    );
    assert_eq!(draft.scenarios[0].workload.families.len(), 32);
    assert_eq!(draft.scenarios[0].workload.families[1], "column_family_name_000001");
    let yaml = draft.yaml();
    assert!(yaml.contains("# - mixgraph: not supported"), "{yaml}");
}

#[test]
fn what_can_not_be_an_experiment_says_why() {
    for (command, message) in [
        ("db_bench --num=5", "--benchmarks is missing"),
        (
            "db_bench --benchmarks=mixgraph,stats",
            "--benchmarks=mixgraph,stats: no benchmark becomes a scenario (mixgraph: not supported",
        ),
        ("db_bench --benchmarks=,", "--benchmarks=,: no benchmark becomes a scenario"),
        ("db_bench --benchmarks=readrandom --num=0", "--num=0: must be between 1 and"),
        ("db_bench --benchmarks=readrandom --threads=1000", "--threads=1000: must be between 1 and 256"),
        ("db_bench --benchmarks=readrandom --num=1M", "--num=1M: not a whole number"),
        ("db_bench --benchmarks=readrandom --readwritepercent=100", "--readwritepercent=100: must be between 1 and 99"),
        (
            "db_bench --benchmarks=readrandom --value_size_distribution_type=zipf",
            "--value_size_distribution_type=zipf: db_bench knows",
        ),
        (
            "db_bench --benchmarks=readrandom --value_size_distribution_type=uniform --value_size_min=9 --value_size_max=3",
            "--value_size_min=9 is above --value_size_max=3",
        ),
    ] {
        let said = from_command("bench", command, 1).unwrap_err();
        assert!(matches!(&said[..], [only] if only.starts_with(message)), "{command}: {said:?}");
    }
}

#[test]
fn everything_that_is_wrong_is_named_at_once() {
    let command = "db_bench --benchmark=fillrandom --num=1M fillseq --threads=0 --key_size=$K --sync=maybe \
                   --value_size_distribution_type=zipf --compression_type=brotli --reads=2000000000000 --numm=1000000 --max_write_buffer_number=99999999999";
    assert_eq!(
        from_command("bench", command, 1).unwrap_err(),
        [
            "\"fillseq\" is not a flag: write --flag=value, and quote values with blanks",
            "--key_size=$K: the shell has not replaced this; write the value itself",
            "--benchmark=fillrandom: did you mean --benchmarks=fillrandom?",
            "--max_write_buffer_number=99999999999: db_bench takes numbers between -2147483648 and 2147483647",
            "--compression_type=brotli: db_bench knows none, snappy, zlib, bzip2, lz4, lz4hc, xpress, zstd",
            "--sync=maybe: neither true nor false",
            "--num=1M: not a whole number (db_bench takes no suffixes such as K or M)",
            "--reads=2000000000000: must be between 0 and 1000000000000",
            "--threads=0: must be between 1 and 256",
            "--value_size_distribution_type=zipf: db_bench knows fixed, uniform and normal",
            "--numm=1000000: db_bench of RocksDB 11.8.1 has no such flag; did you mean num?",
        ]
    );
}

/// `DoWrite` passes no duration on unless keys are random, and `ReadSequential` never asks for one.
#[test]
fn a_duration_ends_what_it_ends_in_db_bench() {
    let ended = |benchmark: &str| {
        let draft = draft(&format!("--benchmarks={benchmark} --duration=60"));
        draft.scenarios[0].notes[0].starts_with("db_bench ends this after 60 s.")
    };
    let all = BENCHMARKS.into_iter().filter(|benchmark| !ended(benchmark));
    assert_eq!(
        all.collect::<Vec<_>>(),
        ["deleteseq", "fillbatch", "fillseq", "filluniquerandom", "readseq", "readtocache"]
    );
    assert_eq!(
        draft("--benchmarks=fillseq --duration=60").scenarios[0].notes,
        ["db_bench does all of its operations, too: --duration does not apply to this benchmark."]
    );
}

#[test]
fn what_db_bench_skips_is_no_scenario() {
    for (flag, why) in [
        ("--use_existing_db", "--use_existing_db: every dataset is filled anew"),
        ("--readonly=1", "--readonly: databases are opened for writing, and every dataset is filled anew"),
    ] {
        let draft = draft(&format!("--benchmarks=fillseq,fill100K,readrandom,overwrite {flag}"));
        let scenarios: Vec<&str> = draft.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
        assert_eq!(scenarios, ["readrandom", "overwrite"]);
        // What is not filled leaves nothing behind.
        assert_eq!(draft.scenarios[0].workload.preload, Preload::Shuffled);
        let name = flag.trim_end_matches("=1");
        let skipped = |benchmark: &str| {
            format!("{benchmark}: db_bench skips it with {name}; remove that flag to have a scenario")
        };
        assert_eq!(draft.lost, [why.to_owned(), skipped("fillseq"), skipped("fill100K")]);
        let said = from_command("bench", &format!("--benchmarks=fillseq {flag}"), 1).unwrap_err();
        assert!(said[0].starts_with("--benchmarks=fillseq: no benchmark becomes a scenario ("), "{said:?}");
    }
    assert_eq!(draft("--benchmarks=fillseq --use_existing_db=0").lost, Vec::<String>::new());
}

/// Every benchmark that there is, alone and together.
#[test]
fn all_drafts_are_valid() {
    let all = BENCHMARKS.join(",");
    for benchmarks in BENCHMARKS.into_iter().chain([all.as_str()]) {
        for flags in [
            "",
            "--threads=16 --num=100",
            "--benchmark_read_rate_limit=10 --benchmark_write_rate_limit=1",
            "--cache_size=0",
        ] {
            let draft = draft(&format!("db_bench --benchmarks={benchmarks} {flags}"));
            let problems = super::super::testing::errors(&draft);
            assert_eq!(problems, Vec::<String>::new(), "{benchmarks} {flags}\n{}", draft.yaml());
        }
    }
}
