//! As much of `PromQL` as it takes to find every selector of a query, and to confine each of them to one value of a label.
//!
//! It is stricter than Prometheus: what it does not know is an error, and what it returns is put together anew from what it has
//! understood. So nothing that Prometheus would take for a selector gets past it.

use std::fmt;

/// What stands in a query for the length of the measured window.
const WINDOW: &str = "$window";

/// A query about the measured window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query<'a>(Vec<Part<'a>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<'a> {
    Selector(Selector<'a>),
    Other(&'a str),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Selector<'a> {
    name: &'a str,
    matchers: Vec<Matcher<'a>>,
    is_range: bool,
}

/// A matcher as it was written: names and values with their quotes. A quoted metric name has no operator and no value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Matcher<'a> {
    label: &'a str,
    operator: &'a str,
    value: String,
}

impl<'a> Query<'a> {
    pub fn parse(query: &'a str) -> Result<Self, String> {
        let parts = Parser { tokens: tokens(query)?, at: 0, parts: Vec::new() }.parts()?;
        let has_range = parts.iter().any(|part| matches!(part, Part::Selector(selector) if selector.is_range));
        if !has_range {
            return Err(format!("has no range over the measured window; write [{WINDOW}]"));
        }
        Ok(Self(parts))
    }

    /// The query with a further matcher in each selector. One that the query has for this label must be the same.
    pub fn confined(mut self, label: &'a str, value: &str, namespace: &str) -> Result<Self, String> {
        for part in &mut self.0 {
            let Part::Selector(selector) = part else { continue };
            let own = |matcher: &&Matcher<'_>| unquoted(matcher.label) == label && !matcher.operator.is_empty();
            if let Some(other) = selector
                .matchers
                .iter()
                .filter(own)
                .find(|matcher| matcher.operator != "=" || ![value, namespace].contains(&unquoted(&matcher.value)))
            {
                return Err(format!(
                    "can't select {other}: this operator lets experiments query only series with {label}=\"{namespace}\", \
                     and adds that itself; remove the matcher"
                ));
            }
            selector.matchers.push(Matcher { label, operator: "=", value: format!("\"{value}\"") });
        }
        Ok(self)
    }

    /// The selectors that ranges are taken of.
    pub fn ranges(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().filter_map(|part| match part {
            Part::Selector(selector) if selector.is_range => {
                Some(Selector { is_range: false, ..selector.clone() }.to_string())
            }
            _ => None,
        })
    }
}

impl fmt::Display for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            match part {
                Part::Selector(selector) => write!(f, "{space}{selector}")?,
                Part::Other(text) => write!(f, "{space}{text}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Selector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if !self.matchers.is_empty() || self.name.is_empty() {
            let matchers: Vec<String> = self.matchers.iter().map(ToString::to_string).collect();
            write!(f, "{{{}}}", matchers.join(","))?;
        }
        if self.is_range { write!(f, "[{WINDOW}]") } else { Ok(()) }
    }
}

impl fmt::Display for Matcher<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.label, self.operator, self.value)
    }
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\'', '`'])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Number(&'a str),
    /// With its quotes.
    Text(&'a str),
    /// `[$window]`
    Range,
    Symbol(&'a str),
}

/// Comments and spaces left out.
fn tokens(query: &str) -> Result<Vec<Token<'_>>, String> {
    let mut tokens = Vec::new();
    let spaces = [' ', '\t', '\n', '\r'];
    let mut rest = query.trim_start_matches(spaces);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            // Prometheus ends a comment at either.
            '#' => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            '"' | '\'' | '`' => {
                let length = text_length(rest, first).ok_or_else(|| format!("{rest} has no closing {first}"))?;
                tokens.push(Token::Text(&rest[..length]));
                length
            }
            '[' => {
                let inside = rest[1..].split(']').next().unwrap_or_default();
                if inside.trim() != WINDOW || rest.len() < inside.len() + 2 {
                    return Err(format!("[{inside}] is not the measured window; write [{WINDOW}]"));
                }
                tokens.push(Token::Range);
                inside.len() + 2
            }
            '$' if word_length(&rest[1..]) + 1 == WINDOW.len() && rest.starts_with(WINDOW) => {
                tokens.push(Token::Number(WINDOW));
                WINDOW.len()
            }
            _ if first.is_ascii_alphabetic() || "_:".contains(first) => {
                let length = word_length(rest);
                tokens.push(Token::Word(&rest[..length]));
                length
            }
            _ if first.is_ascii_digit() || first == '.' => {
                let length = number_length(rest);
                if !is_number(&rest[..length]) {
                    return Err(format!("{} is not a number or a duration", &rest[..length]));
                }
                tokens.push(Token::Number(&rest[..length]));
                length
            }
            _ => {
                let known = ["==", "!=", "=~", "!~", ">=", "<="].into_iter().find(|symbol| rest.starts_with(symbol));
                let length = known.map_or(first.len_utf8(), str::len);
                if known.is_none() && !"+-*/%^<>=(){},@".contains(first) {
                    return Err(format!("has {first} outside of quotes, which is not PromQL"));
                }
                tokens.push(Token::Symbol(&rest[..length]));
                length
            }
        };
        rest = rest[length..].trim_start_matches(spaces);
    }
    Ok(tokens)
}

