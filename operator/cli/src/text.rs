//! Words and tables for people.

/// `1 error`, `2 errors`.
pub fn plural(count: usize, one: &str) -> String {
    if count == 1 { format!("{count} {one}") } else { format!("{count} {one}s") }
}

/// Rows with columns as wide as needed; the first row names them. Whatever is in a cell, it stays in its row.
pub fn table(rows: &[Vec<String>]) -> String {
    let in_line = |cell: &String| cell.replace(char::is_control, " ");
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(in_line).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_needed() {
        let row = |cells: [&str; 2]| cells.map(ToOwned::to_owned).to_vec();
        assert_eq!(table(&[row(["name", "verdict"]), row(["quickstart", ""])]), "name        verdict\nquickstart\n");
        assert_eq!(table(&[row(["a\nb", "c"]), row(["\u{1b}[31m", "d"])]), "a b    c\n [31m  d\n");
    }
}
