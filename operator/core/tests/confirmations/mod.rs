//! Confirmations whose truth is known, judged as sweeps judge them.

use assay_core::sweep::confirm::{Asked, Asks, Confirmation, Visit, visit_blocks};
use assay_core::sweep::detect::Decision;
use jiff::{SignedDuration, Timestamp};

use super::nights::Noise;

/// In percent: what matters, and how blocks scatter. Six of them give a night a standard error of 1 %.
const MARGIN: f64 = 3.0;
const BLOCK: f64 = 2.449_489_742_783_178;
/// The error of a confirmation, as 1 false alert of 50 confirmations a year makes it.
pub const ALPHA: f64 = 0.02;
/// How visits differ, in percent: a standard deviation of what moves all blocks of one alike. With the degrees of freedom of the noise.
pub const SESSIONS: [(f64, Option<usize>); 5] = [(0.0, None), (0.3, None), (0.5, None), (1.0, None), (0.3, Some(5))];
/// True changes, in percent.
pub const LOSSES: [f64; 5] = [0.0, 1.0, 1.5, 3.0, 5.0];

/// What a confirmation comes to.
pub struct Confirmed {
    pub decision: Decision,
    /// Visits measured.
    pub visits: usize,
    /// Loss that it says is surely exceeded, in percent; set if it confirms one.
    pub bound: Option<f64>,
}

impl Confirmed {
    pub fn is_confirmed(&self) -> bool {
        self.decision == Decision::Confirmed
    }
}

/// What a confirmation of a loss comes to.
pub fn confirmed((session, tails): (f64, Option<usize>), loss: f64, seed: u64) -> Confirmed {
    let mut noise = Noise::new(seed);
    let raised = Timestamp::UNIX_EPOCH;
    let asked = Asked {
        scenario: "fill".to_owned(),
        metric: "throughput".to_owned(),
        first: raised,
        shift: -MARGIN,
        margin: MARGIN,
        losses: Vec::new(),
    };
    let first = Visit {
        raised,
        subject: "main".to_owned(),
        asks: Asks::Step,
        number: 1,
        good: raised,
        bad: raised,
        alpha: ALPHA,
        spread: 0.0,
        series: vec![asked],
        failing: Vec::new(),
        search: None,
    };
    let blocks = visit_blocks(BLOCK, MARGIN, ALPHA, 1);
    let mut made: Vec<Visit> = Vec::new();
    loop {
        let moved = loss + session * noise.normal();
        let mut visit = first.anew(made.len() as u32 + 1);
        visit.series[0].losses = (0..blocks).map(|_| moved + BLOCK * noise.own(tails)).collect();
        made.push(visit);
        let at = |number: usize| raised + SignedDuration::from_hours(6) * i32::try_from(number).expect("few visits");
        let confirmation = Confirmation {
            visits: made.iter().enumerate().map(|(number, visit)| (at(number), visit)).collect(),
            visit: &first,
            begun: raised,
            last: at(made.len()),
            failed: 0,
        };
        if confirmation.is_over() {
            let answered = confirmation.answered().remove(0);
            let decision = answered.decision.expect("it is over");
            return Confirmed { decision, visits: made.len(), bound: answered.bound.map(|own| -own) };
        }
    }
}
