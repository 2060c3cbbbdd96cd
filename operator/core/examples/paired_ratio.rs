//! Judges interleaved pairs of a benchmark: `paired_ratio FILE MARGIN_PERCENT`.
//!
//! FILE holds lines `name,pair,ours,peer`, where higher is better. For each name it prints the ratio ours / peer
//! with its 95 % interval, and whether ours is shown to be no worse than the margin.

use std::{collections::BTreeMap, env, error::Error, fs};

use assay_core::stats::{Paired, n_min};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let (Some(file), Some(margin)) = (args.next(), args.next()) else {
        return Err("usage: paired_ratio FILE MARGIN_PERCENT".into());
    };
    let margin: f64 = margin.parse::<f64>()? / 100.0;
    let mut series = BTreeMap::<String, (Vec<f64>, Vec<f64>)>::new();
    for (line, text) in fs::read_to_string(&file)?.lines().enumerate() {
        let fields: Vec<&str> = text.split(',').collect();
        let [name, _, ours, peer] = fields[..] else {
            return Err(format!("{file}:{}: expected name,pair,ours,peer", line + 1).into());
        };
        let (all_ours, all_peers) = series.entry(name.to_owned()).or_default();
        all_ours.push(ours.parse::<f64>()?.ln());
        all_peers.push(peer.parse::<f64>()?.ln());
    }
    let mut proven = true;
    for (name, (ours, peer)) in series {
        let paired = Paired::new(ours, peer, 1)?;
        let (estimate, interval) = (paired.estimate().unwrap_or(f64::NAN), paired.interval(0.95));
        let p = paired.claims((1.0 + margin).ln()).non_inferior;
        let verdict = if p <= 0.05 { "non-inferior" } else { "not shown to be non-inferior" };
        proven &= p <= 0.05;
        println!(
            "{name}: ratio {:.4}, 95 % interval {:.4} to {:.4}, {} pairs: {verdict} at {:.0} % (p = {p:.4})",
            estimate.exp(),
            interval.low.map_or(0.0, f64::exp),
            interval.high.map_or(f64::INFINITY, f64::exp),
            paired.n(),
            margin * 100.0,
        );
        if paired.n() < n_min(1, 0.05) {
            println!("{name}: {} pairs can't show anything, {} can", paired.n(), n_min(1, 0.05));
        }
    }
    if proven { Ok(()) } else { Err("not all series are shown to be non-inferior".into()) }
}
