use assay_protocol::{BlockCache, FamilyOptions, Summary};

use super::super::testing::{codes, experiment, gated_with_all};
use super::*;
use crate::experiment::Experiment;

mod rules;

/// A candidate that sets these options for all families, and nothing else; the baseline sets none.
fn with_options(options: &[(&str, &str)]) -> Experiment {
    let mut experiment = experiment();
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    for config in &mut experiment.configs {
        config.engine = EngineConfig::default();
    }
    experiment.configs[1].engine.column_families = vec![FamilyOptions { r#match: vec!["*".to_owned()], options }];
    experiment
}

/// Nothing at all happened, and somebody looked.
fn asleep() -> Engagement {
    Engagement {
        flushes: Some(0),
        compactions: Some(0),
        l0_files_peak: Some(0),
        filled_memtables: Some(0),
        fullest_memtable_bytes: Some(0),
        immutable_memtables_peak: Some(0),
        memtable_bytes_peak: Some(0),
        buffer_manager_flushes: Some(0),
        largest_file_bytes: Some(0),
        fifo_drops: Some(0),
        flushes_due_peak: Some(0),
        compactions_due_peak: Some(0),
        grouped_writes: Some(0),
        wal_bytes: Some(0),
        stalls: Some(0),
        user_bytes_written: Some(0),
        block_cache_misses: Some(0),
        block_cache_hits: Some(0),
        bytes_decompressed: Some(0),
        levels_compressed: Some(vec![]),
        levels_read: Some(vec![]),
        base_levels: Some([6, 6]),
        last_level: Some(6),
        idle_families: Some(vec![]),
    }
}

/// The findings about the candidate, and the notes, when these trials saw something.
fn found(experiment: &Experiment, happened: impl Fn(&mut Summary)) -> (Vec<Code>, Vec<String>) {
    let gated = gated_with_all(experiment, |summary| {
        summary.engagement = asleep();
        happened(summary);
    });
    assert!(gated.trials.iter().all(|state| codes(state).is_empty()), "the runs themselves are fine");
    assert!(gated.configs.is_empty() && gated.experiment.is_empty());
    let cells = gated.cells.get(&("fill".to_owned(), "candidate".to_owned()));
    let notes = gated.notes.iter().map(|note| note.text.clone()).collect();
    (cells.into_iter().flatten().map(|finding| finding.code).collect(), notes)
}

fn in_block(trial: &Summary, config: &str, block: u32) -> bool {
    trial.trial.config == config && trial.trial.block == block
}

#[test]
fn one_sign_in_one_trial_of_either_arm_is_enough() {
    for (option, happen) in [
        ("max_total_wal_size", (|seen| seen.flushes = Some(1)) as fn(&mut Engagement)),
        ("delayed_write_rate", |seen| seen.stalls = Some(1)),
        ("compression_opts", |seen| seen.bytes_decompressed = Some(1)),
        ("max_subcompactions", |seen| seen.compactions = Some(1)),
        ("num_levels", |seen| seen.levels_read = Some(vec![6])),
        ("compaction_style", |seen| seen.fifo_drops = Some(1)),
        ("enable_pipelined_write", |seen| seen.grouped_writes = Some(1)),
        ("block_based_table_factory", |seen| seen.block_cache_misses = Some(1)),
        ("use_direct_reads", |seen| seen.block_cache_misses = Some(1)),
        ("wal_compression", |seen| seen.wal_bytes = Some(1)),
        ("unordered_write", |seen| seen.user_bytes_written = Some(1)),
    ] {
        let experiment = with_options(&[(option, "7")]);
        assert_eq!(found(&experiment, |_| ()).0, [Code::NotEngaged], "{option} without its sign");
        for config in ["base", "candidate"] {
            let (codes, notes) = found(&experiment, |summary| {
                if in_block(summary, config, 3) {
                    happen(&mut summary.engagement);
                }
            });
            assert!(codes.is_empty() && notes.is_empty(), "{option} seen in {config}: {codes:?} {notes:?}");
        }
    }
}

#[test]
fn every_option_of_the_table_has_one_sign_and_can_fail_it() {
    let options: Vec<&str> = signs::options().collect();
    let asleep = asleep();
    let blind = Engagement::default();
    for option in &options {
        assert_eq!(options.iter().filter(|other| *other == option).count(), 1, "{option} is listed twice");
        let places = [Case::place(option, None, Some("7"))];
        let answer = |seen| signs::answer(&Case { option, places: &places, seen: &[seen], migration: false });
        assert!(matches!(answer(&asleep), Answer::Idle(_)), "{option}");
        // These need another option before there is anything to see.
        let needs_another =
            ["memtable_prefix_bloom_size_ratio", "memtable_whole_key_filtering", "compaction_options_fifo"];
        if !needs_another.contains(option) {
            assert_eq!(answer(&blind), Answer::Unknown, "{option}");
        }
    }
}

#[test]
fn triggers_act_from_the_lower_value_on() {
    let peak = |files: u64| move |summary: &mut Summary| summary.engagement.l0_files_peak = Some(files);
    // The baseline has RocksDB's default of 4.
    let higher = with_options(&[("level0_file_num_compaction_trigger", "8")]);
    assert_eq!(found(&higher, peak(3)).0, [Code::NotEngaged]);
    assert_eq!(found(&higher, peak(4)).0, []);
    let lower = with_options(&[("level0_file_num_compaction_trigger", "2")]);
    assert_eq!(found(&lower, peak(1)).0, [Code::NotEngaged]);
    assert_eq!(found(&lower, peak(2)).0, []);
    let stop = with_options(&[("level0_stop_writes_trigger", "100")]);
    assert_eq!(found(&stop, peak(35)).0, [Code::NotEngaged]);
    assert_eq!(found(&stop, peak(36)).0, []);
    // Universal compaction has other things to count than files in L0.
    let mut universal = with_options(&[("level0_file_num_compaction_trigger", "8")]);
    let style = ("compaction_style".to_owned(), "kCompactionStyleUniversal".to_owned());
    for config in &mut universal.configs {
        config.engine.db_options.extend([style.clone()]);
    }
    assert_eq!(found(&universal, peak(3)).0, []);
    // Switched off is no value to reach, and what is no number says nothing.
    let off = with_options(&[("level0_slowdown_writes_trigger", "-1")]);
    assert_eq!(found(&off, peak(19)).0, [Code::NotEngaged]);
    assert_eq!(found(&off, peak(20)).0, []);
    let (codes, notes) = found(&with_options(&[("level0_stop_writes_trigger", "many")]), peak(1));
    assert!(codes.is_empty());
    assert_eq!(notes, ["Unknown whether these took effect in fill: level0_stop_writes_trigger."]);
}

#[test]
fn the_message_says_what_was_seen() {
    let experiment = with_options(&[("level0_stop_writes_trigger", "72"), ("write_buffer_size", "128M")]);
    let gated = gated_with_all(&experiment, |summary| {
        summary.engagement = asleep();
        summary.engagement.l0_files_peak = Some(2);
    });
    let found = gated.cells[&("fill".to_owned(), "candidate".to_owned())].first().map(|f| f.message.clone());
    assert_eq!(
        found.as_deref(),
        Some(
            "no change of candidate took effect in fill: level0_stop_writes_trigger (at most 2 files in L0; it takes \
             effect at 36), write_buffer_size (no memtable filled up: the largest held 0 B; it takes effect at 64 MiB \
             in one family)"
        )
    );
}

#[test]
fn one_that_acts_carries_the_others_which_are_named() {
    let experiment = with_options(&[("level0_stop_writes_trigger", "72"), ("write_buffer_size", "128M")]);
    let (codes, notes) = found(&experiment, |summary| summary.engagement.filled_memtables = Some(3));
    assert!(codes.is_empty());
    assert_eq!(
        notes,
        ["Never took effect in fill: level0_stop_writes_trigger (at most 0 files in L0; it takes effect at 36)."]
    );
}

#[test]
fn what_nobody_can_see_is_never_held_against_a_config() {
    let says = "Unknown whether these took effect in fill: ";
    for (options, named) in [
        (&[("memtable_factory", "skip_list")][..], "memtable_factory"),
        (&[("memtable_factory", "skip_list"), ("write_buffer_size", "1")], "memtable_factory"),
    ] {
        let (codes, notes) = found(&with_options(options), |_| ());
        assert!(codes.is_empty());
        assert!(notes.contains(&format!("{says}{named}.")), "{notes:?}");
    }
    let mut image = with_options(&[]);
    image.configs[1].image = Some("other:1".to_owned());
    assert_eq!(found(&image, |_| ()), (vec![], vec![format!("{says}image.")]));
    // A log that could not be read in a single trial may have had the sign.
    let (codes, notes) = found(&with_options(&[("write_buffer_size", "1")]), |summary| {
        if in_block(summary, "base", 0) {
            summary.engagement.filled_memtables = None;
        }
    });
    assert_eq!((codes, notes), (vec![], vec![format!("{says}write_buffer_size.")]));
}

/// They are compared with each of two configs.
#[test]
fn runs_of_the_baseline_of_which_something_is_unknown_count_once() {
    let mut experiment = with_options(&[("memtable_factory", "skip_list")]);
    let mut other = experiment.configs[1].clone();
    other.name = "other".to_owned();
    other.engine.column_families[0].options = [("unheard_of".to_owned(), "1".to_owned())].into();
    experiment.configs.push(other);
    let unknown = &gated_with_all(&experiment, |summary| summary.engagement = asleep()).unknown[&Gate::Engaged];
    let arm = experiment.repetitions as usize;
    assert_eq!(unknown.runs(), 3 * arm);
    let of_two = format!("({} runs)", 2 * arm);
    assert_eq!(unknown.names(), [format!("memtable_factory {of_two}"), format!("unheard_of {of_two}")]);
}

#[test]
fn fields_beside_options_count() {
    let mut cache = with_options(&[]);
    cache.configs[1].engine.block_cache = Some(BlockCache { bytes: 1 << 20, shared: true });
    assert_eq!(found(&cache, |_| ()).0, [Code::NotEngaged]);
    assert_eq!(found(&cache, |summary| summary.engagement.block_cache_hits = Some(1)).0, []);
    let mut sync = with_options(&[]);
    sync.configs[1].engine.write_options.sync = true;
    assert_eq!(found(&sync, |_| ()).0, [Code::NotEngaged]);
    assert_eq!(found(&sync, |summary| summary.engagement.user_bytes_written = Some(1)).0, []);
}

#[test]
fn an_a_a_config_has_nothing_to_engage() {
    assert_eq!(found(&with_options(&[]), |_| ()), (vec![], vec![]));
}
