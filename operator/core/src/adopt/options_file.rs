//! The OPTIONS file that RocksDB leaves in the folder of a database, of any version.

use std::collections::BTreeMap;
use std::fmt;

/// Options by name, as they are written.
pub type Options = BTreeMap<String, String>;

/// What an OPTIONS file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsFile {
    /// The version of RocksDB that wrote it.
    pub version: String,
    pub db: Options,
    /// In the order of the file.
    pub families: Vec<Family>,
    /// Sections of kinds that this reader does not know.
    pub unknown_sections: Vec<String>,
}

/// A column family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    pub name: String,
    pub options: Options,
    /// The format of its SST files.
    pub table: Option<Table>,
}

/// The options of SST files, which have a section of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Such as `BlockBasedTable`.
    pub factory: String,
    pub options: Options,
}

/// Why a text is no OPTIONS file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line at fault, counted from 1, if there is one.
    pub line: Option<usize>,
    pub message: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Malformed {}

/// The section that lines belong to.
#[derive(Clone, Copy)]
enum Section {
    Before,
    Version,
    Db,
    Family(usize),
    Table(usize),
    Unknown,
}

/// Reads the text of an OPTIONS file.
pub fn parse(text: &str) -> Result<OptionsFile, Malformed> {
    let mut reader = Reader { file: OptionsFile::default(), section: Section::Before, has_db: false, line: 0 };
    for (index, line) in text.lines().enumerate() {
        reader.line = index + 1;
        let line = without_comment(line).trim();
        if !line.is_empty() {
            reader.line(line)?;
        }
    }
    reader.end()
}

struct Reader {
    file: OptionsFile,
    section: Section,
    has_db: bool,
    line: usize,
}

impl Reader {
    fn malformed<T>(&self, message: impl Into<String>) -> Result<T, Malformed> {
        Err(Malformed { line: Some(self.line), message: message.into() })
    }

    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        if let Some(rest) = line.strip_prefix('[') {
            return match rest.strip_suffix(']') {
                Some(title) => self.section(title),
                None => self.malformed("the section has no closing ]; is the file complete?"),
            };
        }
        let Some((name, value)) = line.split_once('=') else {
            return self.malformed("neither a [section] nor an option=value; is this an OPTIONS file of RocksDB?");
        };
        let (name, value) = (name.trim(), unescaped(value.trim()));
        if name.is_empty() {
            return self.malformed("the option has no name");
        }
        let options = match self.section {
            Section::Before => return self.malformed("an option before the first [section]"),
            Section::Unknown => return Ok(()),
            Section::Version => {
                if name == "rocksdb_version" {
                    self.file.version = value;
                }
                return Ok(());
            }
            Section::Db => &mut self.file.db,
            Section::Family(family) => &mut self.file.families[family].options,
            Section::Table(family) => &mut self.file.families[family].table.get_or_insert_default().options,
        };
        if options.insert(name.to_owned(), value).is_some() {
            return self.malformed(format!("{name} is set twice in this section; keep one"));
        }
        Ok(())
    }

    /// `CFOptions "name"`, as it stands between the brackets.
    fn section(&mut self, title: &str) -> Result<(), Malformed> {
        let (kind, name) = match (title.find('"'), title.rfind('"')) {
            (Some(from), Some(to)) if from < to => (title[..from].trim(), Some(unescaped(&title[from + 1..to]))),
            (None, None) => (title.trim(), None),
            _ => return self.malformed("the name of the section has no closing quote"),
        };
        let known = |file: &OptionsFile, name: &str| file.families.iter().position(|family| family.name == name);
        self.section = match (kind, name) {
            ("Version", _) => Section::Version,
            ("DBOptions", _) if self.has_db => return self.malformed("a second section [DBOptions]; keep one"),
            ("DBOptions", _) => {
                self.has_db = true;
                Section::Db
            }
            ("CFOptions", Some(name)) => {
                if known(&self.file, &name).is_some() {
                    return self.malformed(format!("a second section [CFOptions \"{name}\"]; keep one"));
                }
                self.file.families.push(Family { name, ..Family::default() });
                Section::Family(self.file.families.len() - 1)
            }
            ("CFOptions", None) => return self.malformed("the section has no column family: [CFOptions \"default\"]"),
            (kind, Some(name)) if kind.starts_with("TableOptions/") => {
                let Some(family) = known(&self.file, &name) else {
                    return self.malformed(format!("table options of {name:?}, which has no section [CFOptions]"));
                };
                if self.file.families[family].table.is_some() {
                    return self.malformed(format!("a second section with table options of {name:?}; keep one"));
                }
                let factory = kind.trim_start_matches("TableOptions/").to_owned();
                self.file.families[family].table = Some(Table { factory, options: Options::new() });
                Section::Table(family)
            }
            (kind, _) => {
                self.file.unknown_sections.push(kind.to_owned());
                Section::Unknown
            }
        };
        Ok(())
    }

    fn end(self) -> Result<OptionsFile, Malformed> {
        let missing = |what: &str| {
            let message = format!("has no {what}: not an OPTIONS file of RocksDB, or not all of it");
            Err(Malformed { line: None, message })
        };
        if self.line == 0 {
            return Err(Malformed { line: None, message: "is empty".to_owned() });
        }
        if self.file.version.is_empty() {
            return missing("rocksdb_version in a section [Version]");
        }
        if !self.has_db {
            return missing("section [DBOptions]");
        }
        if self.file.families.is_empty() {
            return missing("section [CFOptions \"default\"]");
        }
        Ok(self.file)
    }
}

