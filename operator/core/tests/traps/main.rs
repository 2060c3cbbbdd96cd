//! Mistakes of four published RocksDB tunings, each with the numbers or the shape that it was published with: it is caught, and
//! the same without the mistake passes. `docs/seeds.md` tells what happened.

#![allow(clippy::unwrap_used, clippy::panic)]

mod ethrex;
#[path = "../gates/lab.rs"]
#[allow(dead_code, reason = "shared with the tests of the gates")]
mod lab;
mod reth;
mod runs;
mod shapes;
mod solana;

/// Every trap with its two tests.
macro_rules! traps {
    ($($trap:literal => $seed:ident::$name:ident),* $(,)?) => {
        const TRAPS: &[(&str, &str, fn(), fn())] = &[$((
            $trap,
            concat!(stringify!($seed), "::", stringify!($name)),
            $seed::$name::is_caught,
            $seed::$name::passes_without_it,
        )),*];
    };
}

traps! {
    "E1" => ethrex::e1_throughput_up_and_latency_worse,
    "E2" => ethrex::e2_tuned_families_barely_written,
    "E3" => ethrex::e3_inherited_debt,
    "E4" => ethrex::e4_files_of_the_old_format,
    "E5" => ethrex::e5_paced_runs_have_no_rate,
    "E6" => ethrex::e6_one_run_each,
    "E7" => ethrex::e7_settings_without_effect,
    "E8" => ethrex::e8_rate_and_latency_disagree,
    "C1" => solana::c1_modelled_write_amplification,
    "C2" => solana::c2_device_bytes_of_others,
    "C3" => solana::c3_generator_in_the_timed_loop,
    "C4" => solana::c4_half_of_the_tuned_families_idle,
    "C5" => solana::c5_one_side_skips_deletions,
    "C6" => solana::c6_rate_of_configured_work,
    "C7" => solana::c7_rows_of_vanished_data,
    "C8" => solana::c8_two_policies_at_once,
    "R1" => reth::r1_another_build,
    "R2" => reth::r2_a_run_that_did_no_work,
    "R3" => reth::r3_other_blocks_in_each_run,
    "R4" => reth::r4_metric_off_the_causal_path,
    "R5" => reth::r5_limit_never_reached,
    "R6" => reth::r6_units_and_last_events,
    "R7" => reth::r7_rules_changed_afterwards,
    "R8" => reth::r8_conclusions_from_too_few_runs,
    "R9" => reth::r9_one_config_after_the_other,
    "R10" => reth::r10_quantiles_without_a_tail,
    "R11" => reth::r11_best_of_seventeen,
    "R12" => reth::r12_unknown_options,
}

const DOCS: &str = include_str!("../../../../docs/seeds.md");

#[test]
fn every_trap_has_its_pair_and_its_row() {
    let expected = [('E', 8), ('C', 8), ('R', 12)];
    let expected: Vec<String> =
        expected.iter().flat_map(|(seed, count)| (1..=*count).map(move |number| format!("{seed}{number}"))).collect();
    assert_eq!(TRAPS.iter().map(|trap| trap.0).collect::<Vec<_>>(), expected);
    for (trap, name, caught, passes) in TRAPS {
        let module = name.split("::").last().unwrap();
        assert!(module.starts_with(&format!("{}_", trap.to_lowercase())), "{name} is not named by its trap");
        assert!(!std::ptr::fn_addr_eq(*caught, *passes), "{name} is no pair");
        let rows: Vec<&str> = DOCS.lines().filter(|line| line.starts_with(&format!("| {trap} |"))).collect();
        assert_eq!(rows.len(), 1, "docs/seeds.md needs one row for {trap}");
        assert!(rows[0].contains(&format!("`{name}`")), "docs/seeds.md does not name {name}");
    }
}
