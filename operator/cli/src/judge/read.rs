//! Opening files, telling their formats, and reading them in pieces of bounded size.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read as _};
use std::path::Path;

use assay_core::import::{Collector, Format, Place, db_bench, hyperfine};

/// Longer than any line of results; a quote that is never closed or a binary file must not fill the memory.
pub const MOST_LINE: u64 = 1 << 20;
/// A document that has to be read as a whole.
const MOST_DOCUMENT: u64 = 64 << 20;
/// What a format shows itself in.
const PEEK: usize = 64 << 10;
const BOM: &[u8] = b"\xef\xbb\xbf";

pub type Input = Box<dyn BufRead>;

pub fn open(path: &Path) -> io::Result<Input> {
    if path.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            return Err(io::Error::other("it is a terminal; pipe results into assay, or give a file"));
        }
        return Ok(Box::new(BufReader::with_capacity(PEEK, io::stdin())));
    }
    Ok(Box::new(BufReader::with_capacity(PEEK, File::open(path)?)))
}

/// The format by what a file begins with, and the whole file again without its byte order mark. What is no text has no format.
pub fn detect(mut input: Input, format: Option<Format>) -> io::Result<(Format, Input)> {
    let mut start = Vec::new();
    // A pipe may give a few bytes at a time.
    input.by_ref().take(PEEK as u64).read_to_end(&mut start)?;
    if let Some(problem) = no_text(&start) {
        return Err(io::Error::other(problem));
    }
    if start.starts_with(BOM) {
        start.drain(..BOM.len());
    }
    let found = format.unwrap_or_else(|| guess(&String::from_utf8_lossy(&start)));
    Ok((found, Box::new(BufReader::new(io::Cursor::new(start).chain(input)))))
}

/// What a file is that holds no text in UTF-8, and what to do about it.
fn no_text(start: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 5] = [
        (b"PK\x03\x04", "it is a spreadsheet (.xlsx, .ods) or another zip archive; save it as CSV"),
        (b"\xd0\xcf\x11\xe0", "it is an old spreadsheet (.xls); save it as CSV"),
        (b"\x1f\x8b", "it is compressed; unpack it with gunzip"),
        (b"\xff\xfe", "it is UTF-16; save it as UTF-8"),
        (b"\xfe\xff", "it is UTF-16; save it as UTF-8"),
    ];
    let known = KNOWN.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, problem)| *problem);
    known.or_else(|| start.contains(&0).then_some("it has NUL bytes: not a text file, or UTF-16; save it as UTF-8"))
}

fn guess(start: &str) -> Format {
    if start.trim_start().starts_with('{') {
        let first = start.trim_start().lines().next().unwrap_or_default();
        let line: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(first);
        return match line {
            Ok(object) if !object.contains_key("results") => Format::Jsonl,
            Err(_) if !start.contains("\"results\"") => Format::Jsonl,
            _ => Format::Hyperfine,
        };
    }
    let marked = start.lines().any(|line| line.starts_with(db_bench::MARK));
    let printed = db_bench::SIGNS.iter().any(|sign| start.contains(sign));
    if marked || printed {
        Format::DbBench
    } else if start.trim_start().starts_with('[') {
        Format::Jsonl
    } else {
        Format::Csv
    }
}

/// Calls `each` with every line; what can't be read is a problem.
pub fn lines(mut input: Input, file: u32, to: &mut Collector<'_>, mut each: impl FnMut(u64, &str, &mut Collector<'_>)) {
    let mut line = Vec::new();
    let mut place = Place { file, line: 0 };
    while !to.is_full() {
        line.clear();
        place.line += 1;
        match input.by_ref().take(MOST_LINE + 1).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(length) if length as u64 > MOST_LINE => {
                return to.problem(place, None, "is longer than 1 MiB: this is not a results file");
            }
            Ok(_) => match std::str::from_utf8(&line) {
                Ok(text) => each(place.line, text.trim_end_matches(['\n', '\r']), to),
                Err(_) => return to.problem(place, None, "is not UTF-8: save the file as UTF-8"),
            },
            Err(error) => return to.problem(place, None, format!("can't be read: {error}")),
        }
    }
}

pub fn db_bench(input: Input, file: u32, run: db_bench::RunId, to: &mut Collector<'_>) {
    let mut reader = db_bench::Reader::new(file, run);
    lines(input, file, to, |number, line, to| reader.line(number, line, to));
    reader.finish(to);
}

pub fn hyperfine(input: Input, file: u32, block: Option<&str>, to: &mut Collector<'_>) {
    let mut text = String::new();
    let place = Place { file, line: 0 };
    match input.take(MOST_DOCUMENT + 1).read_to_string(&mut text) {
        Ok(length) if length as u64 > MOST_DOCUMENT => {
            to.problem(place, None, "is larger than 64 MiB: export fewer runs");
        }
        Ok(_) => hyperfine::read(&text, file, block, to),
        Err(error) => to.problem(place, None, format!("can't be read: {error}")),
    }
}
