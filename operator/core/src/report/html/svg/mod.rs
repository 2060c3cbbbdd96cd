//! Pictures by hand: few elements, numbers with a fixed number of digits, so that equal data gives equal bytes. Colours are classes
//! of the page's style sheet.

mod axis;
mod chart;

use std::fmt::Write as _;

pub(crate) use axis::Axis;
pub(super) use chart::{Chart, Ticks};

use super::escape;

/// Marks by series, so that colour is never all that tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Ring,
    Dot,
    Triangle,
    Square,
    Diamond,
    Cross,
}

impl Mark {
    /// Around the current point of a path.
    fn path(self) -> &'static str {
        match self {
            Self::Ring => "m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0",
            Self::Dot => "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
            Self::Triangle => "m0-3.6l3.4 6h-6.8z",
            Self::Square => "m-2.7-2.7h5.4v5.4h-5.4z",
            Self::Diamond => "m0-4l3.4 4l-3.4 4l-3.4-4z",
            Self::Cross => "m-3-3l6 6m0-6l-6 6",
        }
    }
}

/// A picture in the making.
pub(crate) struct Svg {
    out: String,
    /// What horizontal numbers count.
    unit: &'static str,
}

impl Svg {
    /// A picture of a size that grows and shrinks as a whole.
    pub fn sized(width: f64, height: f64, title: &str, description: &str) -> Self {
        Self::new(&format!("viewBox=\"0 0 {} {}\"", number(width), number(height)), "", title, description)
    }

    /// A strip as wide as its place, where x counts percent.
    pub fn strip(height: f64, title: &str, description: &str) -> Self {
        Self::new(&format!("width=\"100%\" height=\"{}\"", number(height)), "%", title, description)
    }

    /// A picture that is as wide as its place and as high as its style says: only lines keep their widths, so it has no text.
    pub fn stretched(width: f64, height: f64, title: &str, description: &str) -> Self {
        let size = format!("viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\"", number(width), number(height));
        Self::new(&size, "", title, description)
    }

    fn new(size: &str, unit: &'static str, title: &str, description: &str) -> Self {
        let mut out = format!("<svg {size} role=\"img\"><title>{}</title>", escape(title));
        if !description.is_empty() {
            let _ = write!(out, "<desc>{}</desc>", escape(description));
        }
        Self { out, unit }
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, x2) = (self.x(from.0), self.x(to.0));
        let (y1, y2) = (number(from.1), number(to.1));
        let _ = write!(self.out, "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>");
    }

    /// A rectangle from its upper left corner to its lower right.
    pub fn rect(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x, width) = (self.x(from.0), self.x((to.0 - from.0).max(0.0)));
        let (y, height) = (number(from.1), number((to.1 - from.1).max(0.0)));
        let _ = write!(self.out, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>");
    }

    pub fn circle(&mut self, class: &str, at: (f64, f64), radius: f64) {
        let (x, y, radius) = (self.x(at.0), number(at.1), number(radius));
        let _ = write!(self.out, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>");
    }

    /// A line through points; nothing where there is less than one.
    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let Some((first, rest)) = points.split_first() else { return };
        let _ = write!(self.out, "<path class=\"{class}\" d=\"M{} {}", number(first.0), number(first.1));
        if rest.is_empty() {
            // A single point has to be seen, too.
            self.out.push_str("h.1");
        }
        for (x, y) in rest {
            let _ = write!(self.out, "L{} {}", number(*x), number(*y));
        }
        self.out.push_str("\"/>");
    }

    /// The same mark at many points.
    pub fn marks(&mut self, class: &str, mark: Mark, points: &[(f64, f64)]) {
        if points.is_empty() {
            return;
        }
        let _ = write!(self.out, "<path class=\"{class}\" d=\"");
        for (x, y) in points {
            let _ = write!(self.out, "M{} {}{}", number(*x), number(*y), mark.path());
        }
        self.out.push_str("\"/>");
    }

    /// Points as ends of strokes, which stay round however a picture is stretched.
    pub fn dots(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        self.strokes(class, points.map(|(x, y)| (x, y, y)));
    }

    /// Upright strokes: across, and from where to where.
    pub fn strokes(&mut self, class: &str, strokes: impl Iterator<Item = (f64, f64, f64)>) {
        let path = strokes.fold(String::new(), |mut path, (x, from, to)| {
            let _ = write!(path, "M{} {}V{}", number(x), number(from), number(to));
            path
        });
        if !path.is_empty() {
            let _ = write!(self.out, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }

    /// What lies between a lower and an upper line: across, and from where to where.
    pub fn between(&mut self, class: &str, points: &[(f64, f64, f64)]) {
        let Some(first) = points.first() else { return };
        let _ = write!(self.out, "<path class=\"{class}\" d=\"M{} {}", number(first.0), number(first.1));
        let rest = points[1..].iter().map(|(x, low, _)| (x, low));
        for (x, y) in rest.chain(points.iter().rev().map(|(x, _, high)| (x, high))) {
            let _ = write!(self.out, "L{} {}", number(*x), number(*y));
        }
        self.out.push_str("Z\"/>");
    }

    /// Text; the class says where it is anchored.
    pub fn text(&mut self, class: &str, at: (f64, f64), text: &str) {
        let (x, y) = (self.x(at.0), number(at.1));
        let _ = write!(self.out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(text));
    }

    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }

    fn x(&self, x: f64) -> String {
        if self.unit.is_empty() { number(x) } else { format!("{}{}", trimmed(&format!("{x:.2}")), self.unit) }
    }
}

/// A coordinate with a tenth of a pixel, in as few characters as possible.
fn number(value: f64) -> String {
    trimmed(&format!("{value:.1}"))
}

fn trimmed(text: &str) -> String {
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" || short.is_empty() { "0".to_owned() } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_one_zero() {
        assert_eq!([1.0, 0.25, -0.04, 100.0, -3.56].map(number), ["1", "0.2", "0", "100", "-3.6"]);
    }

    #[test]
    fn text_can_not_become_markup() {
        let mut svg = Svg::sized(10.0, 10.0, "<script>", "a & b");
        svg.text("t", (0.0, 0.0), "</svg>");
        let svg = svg.finish();
        assert!(svg.contains("<title>&lt;script&gt;</title><desc>a &amp; b</desc>"), "{svg}");
        assert_eq!(svg.matches("</svg>").count(), 1, "{svg}");
    }

    #[test]
    fn strips_count_percent() {
        let mut svg = Svg::strip(20.0, "t", "");
        svg.line("l", (0.0, 1.0), (33.333, 2.0));
        assert!(svg.finish().contains("x1=\"0%\" y1=\"1\" x2=\"33.33%\" y2=\"2\""));
    }

    #[test]
    fn a_single_point_is_drawn() {
        let mut svg = Svg::sized(10.0, 10.0, "t", "");
        svg.polyline("l", &[(1.0, 2.0)]);
        svg.polyline("l", &[]);
        let svg = svg.finish();
        assert!(svg.contains("M1 2h.1") && svg.matches("<path").count() == 1, "{svg}");
    }
}
