//! Both sides of the rules that look at values.

use super::*;

/// What is said of one option that differs in one place, by one trial.
fn said(option: &str, places: &[Place], happened: impl Fn(&mut Engagement)) -> Answer {
    let mut seen = asleep();
    happened(&mut seen);
    signs::answer(&Case { option, places, seen: &[&seen], migration: false })
}

/// An option with its values in both arms.
type Change<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// One family in which several options are set.
fn place(changes: &[Change<'_>]) -> Place {
    let mut place = Place::default();
    for (option, before, after) in changes {
        let one = Case::place(option, *before, *after);
        place.before.extend(one.before);
        place.after.extend(one.after);
    }
    place
}

const MIB: u64 = 1 << 20;

type Happen = fn(&mut Engagement);

/// An option with its values in both arms, what is not enough for it, what is, and a part of what is said before.
type Row = (&'static str, Option<&'static str>, Option<&'static str>, Happen, Happen, &'static str);

/// The values are those that published tunings compared.
const ROWS: &[Row] = &[
    (
        "write_buffer_size",
        Some("536870912"),
        Some("134217728"),
        |seen| (seen.fullest_memtable_bytes, seen.flushes) = (Some(100 * MIB), Some(3)),
        |seen| seen.fullest_memtable_bytes = Some(128 * MIB),
        "the largest held 100 MiB; it takes effect at 128 MiB in one family",
    ),
    (
        "write_buffer_size",
        None,
        Some("128M"),
        |seen| seen.fullest_memtable_bytes = Some(63 * MIB),
        |seen| seen.filled_memtables = Some(1),
        "it takes effect at 64 MiB",
    ),
    (
        "max_write_buffer_number",
        Some("6"),
        Some("4"),
        |seen| seen.immutable_memtables_peak = Some(2),
        // Of four, writes are delayed at three.
        |seen| seen.immutable_memtables_peak = Some(3),
        "at most 2 memtables of a family waited for a flush; it delays writes at 3",
    ),
    (
        "max_write_buffer_number",
        None,
        Some("6"),
        |seen| seen.immutable_memtables_peak = Some(1),
        |seen| seen.immutable_memtables_peak = Some(2),
        "it delays writes at 2",
    ),
    (
        "max_write_buffer_number",
        Some("6"),
        Some("3"),
        |seen| seen.immutable_memtables_peak = Some(2),
        // Up to three, writes are only stopped.
        |seen| seen.immutable_memtables_peak = Some(3),
        "it delays writes at 3",
    ),
    (
        "min_write_buffer_number_to_merge",
        Some("1"),
        Some("2"),
        |seen| seen.flushes = Some(1),
        |seen| seen.filled_memtables = Some(1),
        "once memtables fill",
    ),
    (
        "min_write_buffer_number_to_merge",
        Some("2"),
        Some("3"),
        |seen| seen.immutable_memtables_peak = Some(1),
        |seen| seen.immutable_memtables_peak = Some(2),
        "once memtables fill",
    ),
    (
        "level0_file_num_compaction_trigger",
        Some("4"),
        Some("8"),
        |seen| seen.l0_files_peak = Some(3),
        |seen| seen.l0_files_peak = Some(4),
        "at most 3 files in L0; it takes effect at 4",
    ),
    (
        "level0_slowdown_writes_trigger",
        None,
        Some("40"),
        |seen| seen.l0_files_peak = Some(19),
        |seen| seen.l0_files_peak = Some(20),
        "takes effect at 20",
    ),
    (
        "level0_stop_writes_trigger",
        None,
        Some("100"),
        |seen| seen.l0_files_peak = Some(2),
        |seen| seen.l0_files_peak = Some(36),
        "takes effect at 36",
    ),
    (
        "max_background_jobs",
        Some("6"),
        Some("8"),
        // Six jobs are one flush and five compactions.
        |seen| (seen.flushes_due_peak, seen.compactions_due_peak) = (Some(1), Some(5)),
        |seen| seen.flushes_due_peak = Some(2),
        "flushes: at most 1 due at once, takes effect at 2; compactions: at most 5 due at once, takes effect at 6",
    ),
    (
        "max_background_jobs",
        None,
        Some("4"),
        // Two and four jobs both have one flush.
        |seen| (seen.flushes_due_peak, seen.compactions_due_peak) = (Some(3), Some(1)),
        |seen| seen.compactions_due_peak = Some(2),
        "takes effect at 2",
    ),
    (
        "bytes_per_sync",
        Some("1048576"),
        Some("4194304"),
        |seen| (seen.largest_file_bytes, seen.flushes) = (Some(2 * MIB - 1), Some(9)),
        |seen| seen.largest_file_bytes = Some(2 * MIB),
        "it takes effect at 2 MiB",
    ),
    (
        "bytes_per_sync",
        None,
        Some("4M"),
        |seen| seen.largest_file_bytes = Some(4 * MIB),
        |seen| seen.largest_file_bytes = Some(5 * MIB),
        "it takes effect at 5 MiB",
    ),
    (
        "enable_pipelined_write",
        Some("false"),
        Some("true"),
        |seen| seen.user_bytes_written = Some(1 << 30),
        |seen| seen.grouped_writes = Some(1),
        "no concurrent write",
    ),
    (
        "db_write_buffer_size",
        None,
        Some("1G"),
        |seen| seen.memtable_bytes_peak = Some(895 * MIB),
        |seen| seen.memtable_bytes_peak = Some(896 * MIB),
        "held at most 895 MiB; it takes effect at 896 MiB (7/8 of the limit)",
    ),
    (
        "db_write_buffer_size",
        Some("2G"),
        Some("1G"),
        |seen| seen.filled_memtables = Some(7),
        |seen| seen.buffer_manager_flushes = Some(1),
        "7/8 of the limit",
    ),
];

#[test]
fn each_rule_has_two_sides() {
    for (option, before, after, too_little, enough, words) in ROWS {
        let places = [Case::place(option, *before, *after)];
        let Answer::Idle(why) = said(option, &places, too_little) else { panic!("{option}: it could not act") };
        assert!(why.contains(words), "{option}: {why}");
        assert_eq!(said(option, &places, enough), Answer::Acted, "{option}");
        // The order of the arms does not matter.
        let places = [Case::place(option, *after, *before)];
        assert!(matches!(said(option, &places, too_little), Answer::Idle(_)), "{option}");
        assert_eq!(said(option, &places, enough), Answer::Acted, "{option}");
    }
}

#[test]
fn what_is_no_number_says_nothing() {
    for option in ["write_buffer_size", "max_background_jobs", "bytes_per_sync", "db_write_buffer_size"] {
        assert_eq!(said(option, &[Case::place(option, None, Some("many"))], |_| ()), Answer::Unknown, "{option}");
    }
}

#[test]
fn a_filter_of_memtables_needs_something_to_filter_by() {
    let ratio = "memtable_prefix_bloom_size_ratio";
    let writes: Happen = |seen| seen.user_bytes_written = Some(1);
    let Answer::Idle(why) = said(ratio, &[place(&[(ratio, None, Some("0.2"))])], writes) else { panic!("it is inert") };
    assert!(why.contains("prefix_extractor or memtable_whole_key_filtering"), "{why}");
    for (name, value) in [("prefix_extractor", "rocksdb.FixedPrefix.8"), ("memtable_whole_key_filtering", "true")] {
        let places = [place(&[(ratio, None, Some("0.2")), (name, Some(value), Some(value))])];
        assert_eq!(said(ratio, &places, writes), Answer::Acted, "{name}");
        assert!(matches!(said(ratio, &places, |_| ()), Answer::Idle(_)), "{name}");
    }
    let off = [place(&[(ratio, None, Some("0.2")), ("memtable_whole_key_filtering", None, Some("false"))])];
    assert!(matches!(said(ratio, &off, writes), Answer::Idle(_)));
}

#[test]
fn limits_of_fifo_act_when_files_are_dropped() {
    let fifo = "compaction_options_fifo";
    let style = ("compaction_style", Some("kCompactionStyleFIFO"), Some("kCompactionStyleFIFO"));
    let sizes = (fifo, Some("{max_table_files_size=8G}"), Some("{max_table_files_size=4G}"));
    let merges: Happen = |seen| seen.compactions = Some(2);
    let drops: Happen = |seen| seen.fifo_drops = Some(1);
    assert!(matches!(said(fifo, &[place(&[style, sizes])], merges), Answer::Idle(_)));
    assert_eq!(said(fifo, &[place(&[style, sizes])], drops), Answer::Acted);
    // Another key of the struct has to do with merging.
    let merging = (fifo, Some("{max_table_files_size=8G}"), Some("{max_table_files_size=8G;allow_compaction=true}"));
    assert_eq!(said(fifo, &[place(&[style, merging])], merges), Answer::Acted);
    // The style of one arm is enough.
    for (before, after) in [(style.1, None), (None, style.2)] {
        assert_eq!(said(fifo, &[place(&[("compaction_style", before, after), sizes])], drops), Answer::Acted);
    }
    let Answer::Idle(why) = said(fifo, &[place(&[sizes])], drops) else { panic!("another style ignores it") };
    assert!(why.contains("compaction_style is not kCompactionStyleFIFO"), "{why}");
}

/// The list of a published tuning: nothing, LZ4 from the third entry on, Zstd from the sixth.
const PER_LEVEL: &str = "kNoCompression:kNoCompression:kLZ4Compression:kLZ4Compression:kLZ4Compression:kZSTD:kZSTD";

fn tree(base: u8, written: &[u8], read: &[u8]) -> impl Fn(&mut Engagement) {
    move |seen| {
        (seen.base_levels, seen.last_level) = (Some([base, base]), Some(6));
        (seen.levels_compressed, seen.levels_read) = (Some(written.to_vec()), Some(read.to_vec()));
    }
}

#[test]
fn a_list_of_codecs_counts_from_the_base_level() {
    let option = "compression_per_level";
    let none = ("compression", Some("kNoCompression"), Some("kNoCompression"));
    let places = [place(&[none, (option, None, Some(PER_LEVEL))])];
    // Up to max_bytes_for_level_base there are L0 and L6, which both keep what they had.
    let Answer::Idle(why) = said(option, &places, tree(6, &[], &[0, 6])) else { panic!("no level has another codec") };
    assert!(why.contains("no level gets another codec: data reaches only L6 and the base level is L6"), "{why}");
    assert!(why.contains("a smaller max_bytes_for_level_base"), "{why}");
    // With one level more the last one has LZ4.
    assert_eq!(said(option, &places, tree(5, &[6], &[])), Answer::Acted);
    assert_eq!(said(option, &places, tree(5, &[], &[6])), Answer::Acted);
    let Answer::Idle(why) = said(option, &places, tree(5, &[], &[0, 5])) else { panic!("only L6 has another codec") };
    assert_eq!(why, "it changes the codec of L6; levels written compressed or read: L0, L5");
    // Against LZ4 everywhere the same list differs where it has none, and where it has Zstd.
    let lz4 = ("compression", Some("kLZ4Compression"), Some("kLZ4Compression"));
    let places = [place(&[lz4, (option, None, Some(PER_LEVEL))])];
    assert_eq!(said(option, &places, tree(6, &[0], &[])), Answer::Acted);
    assert!(matches!(said(option, &places, tree(3, &[5], &[])), Answer::Idle(_)));
    assert_eq!(said(option, &places, tree(2, &[6], &[])), Answer::Acted);
}

#[test]
fn a_codec_that_another_option_overrides_does_nothing() {
    let list = ("compression_per_level", Some(PER_LEVEL), Some(PER_LEVEL));
    let option = "compression";
    let change = (option, Some("kNoCompression"), Some("kZSTD"));
    let busy = tree(4, &[0, 4, 5, 6], &[6]);
    assert_eq!(said(option, &[place(&[change])], &busy), Answer::Acted);
    assert!(matches!(said(option, &[place(&[change, list])], &busy), Answer::Idle(_)));
    assert!(matches!(said(option, &[place(&[change])], tree(4, &[], &[])), Answer::Idle(_)));
}

#[test]
fn the_codec_of_the_last_level_acts_there() {
    let option = "bottommost_compression";
    let places = [place(&[(option, None, Some("kZSTD"))])];
    assert_eq!(said(option, &places, tree(5, &[6], &[])), Answer::Acted);
    let Answer::Idle(why) = said(option, &places, tree(5, &[0, 5], &[0])) else { panic!("L6 was not touched") };
    assert!(why.starts_with("it changes the codec of L6; "), "{why}");
    // A flush does not ask for the last level, though no data may be deeper than L0.
    let shallow: Happen = |seen| (seen.last_level, seen.levels_compressed) = (Some(0), Some(vec![0]));
    assert!(matches!(said(option, &places, shallow), Answer::Idle(_)));
    let off = [place(&[(option, None, Some("kDisableCompressionOption"))])];
    assert!(matches!(said(option, &off, tree(5, &[6], &[6])), Answer::Idle(_)));
}

#[test]
fn files_of_another_format_were_not_made_by_the_option() {
    let mut seen = asleep();
    tree(5, &[], &[6])(&mut seen);
    let places = [Case::place("compression", None, Some("kZSTD"))];
    let answer = |migration| signs::answer(&Case { option: "compression", places: &places, seen: &[&seen], migration });
    assert_eq!(answer(false), Answer::Acted);
    assert!(matches!(answer(true), Answer::Idle(_)));
}

#[test]
fn families_that_nobody_writes_to_are_named() {
    let experiment = with_options(&[("write_buffer_size", "128M")]);
    let notes = |written: u64, idle: &[&str]| {
        let idle: Vec<String> = idle.iter().map(|name| (*name).to_owned()).collect();
        found(&experiment, |summary| {
            summary.engagement.filled_memtables = Some(1);
            summary.engagement.user_bytes_written = Some(written);
            summary.engagement.idle_families = Some(idle.clone());
        })
        .1
    };
    assert_eq!(notes(1, &["code_shred"]), ["It tunes families that fill never writes to: code_shred."]);
    assert!(notes(1, &[]).is_empty());
    // Who only reads writes nowhere.
    assert!(notes(0, &["code_shred"]).is_empty());
}

#[test]
fn levels_that_nobody_looked_at_are_unknown() {
    let places = [Case::place("compression", None, Some("kZSTD"))];
    let looked = |written: Option<Vec<u8>>, read: Option<Vec<u8>>| {
        said("compression", &places, |seen| {
            (seen.levels_compressed, seen.levels_read) = (written.clone(), read.clone());
        })
    };
    assert!(matches!(looked(Some(vec![]), Some(vec![])), Answer::Idle(_)));
    assert_eq!(looked(None, Some(vec![])), Answer::Unknown);
    assert_eq!(looked(Some(vec![]), None), Answer::Unknown);
}

#[test]
fn below_zero_is_off_and_zero_is_a_value() {
    let places = [Case::place("x", Some("0"), Some("-1")), Case::place("x", None, Some("5"))];
    let case = Case { option: "x", places: &places, seen: &[], migration: false };
    assert_eq!(case.values(7), Some(vec![0, u64::MAX, 7, 5]));
}
