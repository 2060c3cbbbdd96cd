//! No bytes make the readers panic, or read on for ever.

use std::io::{self, BufReader, Cursor, Read};

use assay_core::import::{Collector, Format, Policy, db_bench, judge};
use proptest::prelude::*;
use serde_json::json;

use super::{json as json_lines, read, table};

const CSV: &str = "scenario,config,block,metric,value,unit,failed\ns,a,1,m,10,s,\ns,b,1,m,\"11\",s,no\ns,a,2,m,0,s,0\r\ns,b,2,m,,s,true\n";
const JSONL: &str = "{\"scenario\":\"s\",\"config\":\"a\",\"metric\":\"m\",\"value\":1.5}\n\
                     {\"scenario\":\"s\",\"config\":\"b\",\"metric\":\"m\",\"value\":\"1.25\"}\n";

const DB_BENCH: &str = include_str!("../../tests/judge/data/db_bench/plain.1.txt");
const HYPERFINE: &str = include_str!("../../tests/judge/data/hyperfine-one/export.json");

/// Reads bytes as one format, or as what they look like, and says what came of it.
fn outcome(bytes: &[u8], format: Option<Format>) -> Result<(), Vec<String>> {
    let policy = json!({"baseline": "a", "objectives": [{"metric": "m", "direction": "lower", "margin": "5%"}]});
    let policy = Policy::read(&policy).expect("the policy is valid");
    let mut to = Collector::new(&policy);
    let input: read::Input = Box::new(BufReader::new(Cursor::new(bytes.to_vec())));
    let (format, input) = read::detect(input, format).map_err(|error| vec![error.to_string()])?;
    let file = to.file("data");
    match format {
        Format::Csv => table::csv(input, file, &mut to),
        Format::Jsonl => json_lines::lines(input, file, &mut to),
        Format::DbBench => read::db_bench(input, file, db_bench::RunId::of_file("a.txt", &policy), &mut to),
        Format::Hyperfine => read::hyperfine(input, file, None, &mut to),
    }
    let report = to.finish().and_then(|data| judge(&data, &policy));
    report.map(|_| ()).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

const FORMATS: [Option<Format>; 5] =
    [None, Some(Format::Csv), Some(Format::Jsonl), Some(Format::DbBench), Some(Format::Hyperfine)];

fn mutated(text: &str, at: prop::sample::Index, with: &[u8]) -> Vec<u8> {
    let at = at.index(text.len());
    [&text.as_bytes()[..at], with, &text.as_bytes()[at + 1..]].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn broken_files(at in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 0..3)) {
        for text in [CSV, JSONL, WIDE, DB_BENCH, HYPERFINE] {
            for format in FORMATS {
                if let Err(problems) = outcome(&mutated(text, at, &with), format) {
                    prop_assert!(!problems.is_empty());
                }
            }
        }
    }
}

const WIDE: &str = "config\tblock\tops\tm\na\t1\t7.5\t10\nb\t1\t\t11\n";

#[test]
fn sound_files_are_sound() {
    assert_eq!(outcome(WIDE.as_bytes(), None), Ok(()));
    assert_eq!(outcome(WIDE.replace('\t', ";").as_bytes(), None), Ok(()));
    assert_eq!(outcome(CSV.as_bytes(), None), Ok(()));
    assert_eq!(outcome(JSONL.as_bytes(), None), Ok(()));
    let marked = [b"\xef\xbb\xbf", CSV.as_bytes()].concat();
    assert_eq!(outcome(&marked, None), Ok(()));
    assert_eq!(outcome(&marked, Some(Format::Csv)), Ok(()));
}

/// Gives the same line for ever, and counts.
struct Endless {
    start: Cursor<&'static [u8]>,
    line: &'static [u8],
    given: u64,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.start.read(buffer)?;
        if length > 0 {
            return Ok(length);
        }
        assert!(self.given < 64 << 20, "the reader does not stop");
        let length = buffer.len().min(self.line.len());
        buffer[..length].copy_from_slice(&self.line[..length]);
        self.given += length as u64;
        Ok(length)
    }
}

#[test]
fn rows_without_an_end_are_refused_early() {
    let policy = Policy::default();
    for (start, format) in [
        (b"scenario,config,metric,value\ns,a,m,\"".as_slice(), Format::Csv),
        (b"{\"scenario\": \"".as_slice(), Format::Jsonl),
        (b"DB path: [".as_slice(), Format::DbBench),
    ] {
        let mut to = Collector::new(&policy);
        let file = to.file("endless");
        let endless = Endless { start: Cursor::new(start), line: b"xxxxxxxxxxxxxxxx", given: 0 };
        let input: read::Input = Box::new(BufReader::new(endless));
        match format {
            Format::Csv => table::csv(input, file, &mut to),
            Format::Jsonl => json_lines::lines(input, file, &mut to),
            _ => read::db_bench(input, file, db_bench::RunId::default(), &mut to),
        }
        let problems = to.finish().map(|_| ()).expect_err("it has no end");
        assert!(problems[0].to_string().contains("longer than 1 MiB"), "{problems:?}");
    }
}
