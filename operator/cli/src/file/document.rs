//! Bytes to a document whose fields know their lines.

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::rc::Rc;

use assay_core::validate::FieldPath;
use serde::Deserialize;
use serde_json::Value;

use super::node::Node;
use super::places;
use super::problem::{FileProblem, Position};

/// What the API server takes of one object, and far more than an experiment needs.
const MOST_BYTES: u64 = 1 << 20;

/// One document with the places of its fields.
#[derive(Debug)]
pub struct Document {
    /// The file as it was given.
    pub source: Vec<u8>,
    pub value: Value,
    pub places: Rc<Node>,
}

/// Reads a file, or standard input where the path is `-`.
pub fn read(path: &Path) -> Result<Document, Vec<FileProblem>> {
    let bytes = if path.as_os_str() == "-" {
        if std::io::stdin().is_terminal() {
            return Err(FileProblem::new("is a terminal: pipe a file into assay, or give its path"));
        }
        slurp(std::io::stdin().lock())
    } else {
        if path.is_dir() {
            return Err(FileProblem::new("is a directory: give a file"));
        }
        std::fs::File::open(path).and_then(slurp)
    };
    let bytes = bytes.map_err(|error| FileProblem::new(format!("can't be read: {error}")))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(FileProblem::new("is larger than 1 MiB: too large for an experiment"));
    }
    parse(bytes)
}

/// Reads as much as is needed to see that it is too much.
fn slurp(reader: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub fn parse(source: Vec<u8>) -> Result<Document, Vec<FileProblem>> {
    let text = utf8(&source)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut places = places::documents(text)?.into_iter();
    let Some(first) = places.next() else {
        return Err(FileProblem::new("is empty: no experiment found"));
    };
    if let Some(second) = places.next() {
        let at = Some(second.find(&FieldPath::root(), false));
        let count = 2 + places.count();
        let message = format!("has {count} documents: put each experiment in its own file");
        return Err(vec![FileProblem { at, message }]);
    }
    let value = value(text, &first)?;
    Ok(Document { source, value, places: first })
}

fn utf8(bytes: &[u8]) -> Result<&str, Vec<FileProblem>> {
    std::str::from_utf8(bytes).map_err(|error| {
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            return FileProblem::new("is encoded in UTF-16: save it as UTF-8");
        }
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned();
        let line = valid.matches('\n').count() + 1;
        let column = valid.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        vec![FileProblem { at: Some(Position { line, column }), message: "is not UTF-8: save it as UTF-8".to_owned() }]
    })
}

/// The only document that is not empty.
fn value(text: &str, places: &Node) -> Result<Value, Vec<FileProblem>> {
    for document in serde_yaml::Deserializer::from_str(text) {
        let mut value = serde_yaml::Value::deserialize(document).map_err(|error| yaml_problem(&error))?;
        if value.is_null() {
            continue;
        }
        value.apply_merge().map_err(|error| yaml_problem(&error))?;
        let mut problems = Vec::new();
        let value = to_json(value, &FieldPath::root(), places, &mut problems);
        return if problems.is_empty() { Ok(value) } else { Err(problems) };
    }
    Err(FileProblem::new("is empty: no experiment found"))
}

fn yaml_problem(error: &serde_yaml::Error) -> Vec<FileProblem> {
    let at = error.location().map(|at| Position { line: at.line(), column: at.column() });
    vec![FileProblem { at, message: format!("invalid YAML: {error}") }]
}

