/// Columns of a small terminal.
pub(crate) const WIDTH: usize = 100;

/// A plain table: columns as wide as needed, up to a limit at which cells go on in the next line. The last column has what
/// the others leave of the line.
pub(crate) struct Table {
    limits: Vec<usize>,
    line: usize,
    rows: Vec<Vec<String>>,
}

/// Spaces between columns.
const GAP: usize = 2;

impl Table {
    /// A table with the most characters of each column but the last, and of a line.
    pub fn new(limits: &[usize], line: usize) -> Self {
        Self { limits: limits.to_vec(), line, rows: Vec::new() }
    }

    pub fn row<const N: usize>(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(ToOwned::to_owned).to_vec());
    }

    pub fn render(&self) -> String {
        let column = |column: usize, limit: usize| -> Vec<Vec<String>> {
            self.rows.iter().map(|row| wrap(row.get(column).map_or("", String::as_str), limit)).collect()
        };
        let mut columns: Vec<Vec<Vec<String>>> = Vec::new();
        let mut widths = Vec::new();
        for (i, &limit) in self.limits.iter().enumerate() {
            let cells = column(i, limit);
            widths.push(cells.iter().flatten().map(|line| line.chars().count()).max().unwrap_or(0));
            columns.push(cells);
        }
        let taken: usize = widths.iter().map(|width| width + GAP).sum();
        columns.push(column(self.limits.len(), self.line.saturating_sub(taken).max(1)));
        widths.push(0);
        let mut out = String::new();
        for row in 0..self.rows.len() {
            let height = columns.iter().map(|cells| cells[row].len()).max().unwrap_or(0);
            for line in 0..height {
                let mut text = String::new();
                for (cells, &width) in columns.iter().zip(&widths) {
                    let part = cells[row].get(line).map_or("", String::as_str);
                    text.push_str(part);
                    text.extend(std::iter::repeat_n(' ', (width + GAP).saturating_sub(part.chars().count())));
                }
                out.push_str(text.trim_end());
                out.push('\n');
            }
        }
        out
    }
}

/// Breaks text into lines of at most `limit` characters, at spaces or after punctuation where there is any.
pub(crate) fn wrap(text: &str, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest: Vec<char> = text.chars().collect();
    while rest.len() > limit {
        let breaks = |c: char| matches!(c, ' ' | ',' | ':' | ';' | '-' | '_');
        // A break in the first half would leave ragged columns; rather cut the word.
        let room = if rest[limit] == ' ' { limit + 1 } else { limit };
        let at = (limit / 2..room).rev().find(|&i| breaks(rest[i])).map_or(limit, |i| i + 1);
        let line: String = rest.drain(..at).collect();
        lines.push(line.trim_end().to_owned());
        while rest.first() == Some(&' ') {
            rest.remove(0);
        }
    }
    lines.push(rest.into_iter().collect());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_breaks_where_it_can() {
        assert_eq!(wrap("short", 10), ["short"]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("GuardrailUnresolved:p99", 20), ["GuardrailUnresolved:", "p99"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[6], 100);
        table.row(["a", "first"]);
        table.row(["longer-name", "second"]);
        assert_eq!(table.render(), "a       first\nlonger  second\n-name\n");
    }
}