/// A string with its quotes; `None` where it does not end.
fn text_length(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            _ if character == quote => return Some(at + 1),
            '\n' if quote != '`' => return None,
            // Between backticks a backslash is a character like others.
            '\\' if quote != '`' => drop(characters.next()),
            _ => {}
        }
    }
    None
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len())
}

/// Everything that can be part of a number, so that nothing after one is taken for a word.
fn number_length(text: &str) -> usize {
    let mut previous = ' ';
    let is_hex = text.starts_with("0x") || text.starts_with("0X");
    text.find(|c: char| {
        let signed = "+-".contains(c) && "eE".contains(previous) && !is_hex;
        previous = c;
        !(c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '.' || signed)
    })
    .unwrap_or(text.len())
}

fn is_number(text: &str) -> bool {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return !hex.is_empty() && hex.chars().all(|c| c.is_ascii_hexdigit());
    }
    text.parse::<f64>().is_ok() || is_duration(text)
}

/// Such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let after = ["ms", "s", "m", "h", "d", "w", "y"].into_iter().find_map(|name| unit.strip_prefix(name));
        match after {
            Some(after) if unit.len() < rest.len() => rest = after,
            _ => return false,
        }
    }
    !text.is_empty()
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expects {
    Operand,
    /// An operand that a binary operator has before it, or what is said about the operator.
    RightOperand,
    Operator,
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    parts: Vec<Part<'a>>,
}