/// JSON has fewer kinds of values. What has no place in it is no part of an experiment either.
fn to_json(value: serde_yaml::Value, path: &FieldPath, places: &Node, problems: &mut Vec<FileProblem>) -> Value {
    let mut refuse = |message: String| {
        problems.push(FileProblem { at: Some(places.find(path, false)), message });
        Value::Null
    };
    match value {
        serde_yaml::Value::Null => Value::Null,
        serde_yaml::Value::Bool(flag) => Value::Bool(flag),
        serde_yaml::Value::String(text) => Value::String(text),
        serde_yaml::Value::Number(number) => {
            let json = match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => Some(number.into()),
                (_, Some(number)) => Some(number.into()),
                _ => number.as_f64().and_then(serde_json::Number::from_f64),
            };
            json.map_or_else(|| refuse(format!("{path}: {number} is not a finite number")), Value::Number)
        }
        serde_yaml::Value::Sequence(items) => {
            let items = items.into_iter().enumerate();
            Value::Array(items.map(|(index, item)| to_json(item, &path.index(index), places, problems)).collect())
        }
        serde_yaml::Value::Mapping(fields) => {
            let mut object = serde_json::Map::new();
            for (key, value) in fields {
                match key {
                    serde_yaml::Value::String(key) => {
                        let value = to_json(value, &path.key(&key), places, problems);
                        object.insert(key, value);
                    }
                    other => {
                        let key = serde_yaml::to_string(&other).unwrap_or_default();
                        let key = key.trim();
                        let at = Some(places.find(&path.key(key), true));
                        let message = format!("field names must be strings: write \"{key}\"");
                        problems.push(FileProblem { at, message });
                    }
                }
            }
            Value::Object(object)
        }
        serde_yaml::Value::Tagged(tagged) => refuse(format!("unsupported tag {}: remove it", tagged.tag)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SOUND: &[u8] = include_bytes!("../../../../examples/ethrex-per-level-compression.yaml");

    fn read(bytes: &[u8]) -> Result<Value, String> {
        parse(bytes.to_vec())
            .map(|document| document.value)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn yaml_as_people_write_it() {
        let table: [(&[u8], Value); 8] = [
            (b"a: 1\n", json!({"a": 1})),
            (b"\xef\xbb\xbfa: 1\r\nb: [x, -2, 1.5]\r\n", json!({"a": 1, "b": ["x", -2, 1.5]})),
            (b"---\na: 1\n---\n# no more\n", json!({"a": 1})),
            (b"base: &b {x: 1, y: 1}\nc: {<<: *b, y: 2}\n", json!({"base": {"x": 1, "y": 1}, "c": {"x": 1, "y": 2}})),
            (b"a: 18446744073709551615\n", json!({"a": u64::MAX})),
            (b"a: yes\nb: 'true'\nc: ~\n", json!({"a": "yes", "b": "true", "c": null})),
            (b"a: kNoCompression:kLZ4Compression\n", json!({"a": "kNoCompression:kLZ4Compression"})),
            (b"text\n", json!("text")),
        ];
        for (bytes, expected) in table {
            assert_eq!(read(bytes), Ok(expected), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_can_not_be_read_says_why() {
        let table: [(&[u8], &str); 9] = [
            (b"", "is empty: no experiment found"),
            (b"\xef\xbb\xbf# x\n", "is empty: no experiment found"),
            (b"a: 1\n---\nb: 1\n---\nc: 1\n", "3:1: has 3 documents: put each experiment in its own file"),
            (b"a: 1\nb: \xc3\xa4\xff\n", "2:5: is not UTF-8: save it as UTF-8"),
            (b"\xff\xfea\0", "is encoded in UTF-16: save it as UTF-8"),
            (b"a: .nan\n", "1:4: a: .nan is not a finite number"),
            (b"a: {1: x}\n", "1:5: field names must be strings: write \"1\""),
            (b"a: {<<: 3}\n", "invalid YAML: expected a mapping or list of mappings for merging, but found scalar"),
            (b"a: 1\na: 2\n", "2:1: duplicate key a; first set on line 1"),
        ];
        for (bytes, expected) in table {
            assert_eq!(read(bytes), Err(expected.to_owned()), "{}", String::from_utf8_lossy(bytes));
        }
    }

    /// Damage that every reader refuses at once would try nothing.
    #[test]
    fn of_damaged_files_some_are_read_and_some_refused() {
        let readable = |at: usize, with: u8| {
            let mut bytes = SOUND.to_vec();
            bytes[at] = with;
            read(&bytes).is_ok()
        };
        assert!(read(SOUND).is_ok());
        let tried = (0..SOUND.len()).step_by(7).flat_map(|at| [(at, b'x'), (at, b'{'), (at, b'\n'), (at, 0xff)]);
        let (taken, refused): (Vec<_>, Vec<_>) = tried.partition(|&(at, with)| readable(at, with));
        assert!(taken.len() > 100 && refused.len() > 100, "{} and {}", taken.len(), refused.len());
    }

    #[test]
    fn laughter_is_cut_short() {
        let line = |i: usize| format!("a{i}: &a{i} [*a{}, *a{}, *a{}]\n", i - 1, i - 1, i - 1);
        let lines = (1..40).map(line).collect::<Vec<_>>().concat();
        let refused = read(format!("a0: &a0 [x]\n{lines}").as_bytes());
        assert!(refused.is_err());
    }

    proptest! {
        /// Of a sound file some bytes are others, or its end is missing.
        #[test]
        fn a_damaged_file_is_read_or_refused(
            at in any::<prop::sample::Index>(),
            with in prop::collection::vec(any::<u8>(), 0..4),
            cut: bool,
        ) {
            let mut bytes = SOUND.to_vec();
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes.splice(at..(at + with.len()).min(bytes.len()), with); }
            if let Err(problems) = read(&bytes) {
                prop_assert!(!problems.is_empty());
            }
        }

        #[test]
        fn anything_like_yaml_is_read_or_refused(text in "([-a?:{}\\[\\],&*!|>'\"%@#~<\n \t]|- |: |<<: |\n  |&a |\\*a|---\n){0,60}") {
            let _ = read(text.as_bytes());
        }
    }
}
