//! Workloads in words, for people who have not read the experiment.

use assay_protocol::{
    Blockstore, Bytes, Ethrex, KeyOrder, KeyValue, Mix, Preload, RethHistory, Role, ValueBytes, Workload,
};

use super::unit::grouped;

/// What a workload makes RocksDB do, in a sentence.
pub(crate) fn words(workload: &Workload) -> String {
    match workload {
        Workload::KeyValue(own) => key_value(own),
        Workload::Ethrex(own) => ethrex(own),
        Workload::Blockstore(own) => blockstore(own),
        Workload::RethHistory(own) => reth_history(own),
    }
}

fn key_value(own: &KeyValue) -> String {
    let bytes = |bytes: u32| Bytes(u64::from(bytes));
    let values = match own.value_bytes {
        ValueBytes::Fixed(size) => bytes(size).to_string(),
        ValueBytes::Uniform { min, max } => format!("{} to {}", bytes(min), bytes(max)),
    };
    let families = match own.families.len() {
        1 => "1 family".to_owned(),
        count => format!("{count} families"),
    };
    let loaded = match own.preload {
        Preload::Shuffled => "loaded in random order",
        Preload::Sequential => "loaded in key order",
        Preload::Empty => "not loaded: the database starts empty",
    };
    let mut parts = vec![format!(
        "{} keys of {} + {values} values in {families}, {loaded}",
        grouped(own.keys),
        bytes(own.key_bytes)
    )];
    parts.extend(own.roles.iter().map(role));
    parts.join("; ")
}

fn role(own: &Role) -> String {
    let threads = if own.threads == 1 { String::new() } else { format!(" ({} threads)", own.threads) };
    let batch = match (own.batch, own.mix.writes()) {
        (1, _) => String::new(),
        (batch, true) => format!(" in batches of {}", grouped(u64::from(batch))),
        (batch, false) => format!(", {} per step", grouped(u64::from(batch))),
    };
    let order = match (own.key_order, &own.zipfian_exponent) {
        (KeyOrder::Uniform, _) => "uniform".to_owned(),
        (KeyOrder::Sequential, _) => "in key order".to_owned(),
        (KeyOrder::Zipfian, None) => "Zipfian".to_owned(),
        (KeyOrder::Zipfian, Some(exponent)) => format!("Zipfian {exponent}"),
    };
    let rate = own.steps_per_second.map_or(String::new(), |rate| format!(", at {} steps/s", grouped(rate)));
    let (before, after) = match own.steps {
        Some(measured) => (format!("{} of ", steps(measured, own.warmup_steps, "steps")), ""),
        None => (String::new(), " until the first role ends"),
    };
    format!("{}{threads}: {before}{}{batch}{after}, {order}{rate}", own.name, mix(own.mix, own.scan_length))
}

/// Shares of operations, in percent.
fn mix(own: Mix, scan_length: u32) -> String {
    let scan = format!("scan of {} entries", grouped(u64::from(scan_length)));
    let all = [
        (own.put, "put"),
        (own.get, "get"),
        (own.get_missing, "getMissing"),
        (own.delete, "delete"),
        (own.scan, scan.as_str()),
    ];
    let total = f64::from(own.total().max(1));
    let named: Vec<(u32, &str)> = all.into_iter().filter(|(weight, _)| *weight > 0).collect();
    if let [(_, only)] = named[..] {
        return only.to_owned();
    }
    let share = |(weight, name): &(u32, &str)| {
        let percent = 100.0 * f64::from(*weight) / total;
        let digits = usize::from(percent.fract() != 0.0);
        format!("{percent:.digits$} % {name}")
    };
    named.iter().map(share).collect::<Vec<_>>().join(", ")
}

/// `300,000 steps`, after so many of warm-up.
fn steps(measured: u64, warmup: u64, what: &str) -> String {
    let warmup = if warmup == 0 { String::new() } else { format!(" (after {} of warm-up)", grouped(warmup)) };
    format!("{} {what}{warmup}", grouped(measured))
}

fn ethrex(own: &Ethrex) -> String {
    let pace = own.block_interval_millis.map_or(String::new(), |ms| format!("; one block every {} ms", grouped(ms)));
    format!(
        "{} of {} Mgas of an Ethereum node (ethrex) with {} accounts and {} storage slots; state is written {} blocks \
         later{pace}",
        steps(own.blocks, own.warmup_blocks, "blocks"),
        grouped(own.mgas_per_block),
        grouped(own.accounts),
        grouped(own.storage_slots),
        grouped(own.commit_depth)
    )
}

