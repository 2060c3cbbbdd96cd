//! Tables with a header: columns are separated by commas, tabs or semicolons.

use std::cell::Cell;
use std::io::{self, BufRead as _, Read};
use std::rc::Rc;

use assay_core::import::{Collector, Place};
use csv::{ByteRecord, ReaderBuilder, StringRecord};

use super::read::{Input, MOST_LINE};

/// Fails once a single row takes too much: a quote that is never closed would fill the memory.
struct Bounded<R> {
    input: R,
    since: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since.get() > MOST_LINE {
            return Err(io::Error::other("a row is longer than 1 MiB; is a quote not closed?"));
        }
        let length = self.input.read(buffer)?;
        self.since.set(self.since.get() + length as u64);
        Ok(length)
    }
}

/// Columns are separated by what the header has most of.
const SEPARATORS: [u8; 4] = [b',', b'\t', b';', b'|'];

pub fn csv(mut input: Input, file: u32, to: &mut Collector<'_>) {
    let separator = match input.fill_buf() {
        Ok(start) => separator(start),
        Err(error) => return to.problem(Place { file, line: 0 }, None, format!("can't be read: {error}")),
    };
    if separator == b'|' {
        let message = "columns are separated by \"|\": use commas, tabs or semicolons";
        return to.problem(Place { file, line: 1 }, None, message);
    }
    let since = Rc::new(Cell::new(0));
    let bounded = Bounded { input, since: Rc::clone(&since) };
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).delimiter(separator).from_reader(bounded);
    let mut bytes = ByteRecord::new();
    let mut header: Option<StringRecord> = None;
    let mut rows = 0_u64;
    while !to.is_full() {
        since.set(0);
        let line = reader.position().line();
        match reader.read_byte_record(&mut bytes) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return to.problem(Place { file, line }, None, format!("can't be read: {error}")),
        }
        // Empty lines before a row are not part of it.
        let place = Place { file, line: bytes.position().map_or(line, csv::Position::line) };
        let Ok(row) = StringRecord::from_byte_record(bytes.clone()) else {
            return to.problem(place, None, "is not UTF-8: save the file as UTF-8");
        };
        let Some(header) = &header else {
            let names: Vec<&str> = row.iter().map(str::trim).collect();
            if !to.header(place, &names) {
                return;
            }
            header = Some(row);
            continue;
        };
        rows += 1;
        if row.len() == header.len() {
            to.row(place, header.iter().map(str::trim).zip(&row));
        } else {
            let how = match separator {
                b',' if row.len() > header.len() => "write decimals with a point, and quote values that contain commas",
                _ if row.len() > header.len() => "quote values that contain separators",
                _ => "leave no field out",
            };
            let message = format!("has {} fields, but the header has {}: {how}", row.len(), header.len());
            to.problem(place, None, message);
        }
    }
    let place = Place { file, line: 0 };
    if header.is_none() {
        to.problem(place, None, "is empty: the first line must name the columns");
    } else if rows == 0 {
        to.problem(place, None, "has a header but no rows: add the runs");
    }
}

/// What separates the columns, by the first line that is not empty.
fn separator(start: &[u8]) -> u8 {
    let header = start.split(|byte| matches!(byte, b'\n' | b'\r')).find(|line| !line.is_empty()).unwrap_or_default();
    let (mut counts, mut quoted) = ([0_usize; SEPARATORS.len()], false);
    for byte in header {
        quoted ^= *byte == b'"';
        if let Some(index) = SEPARATORS.iter().position(|separator| separator == byte).filter(|_| !quoted) {
            counts[index] += 1;
        }
    }
    // The first of several that are equally frequent, which is the comma.
    let most = counts.iter().copied().max().unwrap_or(0);
    counts.iter().position(|count| *count == most).map_or(b',', |index| SEPARATORS[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_show_in_the_header() {
        for (start, expected) in [
            ("config,block\na;b;c\n", b','),
            ("config\tblock\n", b'\t'),
            ("\r\nconfig;block;\"ops, all, of, them\"\n", b';'),
            ("config|block", b'|'),
            ("config", b','),
            ("", b','),
        ] {
            assert_eq!(separator(start.as_bytes()), expected, "{start:?}");
        }
    }
}