impl<'a> Parser<'a> {
    fn parts(mut self) -> Result<Vec<Part<'a>>, String> {
        let mut expects = Expects::Operand;
        while let Some(token) = self.next() {
            expects = match token {
                Token::Word(word) => self.word(word, expects)?,
                Token::Symbol("{") if expects != Expects::Operator => self.selector("")?,
                Token::Number(text) | Token::Text(text) if expects != Expects::Operator => {
                    self.other(text);
                    Expects::Operator
                }
                Token::Symbol(text @ ("(" | ",")) => {
                    self.other(text);
                    Expects::Operand
                }
                Token::Symbol(")") => {
                    self.other(")");
                    Expects::Operator
                }
                Token::Symbol(text @ ("+" | "-")) if expects != Expects::Operator => {
                    self.other(text);
                    Expects::Operand
                }
                Token::Symbol("@") if expects == Expects::Operator => {
                    self.other("@");
                    Expects::Operand
                }
                Token::Symbol(text @ ("+" | "-" | "*" | "/" | "%" | "^" | "==" | "!=" | "<" | ">" | "<=" | ">="))
                    if expects == Expects::Operator =>
                {
                    self.other(text);
                    Expects::RightOperand
                }
                Token::Range => return Err(format!("[{WINDOW}] has no selector before it")),
                Token::Number(text) | Token::Text(text) | Token::Symbol(text) => return Err(unexpected(text)),
            };
        }
        Ok(self.parts)
    }

    /// Prometheus knows its own words in any case.
    fn word(&mut self, word: &'a str, expects: Expects) -> Result<Expects, String> {
        let lower = word.to_ascii_lowercase();
        match (lower.as_str(), expects) {
            ("offset", Expects::Operator) => {
                self.other(word);
                Ok(Expects::Operand)
            }
            ("by" | "without", Expects::Operator) => {
                self.labels(word)?;
                Ok(Expects::Operator)
            }
            ("on" | "ignoring", Expects::RightOperand) => {
                self.labels(word)?;
                Ok(Expects::RightOperand)
            }
            ("group_left" | "group_right", Expects::RightOperand) if self.peek() == Some(Token::Symbol("(")) => {
                self.labels(word)?;
                Ok(Expects::RightOperand)
            }
            ("and" | "or" | "unless" | "atan2", Expects::Operator)
            | ("bool" | "group_left" | "group_right", Expects::RightOperand) => {
                self.other(word);
                Ok(Expects::RightOperand)
            }
            (_, Expects::Operator) => Err(unexpected(word)),
            (
                "and" | "or" | "unless" | "atan2" | "offset" | "by" | "without" | "on" | "ignoring" | "bool"
                | "group_left" | "group_right",
                _,
            ) => {
                Err(format!("has {word} where a metric should be; if that is its name, write {{__name__=\"{word}\"}}"))
            }
            ("inf" | "nan", _) => {
                self.other(word);
                Ok(Expects::Operator)
            }
            // It reads series that no selector names.
            ("info", _) if self.peek() == Some(Token::Symbol("(")) => {
                Err("can't use info(): it reads series that the query does not select".to_owned())
            }
            // A function, or an aggregation with its labels before its operand.
            _ if self.peek() == Some(Token::Symbol("(")) => {
                self.other(word);
                Ok(Expects::Operand)
            }
            _ if matches!(self.peek(), Some(Token::Word(next)) if is_grouping(next)) => {
                self.other(word);
                Ok(Expects::Operator)
            }
            _ => {
                if self.peek() == Some(Token::Symbol("{")) {
                    self.at += 1;
                    return self.selector(word);
                }
                self.select(Selector { name: word, ..Selector::default() });
                Ok(Expects::Operator)
            }
        }
    }

    /// Behind its opening brace.
    fn selector(&mut self, name: &'a str) -> Result<Expects, String> {
        let mut matchers = Vec::new();
        loop {
            match self.next() {
                Some(Token::Symbol("}")) => break,
                Some(Token::Text(name) | Token::Word(name)) => {
                    let (mut operator, mut value) = ("", String::new());
                    if let Some(Token::Symbol(symbol @ ("=" | "!=" | "=~" | "!~"))) = self.peek() {
                        self.at += 1;
                        let Some(Token::Text(text)) = self.next() else { return Err(unquoted_value(name, symbol)) };
                        (operator, value) = (symbol, text.to_owned());
                    } else if !name.starts_with(['"', '\'', '`']) {
                        return Err(unquoted_value(name, "="));
                    }
                    matchers.push(Matcher { label: name, operator, value });
                    match self.next() {
                        Some(Token::Symbol(",")) => {}
                        Some(Token::Symbol("}")) => break,
                        other => return Err(unexpected_in_braces(other)),
                    }
                }
                other => return Err(unexpected_in_braces(other)),
            }
        }
        self.select(Selector { name, matchers, is_range: false });
        Ok(Expects::Operator)
    }

    fn select(&mut self, selector: Selector<'a>) {
        let is_range = self.peek() == Some(Token::Range);
        self.at += usize::from(is_range);
        self.parts.push(Part::Selector(Selector { is_range, ..selector }));
    }

    /// A word and the names of labels in parentheses.
    fn labels(&mut self, word: &'a str) -> Result<(), String> {
        self.other(word);
        if self.next() != Some(Token::Symbol("(")) {
            return Err(format!("has no labels in parentheses after {word}"));
        }
        self.other("(");
        loop {
            match self.next() {
                Some(Token::Symbol(")")) => break,
                Some(Token::Symbol(",")) => self.other(","),
                Some(Token::Word(label) | Token::Text(label)) => self.other(label),
                _ => return Err(format!("has something other than labels in the parentheses after {word}")),
            }
        }
        self.other(")");
        Ok(())
    }

    fn other(&mut self, text: &'a str) {
        self.parts.push(Part::Other(text));
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }
}

