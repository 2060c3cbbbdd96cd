//! The places of all fields of a YAML text: `serde_yaml` gives the values and drops the places.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::node::{Key, Kind, Node};
use super::problem::{FileProblem, Position};

/// Deeper than any experiment, shallower than any stack.
const MOST_DEPTH: usize = 64;

/// A collection that is being read.
struct Open {
    at: Position,
    anchor: usize,
    depth: usize,
    /// The key that waits for its value.
    key: Option<Key>,
    kind: Kind,
}

/// Reads the places of every document that is not empty.
pub fn documents(text: &str) -> Result<Vec<Rc<Node>>, Vec<FileProblem>> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => reader.read(&event, span)?,
            Err(error) => return Err(vec![syntax(text, error.info(), (*error.marker()).into())]),
        }
    }
    if reader.problems.is_empty() { Ok(reader.documents) } else { Err(reader.problems) }
}

fn syntax(text: &str, info: &str, at: Position) -> FileProblem {
    let tab = text.lines().take(at.line).any(|line| {
        let content = line.trim_start_matches(' ');
        content.starts_with('\t') && !content.trim().is_empty()
    });
    let hint = if tab { "; a line starts with a tab: indent YAML with spaces" } else { "" };
    FileProblem { at: Some(at), message: format!("invalid YAML: {info}{hint}") }
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    documents: Vec<Rc<Node>>,
    problems: Vec<FileProblem>,
}

impl Reader {
    fn read(&mut self, event: &Event<'_>, span: Span) -> Result<(), Vec<FileProblem>> {
        let at = Position::from(span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.tag(tag.as_deref(), at);
                if *style == ScalarStyle::Plain {
                    self.integer(text, at);
                }
                self.add(Node { at, depth: 1, kind: Kind::Scalar(text.to_string()) }, *anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.tag(tag.as_deref(), at);
                self.begin(at, *anchor, Kind::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.tag(tag.as_deref(), at);
                self.begin(at, *anchor, Kind::Map(Vec::new()))
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { at, anchor, depth, kind, .. }) => self.add(Node { at, depth: depth + 1, kind }, anchor),
                None => Ok(()),
            },
            Event::Alias(anchor) => match self.anchors.get(anchor).cloned() {
                Some(node) => self.place(node, at),
                None => {
                    Err(vec![FileProblem { at: Some(at), message: "an alias is inside its own anchor".to_owned() }])
                }
            },
            _ => Ok(()),
        }
    }

    fn tag(&mut self, tag: Option<&saphyr_parser::Tag>, at: Position) {
        if let Some(tag) = tag {
            let message = format!("unsupported tag {tag}: remove it");
            self.problems.push(FileProblem { at: Some(at), message });
        }
    }

    /// `serde_yaml` has no integers of more than 64 bits, and no good word for them.
    fn integer(&mut self, text: &str, at: Position) {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let all_digits = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
        if all_digits && text.parse::<i64>().is_err() && text.parse::<u64>().is_err() {
            let message = format!("{text} is too large for a 64-bit integer; put it in quotes if it is a string");
            self.problems.push(FileProblem { at: Some(at), message });
        }
    }

    fn begin(&mut self, at: Position, anchor: usize, kind: Kind) -> Result<(), Vec<FileProblem>> {
        self.open.push(Open { at, anchor, depth: 0, key: None, kind });
        if self.open.len() > MOST_DEPTH { Err(too_deep(at)) } else { Ok(()) }
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Vec<FileProblem>> {
        let (node, at) = (Rc::new(node), self.open.last().map_or(Position { line: 1, column: 1 }, |open| open.at));
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        let at = if node.depth > MOST_DEPTH { at } else { node.at };
        self.place(node, at)
    }

    /// Puts a value where it belongs: into the collection that is open, or at the top.
    fn place(&mut self, node: Rc<Node>, at: Position) -> Result<(), Vec<FileProblem>> {
        // Aliases nest without opening anything.
        if node.depth > MOST_DEPTH {
            return Err(too_deep(at));
        }
        let Some(open) = self.open.last_mut() else {
            if !matches!(&node.kind, Kind::Scalar(text) if text.is_empty() || text == "~" || text == "null") {
                self.documents.push(node);
            }
            return Ok(());
        };
        open.depth = open.depth.max(node.depth);
        match (&mut open.kind, open.key.take()) {
            (Kind::List(items), _) => items.push(node),
            (Kind::Map(entries), Some(key)) => entries.push((key, node)),
            (Kind::Map(entries), None) => {
                let Kind::Scalar(text) = &node.kind else {
                    self.problems.push(FileProblem { at: Some(at), message: "field names must be strings".to_owned() });
                    open.key = Some(Key { text: String::new(), at });
                    return Ok(());
                };
                if let Some((first, _)) = entries.iter().find(|(key, _)| key.text == *text) {
                    let message = format!("duplicate key {text}; first set on line {}", first.at.line);
                    self.problems.push(FileProblem { at: Some(at), message });
                }
                open.key = Some(Key { text: text.clone(), at });
            }
            (Kind::Scalar(_), _) => {}
        }
        Ok(())
    }
}

fn too_deep(at: Position) -> Vec<FileProblem> {
    vec![FileProblem { at: Some(at), message: format!("is nested deeper than {MOST_DEPTH} levels") }]
}

#[cfg(test)]
mod tests {
    use assay_core::validate::FieldPath;

