//! A YAML document as a tree of places.

use std::rc::Rc;

use assay_core::validate::{FieldPath, Segment};

use super::problem::Position;

/// A value of the document with its place.
#[derive(Debug)]
pub struct Node {
    pub at: Position,
    /// Levels from here down.
    pub depth: usize,
    pub kind: Kind,
}

#[derive(Debug)]
pub enum Kind {
    Scalar(String),
    List(Vec<Rc<Node>>),
    Map(Vec<(Key, Rc<Node>)>),
}

#[derive(Debug)]
pub struct Key {
    pub text: String,
    pub at: Position,
}

impl Node {
    /// The place of a field, or of the closest one above it that exists.
    pub fn find(&self, path: &FieldPath, at_key: bool) -> Position {
        let (mut node, mut name) = (self, self.at);
        for segment in path.segments() {
            let next = match (segment, &node.kind) {
                (Segment::Index(index), Kind::List(items)) => items.get(*index).map(|item| (item.at, item)),
                (Segment::Key(key), Kind::Map(_)) => node.entry(key),
                _ => None,
            };
            let Some((at, value)) = next else { return name };
            (name, node) = (at, value);
        }
        // Where the value is a block of its own lines, its name is what people look for.
        if at_key || !matches!(node.kind, Kind::Scalar(_)) { name } else { node.at }
    }

    /// A field, or one that a merge key brings in.
    fn entry(&self, name: &str) -> Option<(Position, &Rc<Self>)> {
        let Kind::Map(entries) = &self.kind else { return None };
        let own = entries.iter().find(|(key, _)| key.text == name).map(|(key, node)| (key.at, node));
        own.or_else(|| {
            let merged = entries.iter().filter(|(key, _)| key.text == "<<").map(|(_, node)| node);
            merged
                .flat_map(|node| match &node.kind {
                    Kind::List(items) => items.iter().collect(),
                    _ => vec![node],
                })
                .find_map(|node| node.entry(name))
        })
    }
}
