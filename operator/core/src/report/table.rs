//! Plain tables and paragraphs for a terminal. No word is broken as long as it fits on a line.

use std::fmt::Write as _;

/// Columns of a terminal whose width is not known.
pub const WIDTH: usize = 100;

/// Beyond this many columns the eye loses the line.
const LONGEST_PARAGRAPH: usize = 120;

/// Spaces between columns.
const GAP: usize = 2;

/// A first column narrower than this has its longest cells on lines of their own.
const NARROW: usize = 12;

/// A plain table: columns as wide as needed, as far as the line allows.
pub(crate) struct Table {
    line: usize,
    rows: Vec<Row>,
}

enum Row {
    Cells(Vec<String>),
    /// Across all columns.
    Heading(String),
}

impl Table {
    /// A table for lines of so many columns.
    pub fn new(line: usize) -> Self {
        Self { line, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: &[&str]) {
        self.rows.push(Row::Cells(cells.iter().map(ToString::to_string).collect()));
    }

    /// A row across all columns.
    pub fn heading(&mut self, text: &str) {
        self.rows.push(Row::Heading(text.to_owned()));
    }

    pub fn render(&self) -> String {
        let widths = self.widths();
        let mut out = String::new();
        for row in &self.rows {
            match row {
                Row::Heading(text) => {
                    let indent = text.chars().take_while(|c| *c == ' ').count();
                    paragraph(&mut out, text, self.line, indent + 2 * GAP);
                }
                Row::Cells(cells) => cells_of(&mut out, cells, &widths, self.line),
            }
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let rows = || {
            self.rows.iter().filter_map(|row| match row {
                Row::Cells(cells) => Some(cells),
                Row::Heading(_) => None,
            })
        };
        let columns = rows().map(Vec::len).max().unwrap_or(0);
        let most = |column: usize, of: fn(&str) -> usize| {
            rows().filter_map(|cells| cells.get(column)).map(|cell| of(cell)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..columns).map(|column| most(column, length)).collect();
        let least: Vec<usize> = (0..columns).map(|column| most(column, longest_piece)).collect();
        let room = self.line.saturating_sub(GAP * columns.saturating_sub(1));
        shrink(&mut widths, room, |column| least[column]);
        // Names can be longer than all the rest leaves: then they stand on lines of their own.
        if let Some(others) = widths.get(1..).map(|others| others.iter().sum::<usize>())
            && widths.iter().sum::<usize>() > room
        {
            let left = room.saturating_sub(others);
            if left >= NARROW {
                widths[0] = left;
            }
        }
        // What is left to do is to break words.
        shrink(&mut widths, room, |_| 1);
        widths
    }
}

/// Takes from the columns that have most to give, until they fit or have no more.
fn shrink(widths: &mut [usize], room: usize, least: impl Fn(usize) -> usize) {
    while widths.iter().sum::<usize>() > room {
        let widest = (0..widths.len()).filter(|&i| widths[i] > least(i)).max_by_key(|&i| (widths[i] - least(i), i));
        let Some(widest) = widest else { return };
        widths[widest] -= 1;
    }
}

fn cells_of(out: &mut String, cells: &[String], widths: &[usize], line: usize) {
    let mut columns: Vec<Vec<String>> = cells.iter().zip(widths).map(|(cell, &width)| wrap(cell, width)).collect();
    if let (Some(first), Some(&width)) = (cells.first(), widths.first())
        && longest_piece(first) > width
        && cells.len() > 1
    {
        paragraph(out, first, line, 0);
        columns[0] = Vec::new();
    }
    let height = columns.iter().map(Vec::len).max().unwrap_or(0);
    for row in 0..height {
        let mut text = String::new();
        for (cells, &width) in columns.iter().zip(widths) {
            let part = cells.get(row).map_or("", String::as_str);
            text.push_str(part);
            text.extend(std::iter::repeat_n(' ', (width + GAP).saturating_sub(length(part))));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
}

/// Adds text in lines of at most `width` columns; all but the first are set in by `indent`.
pub(crate) fn paragraph(out: &mut String, text: &str, width: usize, indent: usize) {
    let width = width.min(LONGEST_PARAGRAPH);
    let first = wrap(text, width).remove(0);
    out.push_str(&first);
    out.push('\n');
    let rest: String = text.chars().skip(length(&first)).collect();
    if rest.trim().is_empty() {
        return;
    }
    for line in wrap(rest.trim_start(), width.saturating_sub(indent)) {
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The longest part of a text that can't be broken, with the spaces before the first word.
fn longest_piece(text: &str) -> usize {
    let indent = text.chars().take_while(|c| *c == ' ').count();
    let pieces = pieces(text.trim_start());
    let first = pieces.first().map_or(0, |piece| indent + length(piece.trim_end()));
    pieces.iter().map(|piece| length(piece.trim_end())).max().unwrap_or(0).max(first)
}

/// Parts after which a line may end: at spaces, and after commas between words. A number keeps its percent sign and its digits.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let characters: Vec<(usize, char)> = text.char_indices().collect();
    for pair in characters.windows(2) {
        let ((_, c), (at, next)) = (pair[0], pair[1]);
        let ends = match c {
            ' ' => next != ' ' && next != '%',
            ',' => !next.is_ascii_digit() && next != ' ',
            _ => false,
        };
        if ends {
            pieces.push(&text[start..at]);
            start = at;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

/// Breaks text into lines of at most `limit` characters. A word that is longer is cut, as the terminal itself would do.
pub(crate) fn wrap(text: &str, limit: usize) -> Vec<String> {
    let limit = limit.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in pieces(text) {
        if !line.trim().is_empty() && length(&line) + length(piece.trim_end()) > limit {
            lines.push(line.trim_end().to_owned());
            line.clear();
        }
        line.push_str(piece);
        while length(line.trim_end()) > limit {
            let rest: String = line.chars().skip(limit).collect();
            lines.push(line.chars().take(limit).collect());
            line = rest;
        }
    }
    lines.push(line.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_breaks_between_words_and_after_commas() {
        assert_eq!(wrap("short", 10), ["short"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("drained_throughput,step_latency_p99", 20), ["drained_throughput,", "step_latency_p99"]);
        assert_eq!(wrap("GuardrailUnresolved:p99,p50", 24), ["GuardrailUnresolved:p99,", "p50"]);
        assert_eq!(wrap("  in read", 20), ["  in read"]);
        // A number stays with its sign and its digits.
        assert_eq!(wrap("worse by 41.9 % in 200,000 keys", 13), ["worse by", "41.9 % in", "200,000 keys"]);
        // What is longer than a line has to be cut.
        assert_eq!(wrap("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
    }

    #[test]
    fn paragraphs_are_set_in() {
        let mut out = String::new();
        paragraph(&mut out, "one two three four", 9, 2);
        assert_eq!(out, "one two\n  three\n  four\n");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(100);
        table.row(&["a", "first"]);
        table.row(&["longer-name", "second"]);
        table.heading("across all of them");
        assert_eq!(table.render(), "a            first\nlonger-name  second\nacross all of them\n");
    }

    #[test]
    fn cells_wrap_before_words_break() {
        let mut table = Table::new(31);
        table.row(&["candidate", "+1.0 %", "Inconclusive TooFewBlocks"]);
        assert_eq!(table.render(), "candidate  +1.0 %  Inconclusive\n                   TooFewBlocks\n");
    }

    #[test]
    fn names_that_leave_no_room_have_lines_of_their_own() {
        let mut table = Table::new(40);
        table.row(&["metric", "estimate", "proven"]);
        table.row(&["  a_metric_with_a_very_long_name", "+20.0 %", "Better"]);
        table.row(&["  short", "+20.0 %", "Better"]);
        let expected = "\
metric                  estimate  proven
  a_metric_with_a_very_long_name
                        +20.0 %   Better
  short                 +20.0 %   Better
";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn no_line_is_longer_than_asked_for() {
        let long = "x".repeat(70);
        for line in [12, 20, 40, 80] {
            let mut table = Table::new(line);
            table.row(&["metric", "estimate", "interval", "proven"]);
            table.row(&[&long, &long, "-1.0 to +1.0 %", "Equivalent"]);
            table.heading(&long);
            assert!(table.render().lines().all(|text| length(text) <= line), "{line}:\n{}", table.render());
        }
    }
}
