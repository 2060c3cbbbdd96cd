//! Tables with a header: CSV.

use std::cell::Cell;
use std::io::{self, Read};
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

pub fn csv(input: Input, file: u32, to: &mut Collector<'_>) {
    let since = Rc::new(Cell::new(0));
    let bounded = Bounded { input, since: Rc::clone(&since) };
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bounded);
    let mut bytes = ByteRecord::new();
    let mut header: Option<StringRecord> = None;
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
            to.problem(place, None, "is not UTF-8: save the file as UTF-8");
            continue;
        };
        let Some(header) = &header else {
            if !columns(place, &row, to) {
                return;
            }
            header = Some(row);
            continue;
        };
        if row.len() == header.len() {
            to.row(place, header.iter().map(str::trim).zip(&row));
        } else {
            let message = format!(
                "has {} fields, but the header has {}: quote values that contain commas, and leave no field out",
                row.len(),
                header.len()
            );
            to.problem(place, None, message);
        }
    }
    if header.is_none() {
        to.problem(Place { file, line: 0 }, None, "is empty: the first line must name the columns");
    }
}

fn columns(place: Place, row: &StringRecord, to: &mut Collector<'_>) -> bool {
    let only = row.get(0).filter(|_| row.len() == 1);
    if let Some(separator) = only.and_then(|only| only.chars().find(|c| matches!(c, ';' | '\t' | '|'))) {
        to.problem(place, None, format!("columns are separated by {separator:?}: use commas"));
        return false;
    }
    let names: Vec<&str> = row.iter().map(str::trim).collect();
    to.header(place, &names)
}
