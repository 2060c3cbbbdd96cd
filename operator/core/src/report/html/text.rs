use std::fmt::Write as _;

/// Text from outside must not become markup: names and messages can hold anything.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Neither HTML nor XML has a place for them.
            c if c.is_control() && c != '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

pub(crate) fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A table that scrolls by itself where it is wider than the page. Cells are markup already.
pub(crate) struct Table {
    out: String,
}

impl Table {
    /// Columns whose name starts with `#` hold numbers.
    pub fn new(caption: &str, columns: &[&str]) -> Self {
        let mut out = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table>\n<caption>{0}</caption>\n<thead><tr>",
            escape(caption)
        );
        for column in columns {
            let _ = match column.strip_prefix('#') {
                Some(name) => write!(out, "<th scope=\"col\" class=\"n\">{}</th>", escape(name)),
                None => write!(out, "<th scope=\"col\">{}</th>", escape(column)),
            };
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        Self { out }
    }

    /// A row of markup, the first cell of which names it; cells that start with `#` hold numbers.
    pub fn row(&mut self, cells: &[String]) {
        self.out.push_str("<tr>");
        for (i, cell) in cells.iter().enumerate() {
            let _ = match cell.strip_prefix('#') {
                Some(number) if i == 0 => write!(self.out, "<th scope=\"row\" class=\"n\">{number}</th>"),
                None if i == 0 => write!(self.out, "<th scope=\"row\">{cell}</th>"),
                Some(number) => write!(self.out, "<td class=\"n\">{number}</td>"),
                None => write!(self.out, "<td>{cell}</td>"),
            };
        }
        self.out.push_str("</tr>\n");
    }

    pub fn finish(mut self) -> String {
        self.out.push_str("</tbody>\n</table>\n</div>\n");
        self.out
    }
}

pub(crate) fn folded(summary: &str, body: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{body}</details>\n", escape(summary))
}

/// Charts with the words about them: beside a single one, above several.
pub fn with_words(words: &str, charts: &[(String, String)]) -> String {
    let drawn = self::charts(charts);
    if charts.len() == 1 {
        format!("<div class=\"beside\">\n<div>\n{words}</div>\n{drawn}</div>\n")
    } else {
        format!("{words}{drawn}")
    }
}

/// Charts side by side, as many as there is room for; each is its caption's markup and its picture.
pub fn charts(charts: &[(String, String)]) -> String {
    let mut out = "<div class=\"charts\">\n".to_owned();
    for (caption, svg) in charts {
        let _ = writeln!(out, "<figure><figcaption>{caption}</figcaption>{svg}</figure>");
    }
    out.push_str("</div>\n");
    out
}