fn blockstore(own: &Blockstore) -> String {
    format!(
        "{} of {} shreds of a Solana validator, inserted by {} in batches of {}, {} % of them late; {} slots are kept, \
         and old ones removed every {} slots",
        steps(own.slots, own.warmup_slots, "slots"),
        grouped(own.shreds_per_slot()),
        if own.writers == 1 { "1 thread".to_owned() } else { format!("{} threads", own.writers) },
        grouped(own.shreds_per_batch),
        own.repaired_percent,
        grouped(own.retained_slots),
        grouped(own.slots_per_purge)
    )
}

fn reth_history(own: &RethHistory) -> String {
    format!(
        "{} of {} Mgas of an Ethereum node (reth) with the history of {} accounts and {} storage slots; one thread \
         executes, another saves every {} blocks and may be {} saves behind",
        steps(own.blocks, own.warmup_blocks, "blocks"),
        grouped(own.mgas_per_block),
        grouped(own.accounts),
        grouped(own.storage_slots),
        grouped(own.blocks_per_save),
        grouped(own.save_backlog)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(workload: Value) -> String {
        words(&serde_json::from_value(workload).unwrap())
    }

    #[test]
    fn key_value_workloads_are_said_in_full() {
        let reader =
            json!({"name": "reader", "steps": 300_000, "mix": {"get": 9, "getMissing": 1}, "keyOrder": "Zipfian"});
        let workload = json!({"keyValue": {"keys": 200_000, "valueBytes": {"fixed": 400}, "roles": [reader]}});
        assert_eq!(
            said(workload),
            "200,000 keys of 20 B + 400 B values in 1 family, loaded in random order; reader: 300,000 steps of 90 % get, \
             10 % getMissing, Zipfian"
        );
        let writer = json!({"name": "writer", "steps": 1000, "warmupSteps": 100, "threads": 2, "batch": 16, "mix": {"put": 2,
            "delete": 1}, "stepsPerSecond": 5000});
        let scanner = json!({"name": "scanner", "steps": 10, "mix": {"scan": 1}, "keyOrder": "Sequential"});
        let lookup = json!({"name": "lookup", "steps": 10, "mix": {"get": 1}, "batch": 8, "keyOrder": "Zipfian",
            "zipfianExponent": "1.2"});
        let workload = json!({"keyValue": {"keys": 10, "keyBytes": 16, "valueBytes": {"uniform": {"min": 100, "max": 4096}},
            "families": ["a", "b"], "preload": "Empty", "roles": [writer, scanner, lookup]}});
        assert_eq!(
            said(workload),
            "10 keys of 16 B + 100 B to 4 KiB values in 2 families, not loaded: the database starts empty; writer (2 \
             threads): 1,000 steps (after 100 of warm-up) of 66.7 % put, 33.3 % delete in batches of 16, uniform, at 5,000 \
             steps/s; scanner: 10 steps of scan of 100 entries, in key order; lookup: 10 steps of get, 8 per step, \
             Zipfian 1.2"
        );
    }

    #[test]
    fn chains_are_said_in_their_own_units() {
        assert_eq!(
            said(
                json!({"ethrex": {"blocks": 1000, "accounts": 440_000, "storageSlots": 2_090_000, "blockIntervalMillis": 50}})
            ),
            "1,000 blocks (after 160 of warm-up) of 30 Mgas of an Ethereum node (ethrex) with 440,000 accounts and \
             2,090,000 storage slots; state is written 128 blocks later; one block every 50 ms"
        );
        assert_eq!(
            said(json!({"blockstore": {"slots": 64, "retainedSlots": 256}})),
            "64 slots of 1,024 shreds of a Solana validator, inserted by 8 threads in batches of 128, 2 % of them late; 256 \
             slots are kept, and old ones removed every 512 slots"
        );
        assert_eq!(
            said(json!({"rethHistory": {"blocks": 100, "accounts": 1000, "storageSlots": 2000}})),
            "100 blocks of 30 Mgas of an Ethereum node (reth) with the history of 1,000 accounts and 2,000 storage slots; \
             one thread executes, another saves every 10 blocks and may be 2 saves behind"
        );
    }
}