    use super::*;

    fn place(text: &str, path: &FieldPath, at_key: bool) -> (usize, usize) {
        let documents = documents(text).unwrap_or_default();
        let at = documents.first().map_or(Position { line: 0, column: 0 }, |node| node.find(path, at_key));
        (at.line, at.column)
    }

    #[test]
    fn fields_are_found() {
        let text = "spec:\n  configs:\n  - name: a\n    options: {x: 1, y: 2}\n  - name: b\n";
        let configs = FieldPath::root().keys("spec.configs");
        for (path, at_key, expected) in [
            (FieldPath::root(), false, (1, 1)),
            (configs.clone(), false, (2, 3)),
            (configs.index(1).key("name"), false, (5, 11)),
            (configs.index(1).key("name"), true, (5, 5)),
            (configs.index(0).keys("options.y"), false, (4, 24)),
            (configs.index(0).keys("options.y"), true, (4, 21)),
            (configs.index(0).key("options"), false, (4, 5)),
            (configs.index(1), false, (5, 5)),
            // What is missing is looked for above.
            (configs.index(1).keys("options.y"), false, (5, 5)),
            (configs.index(7), false, (2, 3)),
        ] {
            assert_eq!(place(text, &path, at_key), expected, "{path} {at_key}");
        }
    }

    #[test]
    fn anchors_lead_to_where_the_text_is() {
        let text = "base: &base\n  x: 1\na: *base\nb:\n  <<: *base\n  y: 2\nc:\n  <<: [*base]\n";
        for (path, expected) in [("a.x", (2, 6)), ("b.x", (2, 6)), ("b.y", (6, 6)), ("c.x", (2, 6)), ("b.z", (4, 1))] {
            assert_eq!(place(text, &FieldPath::root().keys(path), false), expected, "{path}");
        }
    }

    #[test]
    fn line_ends_and_wide_characters_count_once() {
        assert_eq!(place("a: 1\r\nb: 2\r\n", &FieldPath::root().key("b"), false), (2, 4));
        assert_eq!(place("a: {ä: 1, b: 2}\n", &FieldPath::root().keys("a.b"), true), (1, 11));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |text: &str| -> String {
            documents(text).err().into_iter().flatten().map(|problem| problem.to_string()).collect::<Vec<_>>().join("|")
        };
        assert_eq!(
            refused("a: 1\nb: 1\na: 2\nb: 3\n"),
            "3:1: duplicate key a; first set on line 1|4:1: duplicate key b; first set on line 2"
        );
        assert!(refused("a:\n\t- b\n").contains("a line starts with a tab"), "{}", refused("a:\n\t- b\n"));
        assert!(refused("a: [1\n").starts_with("2:1: invalid YAML: "), "{}", refused("a: [1\n"));
        assert_eq!(refused("a: !secret x\n"), "1:4: unsupported tag !secret: remove it");
        assert_eq!(refused("{[a]: 1}\n"), "1:2: field names must be strings");
        assert!(refused(&"[".repeat(100_000)).contains("deeper") || refused(&"[".repeat(100_000)).contains("limit"));
        assert!(refused(&"- ".repeat(1000)).contains("deeper"));
        // Aliases of aliases: no deeper on the page, as deep in memory, and exponential if copied.
        let link = |i: usize| format!("a{i}: &a{i} [*a{}, *a{}]\n", i - 1, i - 1);
        let chain = (1..5000).map(link).collect::<Vec<_>>().concat();
        assert!(refused(&format!("a0: &a0 [x]\n{chain}")).contains("deeper"));
        assert!(!refused("a: *nowhere\n").is_empty());
        assert!(!refused("a: &a [*a]\n").is_empty());
    }

    #[test]
    fn empty_documents_do_not_count() {
        for (text, count) in
            [("", 0), ("# nothing\n", 0), ("---\n---\n", 0), ("---\na: 1\n---\n", 1), ("a: 1\n---\nb: 1\n", 2)]
        {
            assert_eq!(documents(text).map(|documents| documents.len()).ok(), Some(count), "{text:?}");
        }
    }
}
