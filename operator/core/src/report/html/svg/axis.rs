/// Where values are on an axis, and which of them are named.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<f64>,
    step: f64,
}

impl Axis {
    /// An axis over all values with round ends, about `ticks` of them named.
    pub fn over(values: impl Iterator<Item = f64>, ticks: u32) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        // Equal values still need room.
        let room = if high > low { 0.0 } else { (low.abs() * 0.1).max(0.5) };
        let (low, high) = (if room > 0.0 && low == 0.0 { 0.0 } else { low - room }, high + room);
        let step = round_step((high - low) / f64::from(ticks.max(1)));
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let count = (last - first).round().clamp(1.0, 100.0) as u32;
        let ticks: Vec<f64> = (0..=count).map(|i| (first + f64::from(i)) * step).collect();
        Self { low: first * step, high: (first + f64::from(count)) * step, ticks, step }
    }

    /// The same with ends that are no more than the values need; ticks beyond them go.
    pub fn cut(mut self, low: f64, high: f64) -> Self {
        if high > low {
            (self.low, self.high) = (low, high);
            self.ticks.retain(|tick| (low..=high).contains(tick));
        }
        self
    }

    /// The same for what is counted: nothing is between two whole numbers.
    pub fn whole(mut self) -> Self {
        self.ticks.retain(|tick| (tick - tick.round()).abs() < 1e-6);
        self.step = self.step.max(1.0);
        self
    }

    /// The share of the axis below a value.
    pub fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// A tick in short: with as many decimals as neighbours need to differ, and a prefix for large numbers.
    pub fn label(&self, tick: f64) -> String {
        let largest = self.low.abs().max(self.high.abs());
        let (unit, prefix) = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")]
            .into_iter()
            .find(|(unit, _)| largest >= *unit && self.step >= unit / 100.0)
            .unwrap_or((1.0, ""));
        if tick.abs() < self.step / 2.0 {
            return "0".to_owned();
        }
        format!("{:.*}{prefix}", decimals(self.step / unit), tick / unit)
    }

    /// A tick of an axis of percent, with its sign.
    pub fn signed_percent(&self, tick: f64) -> String {
        if tick.abs() < self.step / 2.0 { "0".to_owned() } else { format!("{tick:+.*} %", decimals(self.step)) }
    }
}

/// The next step of 1, 2 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let mut power = 1.0;
    while step >= power * 10.0 {
        power *= 10.0;
    }
    while step < power {
        power /= 10.0;
        if power < 1e-12 {
            return power;
        }
    }
    let times = step / power;
    power * [1.0, 2.0, 5.0].into_iter().find(|round| times <= round * 1.000_001).unwrap_or(10.0)
}

fn decimals(step: f64) -> usize {
    let mut decimals = 0;
    let mut unit = 1.0;
    while step < unit * 0.999 && decimals < 6 {
        decimals += 1;
        unit /= 10.0;
    }
    decimals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64]) -> Vec<String> {
        let axis = Axis::over(values.iter().copied(), 4);
        axis.ticks.iter().map(|tick| axis.label(*tick)).collect()
    }

    #[test]
    fn axes_are_round() {
        assert_eq!(labels(&[0.0, 80e6]), ["0", "20 M", "40 M", "60 M", "80 M"]);
        assert_eq!(labels(&[0.0, 0.37]), ["0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(labels(&[1.0, 5.0]), ["1", "2", "3", "4", "5"]);
        assert_eq!(labels(&[114_300.0, 115_900.0]), ["114.0 k", "114.5 k", "115.0 k", "115.5 k", "116.0 k"]);
    }

    #[test]
    fn axes_hold_all_their_values() {
        for values in [vec![], vec![0.0], vec![7.0, 7.0], vec![-3.0, 1e-3], vec![f64::NAN, 2.0], vec![1e-9, 3e11]] {
            let axis = Axis::over(values.iter().copied(), 4);
            assert!(axis.low < axis.high && axis.ticks.len() >= 2 && axis.ticks.len() < 12, "{values:?} {axis:?}");
            for value in values.into_iter().filter(|value| value.is_finite()) {
                assert!((-1e-6..=1.000_001).contains(&axis.share(value)), "{value} {axis:?}");
            }
        }
    }

    #[test]
    fn what_is_counted_has_whole_ticks() {
        let axis = Axis::over([0.0, 1.0].into_iter(), 5).whole();
        let labels: Vec<String> = axis.ticks.iter().map(|tick| axis.label(*tick)).collect();
        assert_eq!(labels, ["0", "1"]);
    }

    #[test]
    fn percent_has_a_sign_and_zero_has_none() {
        let axis = Axis::over([-5.0, 10.0].into_iter(), 3);
        let labels: Vec<String> = axis.ticks.iter().map(|tick| axis.signed_percent(*tick)).collect();
        assert_eq!(labels, ["-5 %", "0", "+5 %", "+10 %"]);
    }
}