/// What comes before a `#` that is not escaped.
fn without_comment(line: &str) -> &str {
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            '#' if !escaped => return &line[..at],
            _ => escaped = false,
        }
    }
    line
}

/// RocksDB escapes `\`, `#`, `:` and line ends with a backslash.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => plain.push('\n'),
                Some('r') => plain.push('\r'),
                Some(other) => plain.push(other),
                None => {}
            },
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# comment\n[Version]\n  rocksdb_version=8.10.0\n  options_file_version=1.1\n\n[DBOptions]\n";
    const FAMILY: &str = "[CFOptions \"default\"]\n  ttl=0\n";

    #[test]
    fn sections_options_and_escapes() {
        let text = format!(
            "{HEAD}  max_background_jobs=8   # of the machine\n  db_log_dir=/logs/\\#1\n{FAMILY}\
             [TableOptions/BlockBasedTable \"default\"]\n  block_size=8192\n\n\
             [CFOptions \"a\\:b\"]\r\n  compression_per_level=kNoCompression:kZSTD\r\n"
        );
        let file = parse(&text).unwrap();
        assert_eq!(file.version, "8.10.0");
        assert_eq!(file.db["max_background_jobs"], "8");
        assert_eq!(file.db["db_log_dir"], "/logs/#1");
        let names: Vec<&str> = file.families.iter().map(|family| family.name.as_str()).collect();
        assert_eq!(names, ["default", "a:b"]);
        let table = file.families[0].table.as_ref().unwrap();
        assert_eq!((table.factory.as_str(), table.options["block_size"].as_str()), ("BlockBasedTable", "8192"));
        assert_eq!(file.families[1].options["compression_per_level"], "kNoCompression:kZSTD");
        assert_eq!(file.families[1].table, None);
    }

    #[test]
    fn what_is_no_options_file_says_why() {
        for (text, message) in [
            (String::new(), "is empty"),
            ("\n\n".to_owned(), "has no rocksdb_version in a section [Version]: not an OPTIONS file"),
            ("{\"a\": 1}".to_owned(), "line 1: neither a [section] nor an option=value"),
            ("a=1\n".to_owned(), "line 1: an option before the first [section]"),
            ("[DBOptions]\n".to_owned() + FAMILY, "has no rocksdb_version"),
            (HEAD.to_owned(), "has no section [CFOptions \"default\"]"),
            (HEAD.replace("[DBOptions]\n", "") + FAMILY, "has no section [DBOptions]"),
            (format!("{HEAD}{FAMILY}[CFOptions \"x"), "line 9: the section has no closing ]; is the file complete?"),
            (format!("{HEAD}[CFOptions \"x]\n"), "line 7: the name of the section has no closing quote"),
            (format!("{HEAD}[CFOptions]\n"), "line 7: the section has no column family"),
            (format!("{HEAD}{FAMILY}{FAMILY}"), "line 9: a second section [CFOptions \"default\"]; keep one"),
            (format!("{HEAD}{FAMILY}ttl=1\n"), "line 9: ttl is set twice in this section; keep one"),
            (format!("{HEAD}{FAMILY} =1\n"), "line 9: the option has no name"),
            (format!("{HEAD}{FAMILY}[DBOptions]\n"), "line 9: a second section [DBOptions]; keep one"),
            (
                format!("{HEAD}[TableOptions/BlockBasedTable \"x\"]\n"),
                "line 7: table options of \"x\", which has no section [CFOptions]",
            ),
        ] {
            let refused = parse(&text).map_err(|error| error.to_string());
            assert!(refused.as_ref().is_err_and(|said| said.starts_with(message)), "{text:?}: {refused:?}");
        }
    }

    #[test]
    fn a_section_of_later_versions_is_kept_in_mind() {
        let file = parse(&format!("{HEAD}{FAMILY}[FutureOptions \"x\"]\n  a=1\n")).unwrap();
        assert_eq!(file.unknown_sections, ["FutureOptions"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\[|\\]|\"|=|#|\\\\|\n|Version|DBOptions|CFOptions|TableOptions/|x|:|.){0,60}") {
            let _ = parse(&text);
        }
    }
}
