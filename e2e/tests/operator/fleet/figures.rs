//! What the turns come to, as a table and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use super::course::Course;
use super::size::Size;
use super::writes::Writes;

/// Less than one in so many trials is not shown.
const RARE: f64 = 200.0;

/// What was seen of a turn, of the control or of the operator.
pub struct Turn {
    pub course: Course,
    pub writes: Writes,
    /// Of the whole machine.
    pub cpu: Duration,
}

impl Turn {
    /// This turn and another one.
    pub fn and(mut self, other: Self) -> Self {
        for (kind, count) in other.writes {
            *self.writes.entry(kind).or_default() += count;
        }
        Self { course: self.course.and(other.course), writes: self.writes, cpu: self.cpu + other.cpu }
    }

    /// Each by its name.
    fn figures(&self, size: &Size) -> Vec<Figure> {
        let (trials, rate, gaps) = (self.course.ended() as f64, self.course.rate(), self.course.gaps());
        let mut figures = vec![
            ("trials/s".to_owned(), rate),
            ("busy share of the fleet %".to_owned(), 100.0 * rate * size.takes.as_secs_f64() / size.nodes as f64),
            ("gap p50 ms".to_owned(), ms(percentile(&gaps, 50))),
            ("gap p99 ms".to_owned(), ms(percentile(&gaps, 99))),
            ("CPU of the machine per trial ms".to_owned(), ms(self.cpu) / trials),
        ];
        let mut writes: BTreeMap<String, f64> = BTreeMap::new();
        for ((client, kind), count) in &self.writes {
            let each = *count as f64 / trials;
            *writes.entry(format!("writes per trial of {client}")).or_default() += each;
            if each * RARE >= 1.0 {
                writes.insert(format!("writes per trial of {client}: {kind}"), each);
            }
        }
        figures.extend(writes);
        figures
    }
}

/// What only the operator has.
pub struct Operator {
    pub cpu: Duration,
    pub peak_mib: u64,
    pub longest_reconcile: Duration,
    pub reconciles: u64,
    pub lease_unwritten: Duration,
}

type Figure = (String, f64);

/// A figure's name, and what it is for the control and for the operator.
pub type Row = (String, [Option<f64>; 2]);

