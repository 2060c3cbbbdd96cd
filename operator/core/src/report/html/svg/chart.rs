use super::{Axis, Mark, Svg};

/// Size of a small chart: readable on a phone as it is, several beside each other elsewhere.
const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 36.0;

/// An axis with the words at its ticks.
pub struct Ticks {
    pub axis: Axis,
    pub labels: Vec<String>,
}

impl Ticks {
    pub fn new(axis: Axis, label: impl Fn(&Axis, f64) -> String) -> Self {
        let labels = axis.ticks.iter().map(|tick| label(&axis, *tick)).collect();
        Self { axis, labels }
    }
}

/// A small chart with two axes.
pub struct Chart {
    svg: Svg,
    x: Axis,
    y: Axis,
}

impl Chart {
    pub fn new(title: &str, description: &str, x: Ticks, x_name: &str, y: Ticks) -> Self {
        let mut svg = Svg::sized(WIDTH, HEIGHT, title, description);
        let (floor, end) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (tick, label) in y.axis.ticks.iter().zip(&y.labels) {
            let height = floor - y.axis.share(*tick) * (floor - TOP);
            svg.line("grid", (LEFT, height), (end, height));
            svg.text("end", (LEFT - 6.0, height + 4.0), label);
        }
        for (tick, label) in x.axis.ticks.iter().zip(&x.labels) {
            let across = LEFT + x.axis.share(*tick) * (end - LEFT);
            svg.line("tick", (across, floor), (across, floor + 4.0));
            svg.text("mid", (across, floor + 16.0), label);
        }
        svg.line("axis", (LEFT, floor), (end, floor));
        svg.text("mid name", (f64::midpoint(LEFT, end), HEIGHT - 4.0), x_name);
        Self { svg, x: x.axis, y: y.axis }
    }

    /// A band across the whole chart.
    pub fn band(&mut self, class: &str, low: f64, high: f64) {
        let (_, top) = self.at((self.x.low, high.min(self.y.high)));
        let (_, bottom) = self.at((self.x.low, low.max(self.y.low)));
        self.svg.rect(class, (LEFT, top), (WIDTH - RIGHT, bottom));
    }

    /// A line across the whole chart.
    pub fn level(&mut self, class: &str, value: f64) {
        let (_, height) = self.at((self.x.low, value));
        self.svg.line(class, (LEFT, height), (WIDTH - RIGHT, height));
    }

    pub fn line(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let points: Vec<(f64, f64)> = points.map(|point| self.at(point)).collect();
        self.svg.polyline(class, &points);
    }

    pub fn marks(&mut self, class: &str, mark: Mark, points: impl Iterator<Item = (f64, f64)>) {
        let points: Vec<(f64, f64)> = points.map(|point| self.at(point)).collect();
        self.svg.marks(class, mark, &points);
    }

    pub fn finish(self) -> String {
        self.svg.finish()
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let floor = HEIGHT - BOTTOM;
        (LEFT + self.x.share(x) * (WIDTH - RIGHT - LEFT), floor - self.y.share(y) * (floor - TOP))
    }
}
