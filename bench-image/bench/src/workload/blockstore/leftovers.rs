//! What removal has left: rows that point at nothing, and slots that should be gone.

use super::{
    Leftovers,
    encoding::{shred_key, slot_of},
};
use crate::engine::{Engine, EngineError};

/// Looks at a database in which all slots are complete. Of each slot four shreds are asked for, the first and last of both
/// kinds: what goes by files takes neighbours together.
pub fn find(engine: &Engine, data_shreds: u64, removed_below: u64) -> Result<Leftovers, EngineError> {
    let shreds = ["data_shred", "code_shred"];
    let mut dangling_rows = 0;
    for key in engine.keys("index")? {
        let Some(slot) = slot_of(&key?) else { continue };
        let mut vanished = false;
        for family in shreds {
            for index in [0, data_shreds - 1] {
                vanished |= !engine.has(family, shred_key(slot, index))?;
            }
        }
        dangling_rows += u64::from(vanished);
    }
    let mut oldest_slot = None;
    for family in shreds {
        let first = engine.keys(family)?.next().transpose()?;
        let slot = first.and_then(|key| slot_of(&key));
        oldest_slot = match (oldest_slot, slot) {
            (Some(oldest), Some(slot)) => Some(slot.min(oldest)),
            (oldest, slot) => oldest.or(slot),
        };
    }
    Ok(Leftovers { dangling_rows, oldest_slot, removed_below })
}
