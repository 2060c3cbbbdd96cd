//! What can be wrong with the blocks of an Ethereum node.

use assay_api::Scenario;
use assay_record::Ethrex;

use super::problem::{FieldPath, Problem};

/// Everything that can be said about the workload `ethrex` without running it.
pub fn check(workload: &Ethrex, scenario: &Scenario, path: &FieldPath, problems: &mut Vec<Problem>) {
    let content = workload.content_of_block();
    for (field, has, changes) in
        [("accounts", workload.accounts, content.accounts), ("storageSlots", workload.storage_slots, content.slots)]
    {
        // Within a block nothing changes twice.
        if changes.saturating_mul(2) > has {
            let message = format!(
                "a block of {} Mgas changes {changes} of {has}: use {} at least, or less gas",
                workload.mgas_per_block,
                changes.saturating_mul(2)
            );
            problems.push(Problem::error(path.key(field), message));
        }
    }
    state_is_written(workload, &path.key("warmupBlocks"), problems);
    if let Some(millis) = workload.block_interval_millis {
        let blocks = workload.blocks.saturating_add(workload.warmup_blocks);
        let seconds = blocks.saturating_mul(millis).div_ceil(1000);
        if seconds >= u64::from(scenario.deadline_seconds) {
            let message = format!(
                "{} blocks with {} to warm up take {seconds} s at one every {millis} ms, beyond deadlineSeconds {}",
                workload.blocks, workload.warmup_blocks, scenario.deadline_seconds
            );
            problems.push(Problem::error(path.key("blockIntervalMillis"), message));
        }
    }
}

/// The state of a block is written when `commitDepth` blocks lie over it. A window that opens earlier measures something else, at
/// first or all along.
fn state_is_written(workload: &Ethrex, path: &FieldPath, problems: &mut Vec<Problem>) {
    let Ethrex { blocks, warmup_blocks, commit_depth, .. } = workload;
    if warmup_blocks >= commit_depth {
        return;
    }
    let message = match workload.blocks_that_write_state() {
        0 => format!(
            "{warmup_blocks} and {blocks} measured blocks never reach commitDepth {commit_depth}, so no column family of the state is written, \
             and nothing is learned about options of theirs: use {commit_depth} at least"
        ),
        writing => format!(
            "is below commitDepth {commit_depth}, so {writing} of the {blocks} measured blocks write state and the others none: \
             use {commit_depth} at least"
        ),
    };
    problems.push(Problem::warning(path.clone(), message));
}
