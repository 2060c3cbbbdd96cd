//! Which nodes blocks have touched lately: the layers in memory that hold the state of the last blocks.

use super::changes::Version;
use super::state::NodeId;

/// Slots at most, of eight bytes each.
const MOST_SLOTS: usize = 1 << 23;

/// The version in which each node was touched last. Like the filter over the real layers it forgets a little: where two nodes meet in a slot, the
/// later one stays. That costs a read of a node that was in memory, the same one in every run.
#[derive(Debug)]
pub struct Stamps {
    slots: Vec<(u32, u32)>,
}

impl Stamps {
    /// Room for about so many nodes.
    pub fn new(nodes: u64) -> Self {
        let slots = usize::try_from(nodes.saturating_mul(2)).unwrap_or(MOST_SLOTS).clamp(1024, MOST_SLOTS);
        Self { slots: vec![(0, 0); slots.next_power_of_two()] }
    }

    /// Touches a node, and returns the version of the touch before; 0 for none.
    pub fn touch(&mut self, node: NodeId, version: Version) -> Version {
        let mask = self.slots.len() - 1;
        let tag = (node >> 32) as u32;
        let slot = &mut self.slots[node as usize & mask];
        let before = if slot.0 == tag { slot.1 } else { 0 };
        // A specification has far fewer blocks than 32 bits can count.
        *slot = (tag, version as u32);
        Version::from(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_are_remembered_and_bounded() {
        let mut stamps = Stamps::new(1000);
        let nodes: Vec<NodeId> = (1..=100).map(|node: u64| node.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        assert!(nodes.iter().all(|node| stamps.touch(*node, 7) == 0));
        let kept = nodes.iter().filter(|node| stamps.touch(**node, 8) == 7).count();
        assert!(kept > 90, "{kept} of 100 kept");
        assert_eq!(Stamps::new(u64::MAX).slots.len(), MOST_SLOTS);
    }
}