fn is_grouping(word: &str) -> bool {
    ["by", "without"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn unexpected(text: &str) -> String {
    format!("has an unexpected {text}")
}

fn unquoted_value(label: &str, operator: &str) -> String {
    format!("has no value in quotes for the label {label}; write {label}{operator}\"...\"")
}

fn unexpected_in_braces(token: Option<Token<'_>>) -> String {
    match token {
        None => "has no closing }".to_owned(),
        Some(Token::Range) => format!("has [{WINDOW}] in braces"),
        Some(Token::Word(text) | Token::Number(text) | Token::Text(text) | Token::Symbol(text)) => {
            format!("has {text} in braces; only label=\"value\", separated by commas, may be there")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confined(query: &str) -> Result<String, String> {
        Query::parse(query)?.confined("namespace", "$namespace", "team").map(|query| query.to_string())
    }

    /// As other proxies of this kind are tested: no way of writing a selector leaves one out.
    #[test]
    fn every_selector_is_confined() {
        let n = r#"namespace="$namespace""#;
        for (query, expected) in [
            ("rate(a[$window])", format!("rate ( a{{{n}}}[$window] )")),
            ("rate(a{}[ $window ])", format!("rate ( a{{{n}}}[$window] )")),
            ("rate(a{x=\"1\",}[$window])", format!("rate ( a{{x=\"1\",{n}}}[$window] )")),
            ("rate({__name__=~\".+\"}[$window])", format!("rate ( {{__name__=~\".+\",{n}}}[$window] )")),
            ("rate({\"a.b\", 'c.d'!~`e`}[$window])", format!("rate ( {{\"a.b\",'c.d'!~`e`,{n}}}[$window] )")),
            ("rate(a[$window] @ end() offset -5m)", format!("rate ( a{{{n}}}[$window] @ end ( ) offset - 5m )")),
            (
                "sum by (b, c) (rate(a[$window])) / on (b) group_left (d) e",
                format!("sum by ( b , c ) ( rate ( a{{{n}}}[$window] ) ) / on ( b ) group_left ( d ) e{{{n}}}"),
            ),
            (
                "sum(rate(a[$window])) WITHOUT (b) and ON (x) group_left e > bool -f OR g",
                format!(
                    "sum ( rate ( a{{{n}}}[$window] ) ) WITHOUT ( b ) and ON ( x ) group_left e{{{n}}} > bool - f{{{n}}} OR g{{{n}}}"
                ),
            ),
            // Words of the language can be names of metrics.
            ("rate(sum[$window]) + avg", format!("rate ( sum{{{n}}}[$window] ) + avg{{{n}}}")),
            ("rate(a[$window]) unless info", format!("rate ( a{{{n}}}[$window] ) unless info{{{n}}}")),
            ("rate(and{}[$window])", String::new()),
            // What looks like a string or a comment to one reader only.
            ("rate(a[$window]) # b\r + c", format!("rate ( a{{{n}}}[$window] ) + c{{{n}}}")),
            ("rate(a{b=\"#\"}[$window])", format!("rate ( a{{b=\"#\",{n}}}[$window] )")),
            ("rate(a{b='\\'}', c=`\\`}[$window])", format!("rate ( a{{b='\\'}}',c=`\\`,{n}}}[$window] )")),
            (
                "label_replace(rate(a[$window]), \"x{\", \"$1\", \"y\", \"(.*)\")",
                format!("label_replace ( rate ( a{{{n}}}[$window] ) , \"x{{\" , \"$1\" , \"y\" , \"(.*)\" )"),
            ),
            (
                "increase(a[$window]) / $window + 1e-3 * 0x1F - Inf + 1h30m",
                format!("increase ( a{{{n}}}[$window] ) / $window + 1e-3 * 0x1F - Inf + 1h30m"),
            ),
        ] {
            if expected.is_empty() {
                assert!(confined(query).is_err(), "{query}");
                continue;
            }
            assert_eq!(confined(query), Ok(expected.clone()), "{query}");
            // What it returns means the same to it.
            assert_eq!(Query::parse(&expected).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for (query, word) in [
            // VictoriaMetrics has alternatives, templates and escapes.
            ("rate({a=\"b\" or namespace=\"other\"}[$window])", "or in braces"),
            ("with (x = {a=\"b\"}) rate(x[$window])", "unexpected ="),
            ("rate(a\\-b[$window])", "has \\ outside of quotes"),
            ("rate(a[$window]) if b", "unexpected if"),
            ("rate(a[$window]) b", "unexpected b"),
            ("rate(a[$window]) {b=\"c\"}", "unexpected {"),
            ("rate(on[$window])", "has on where a metric should be"),
            ("rate(a[$window]) + on (b) and", "has and where a metric should be"),
            ("rate($pod[$window])", "has $ outside of quotes"),
            ("rate(a[$window]) + $windows", "has $ outside of quotes"),
            ("rate(a{b=c}[$window])", "no value in quotes for the label b"),
            ("rate(a{b}[$window])", "no value in quotes for the label b"),
            ("rate(a{b=\"c\"[$window])", "[$window] in braces"),
            ("rate(a{b=\"c\"", "no closing }"),
            ("rate(a{b=\"c}[$window])", "no closing \""),
            ("rate(a{b=\"\nc\"}[$window])", "no closing \""),
            ("rate(a[$window]) + 1e-secret", "not a number"),
            ("rate(a[$window]) + 5ma", "not a number"),
            ("rate(a[$window]) + sum by (b + c) (d)", "other than labels"),
            ("info(rate(a[$window]))", "info()"),
            ("rate(a[$window])[$window]", "no selector before it"),
            ("max_over_time(rate(a[$window])[1h:1m])", "[1h:1m] is not the measured window"),
            ("rate(é[$window])", "has é outside of quotes"),
        ] {
            let error = confined(query).expect_err(query);
            assert!(error.contains(word), "{query}: {error}");
        }
    }

    #[test]
    fn matchers_of_the_label_itself_must_be_the_same() {
        for own in ["\"$namespace\"", "\"team\"", "'team'"] {
            assert!(confined(&format!("rate(a{{namespace={own}}}[$window])")).is_ok(), "{own}");
        }
        for other in [
            "namespace=\"other\"",
            "namespace!=\"team\"",
            "namespace=~\"team|other\"",
            "\"namespace\"=\"other\"",
            "namespace=\"team\",namespace=~\".*\"",
        ] {
            let error = confined(&format!("rate(b[$window]) + rate(a{{{other}}}[$window])")).expect_err(other);
            assert!(error.contains("only series with namespace=\"team\""), "{error}");
        }
    }

    #[test]
    fn selectors_of_ranges_are_known() {
        for (query, expected) in [
            ("rate(a_total[$window])", vec!["a_total"]),
            ("sum(rate(a:b{x=\"1\", y=~\"a{2}\\\"}.*\"}[$window]))", vec!["a:b{x=\"1\",y=~\"a{2}\\\"}.*\"}"]),
            ("rate(a[$window]) / rate({__name__='b{'}[$window]) + c", vec!["a", "{__name__='b{'}"]),
        ] {
            assert_eq!(Query::parse(query).unwrap().ranges().collect::<Vec<_>>(), expected, "{query}");
        }
    }

    #[test]
    fn queries_are_about_the_window() {
        let ok = [
            "sum(increase(node_disk_read_bytes_total{instance=\"$node\"}[$window]))",
            "rate(a[ $window ]) / rate(b[$window])",
            r#"rate(a{path=~"/[a-z]\"[5m]", other='[1h]', third=`\`}[$window])"#,
            "rate(a[$window]) # not [5m]\n * 2",
        ];
        for query in ok {
            assert!(Query::parse(query).is_ok(), "{query}");
        }
        for (query, range) in [
            ("rate(a[5m])", "5m"),
            ("rate(a[$window]) + rate(b[5m])", "5m"),
            ("max_over_time(rate(a[$window])[1h:1m])", "1h:1m"),
            ("max_over_time(a[$window:5s])", "$window:5s"),
            ("rate(a[$windows])", "$windows"),
            ("rate(a[]", ""),
        ] {
            let other = format!("[{range}] is not the measured window; write [$window]");
            assert_eq!(Query::parse(query).unwrap_err(), other, "{query}");
        }
        for query in ["up{job=\"[$window]\"}", "up # [$window]"] {
            let none = "has no range over the measured window; write [$window]";
            assert_eq!(Query::parse(query).unwrap_err(), none, "{query}");
        }
    }
}