pub fn rows(size: &Size, control: &Turn, turn: &Turn, operator: &Operator) -> Vec<Row> {
    let trials = turn.course.ended() as f64;
    let mut operated = turn.figures(size);
    operated.extend([
        ("CPU of the operator per trial ms".to_owned(), ms(operator.cpu) / trials),
        ("peak RSS MiB".to_owned(), operator.peak_mib as f64),
        ("longest reconcile s".to_owned(), operator.longest_reconcile.as_secs_f64()),
        ("reconciles per trial".to_owned(), operator.reconciles as f64 / trials),
        ("longest without a write of a held Lease s".to_owned(), operator.lease_unwritten.as_secs_f64()),
    ]);
    let mut rows: Vec<Row> =
        control.figures(size).into_iter().map(|(name, value)| (name, [Some(value), None])).collect();
    for (name, value) in operated {
        match rows.iter_mut().find(|(known, _)| *known == name) {
            Some((_, [_, operator])) => *operator = Some(value),
            None => rows.push((name, [None, Some(value)])),
        }
    }
    rows
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The value below which so many percent of them are, which are in order.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

pub fn table(size: &Size, rows: &[Row]) -> String {
    let Size { nodes, experiments, trials, takes } = size;
    let mut table = format!(
        "\n{nodes} nodes, {experiments} experiments, {trials} trials of {takes:?}\n\n| | control | operator | ratio |\n|---|---|---|---|\n"
    );
    for (name, [control, operator]) in rows {
        let ratio =
            control.zip(*operator).filter(|(control, _)| *control > 0.0).map(|(control, operator)| operator / control);
        let [control, operator, ratio] = [*control, *operator, ratio].map(|value| value.map(shown).unwrap_or_default());
        let _ = writeln!(table, "| {name} | {control} | {operator} | {ratio} |");
    }
    table
}

/// With three digits at least.
fn shown(value: f64) -> String {
    let digits = (2.0 - value.abs().max(0.1).log10().floor()).max(0.0) as usize;
    format!("{value:.digits$}")
}

/// Adds the figures to a file, which is begun with a header.
pub fn append(file: &Path, size: &Size, rows: &[Row]) {
    let mut file = std::fs::File::options().create(true).append(true).open(file).expect("a file for figures");
    let is_new = file.metadata().expect("a file").len() == 0;
    file.write_all(csv(size, rows, is_new).as_bytes()).expect("a file for figures");
}

fn csv(size: &Size, rows: &[Row], is_new: bool) -> String {
    let mut csv = if is_new { "fleet,figure,control,operator\n".to_owned() } else { String::new() };
    for (name, values) in rows {
        let [control, operator] = values.map(|value| value.map_or_else(String::new, |value| format!("{value:.4}")));
        let _ = writeln!(csv, "{size},{name},{control},{operator}");
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let all: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        for (count, percent, expected) in [(200, 50, 100), (200, 99, 198), (1, 99, 1), (3, 50, 2), (0, 50, 0)] {
            assert_eq!(percentile(&all[..count], percent), Duration::from_millis(expected), "{percent} of {count}");
        }
    }

    #[test]
    fn turns_become_a_table_and_csv() {
        let size: Size = "20/1/240/2".parse().expect("a fleet");
        let turn = |writes: &[(&str, usize)]| Turn {
            course: Course::testing(&[(0, 10), (12, 20)]),
            writes: writes.iter().map(|(kind, count)| (("kwok".to_owned(), (*kind).to_owned()), *count)).collect(),
            cpu: Duration::from_millis(30),
        };
        let operator = Operator {
            cpu: Duration::from_millis(5),
            peak_mib: 30,
            longest_reconcile: Duration::from_millis(1500),
            reconciles: 6,
            lease_unwritten: Duration::from_secs(65),
        };
        let control = turn(&[("patch pods/status", 4), ("update leases", 1)]).and(turn(&[("patch pods/status", 4)]));
        let rows = rows(&size, &control, &turn(&[("patch pods/status", 5)]), &operator);
        assert_eq!(
            csv(&size, &rows, true),
            "fleet,figure,control,operator\n\
             20/1/240/2,trials/s,0.1000,0.1000\n\
             20/1/240/2,busy share of the fleet %,1.0000,1.0000\n\
             20/1/240/2,gap p50 ms,2000.0000,2000.0000\n\
             20/1/240/2,gap p99 ms,2000.0000,2000.0000\n\
             20/1/240/2,CPU of the machine per trial ms,15.0000,15.0000\n\
             20/1/240/2,writes per trial of kwok,2.2500,2.5000\n\
             20/1/240/2,writes per trial of kwok: patch pods/status,2.0000,2.5000\n\
             20/1/240/2,writes per trial of kwok: update leases,0.2500,\n\
             20/1/240/2,CPU of the operator per trial ms,,2.5000\n\
             20/1/240/2,peak RSS MiB,,30.0000\n\
             20/1/240/2,longest reconcile s,,1.5000\n\
             20/1/240/2,reconciles per trial,,3.0000\n\
             20/1/240/2,longest without a write of a held Lease s,,65.0000\n"
        );
        assert!(!csv(&size, &rows, false).contains("figure,"));
        let table = table(&size, &rows);
        for line in [
            "\n20 nodes, 1 experiments, 240 trials of 2s\n",
            "\n| trials/s | 0.100 | 0.100 | 1.00 |\n",
            "\n| writes per trial of kwok: patch pods/status | 2.00 | 2.50 | 1.25 |\n",
            "\n| writes per trial of kwok: update leases | 0.250 |  |  |\n",
            "\n| peak RSS MiB |  | 30.0 |  |\n",
        ] {
            assert!(table.contains(line), "{line:?} in {table}");
        }
    }
}
