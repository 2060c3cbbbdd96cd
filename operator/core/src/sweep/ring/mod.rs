//! Where a cluster keeps the nights of a sweep: a few objects of bounded size, the oldest of which falls out when there are too many.
//!
//! An object holds gzipped JSON lines, one member of gzip for each night, so that a night is only ever appended and `zcat` reads it all.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};

use assay_api::names::{MANAGED_BY, MANAGED_LABEL, SWEEP_LABEL};
use assay_api::{TuningHistory, TuningHistorySpec};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::sweep::history::{History, HistoryError, Imported, LineError, nights};
use crate::sweep::point::Night;

/// The most bytes of an object, as it is kept.
pub const MOST_BYTES: usize = 192 * 1024;
/// The most objects: together 2.44 MiB.
pub const MOST_OBJECTS: usize = 13;
/// The number of the first object.
const FIRST: u64 = 1;
/// The most bytes of an object when it is unpacked: no one can fill the memory of a reader with a small object.
const MOST_TEXT: usize = 16 << 20;

/// An object: its name and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub name: String,
    pub bytes: Vec<u8>,
}

impl From<TuningHistory> for Object {
    fn from(stored: TuningHistory) -> Self {
        Self { name: stored.metadata.name.unwrap_or_default(), bytes: stored.spec.nights.0 }
    }
}

/// An object that can't be read. It is left alone until it falls out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct Damaged {
    pub name: String,
    pub problem: String,
}

/// What to do to the objects: first write, then delete. Done again, or broken off in between, it loses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub write: Vec<Object>,
    pub delete: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    #[error(transparent)]
    Night(#[from] HistoryError),
    #[error("night {night} takes {bytes} bytes, and an object holds {MOST_BYTES}: measure fewer series or scenarios")]
    TooLarge { night: Timestamp, bytes: usize },
    #[error("night {night} can't be written: {problem}")]
    Unwritable { night: Timestamp, problem: String },
}

/// The objects of a sweep, and the nights in them.
#[derive(Clone, Debug)]
pub struct Ring {
    history: History,
    held: BTreeMap<u64, Held>,
    damaged: Vec<Damaged>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    /// Bytes when it is unpacked.
    text: usize,
    nights: BTreeSet<Timestamp>,
    is_damaged: bool,
}

impl Ring {
    /// What objects hold, in whatever order they come. Those that can't be read are named by [`Self::damaged`].
    pub fn read(sweep: &str, objects: impl IntoIterator<Item = Object>) -> Self {
        let mut ring = Self { history: History::new(sweep), held: BTreeMap::new(), damaged: Vec::new() };
        let mut numbered = BTreeMap::new();
        for object in objects {
            if let Some(number) = number(sweep, &object.name) {
                numbered.insert(number, object);
            } else {
                let problem = format!("not a name of the history of {sweep}; it was left alone");
                ring.damaged.push(Damaged { name: object.name, problem });
            }
        }
        for (number, Object { name, bytes }) in numbered {
            let held = match ring.take(&bytes) {
                Ok((text, nights)) => Held { bytes, text, nights, is_damaged: false },
                Err(problem) => {
                    ring.damaged.push(Damaged { name, problem });
                    Held { is_damaged: true, ..Held::default() }
                }
            };
            ring.held.insert(number, held);
        }
        ring
    }

    /// The nights of all objects that can be read.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// An object as a cluster keeps it, in the place of the version that was read. `None` where the ring has no such object.
    pub fn stored(&self, object: Object, namespace: &str, version: Option<String>) -> Option<TuningHistory> {
        let nights = &self.held.get(&number(self.history.sweep(), &object.name)?)?.nights;
        let labels = [(SWEEP_LABEL, self.history.sweep()), (MANAGED_LABEL, MANAGED_BY)];
        let metadata = ObjectMeta {
            name: Some(object.name),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            resource_version: version,
            ..ObjectMeta::default()
        };
        let spec = TuningHistorySpec {
            sweep: self.history.sweep().to_owned(),
            count: nights.len() as u32,
            first: Time(*nights.first()?),
            last: Time(*nights.last()?),
            nights: ByteString(object.bytes),
        };
        Some(TuningHistory { metadata, spec })
    }

    /// The first night that is kept, if others may have fallen out before it.
    pub fn kept_from(&self) -> Option<Timestamp> {
        let is_whole = self.held.first_key_value().is_none_or(|(number, _)| *number == FIRST);
        self.history.nights().next().map(|night| night.night).filter(|_| !is_whole)
    }

    pub fn damaged(&self) -> &[Damaged] {
        &self.damaged
    }

    /// Adds a night. A night that is there already changes nothing, so after a crash it can be added again. Afterwards the ring is what
    /// the objects are once the change is made; if that fails, read them again.
    pub fn add(&mut self, night: Night) -> Result<Change, RingError> {
        let written = self.append(night)?;
        Ok(self.settle(written.into_iter().collect(), &self.names()))
    }

    /// Adds all nights of JSON lines, or none if one of them is wrong. What is older than all that the ring has room for falls out again
    /// and counts neither as new nor as known.
    pub fn import(&mut self, lines: &str) -> Result<(Imported, Change), LineError> {
        let (mut ring, before) = (self.clone(), self.names());
        let (mut written, mut new, mut known) = (BTreeSet::new(), Vec::new(), 0);
        let mut read = nights(lines).collect::<Result<Vec<_>, _>>()?;
        // In order, so that those of a time fall out together.
        read.sort_by_key(|(_, night)| night.night);
        for (line, night) in read {
            let time = night.night;
            match ring.append(night).map_err(|error| LineError { line, problem: error.to_string() })? {
                Some(number) => {
                    written.insert(number);
                    new.push(time);
                }
                None => known += 1,
            }
        }
        let change = ring.settle(written, &before);
        let new = new.into_iter().filter(|night| ring.history.get(*night).is_some()).count();
        *self = ring;
        Ok((Imported { new, known }, change))
    }

    /// Puts a night into an object, and says into which; none if one has it already.
    fn append(&mut self, night: Night) -> Result<Option<u64>, RingError> {
        if self.history.knows(&night)? {
            return Ok(None);
        }
        let time = night.night;
        let unwritable = |problem: String| RingError::Unwritable { night: time, problem };
        let line = night.line().map_err(|error| unwritable(error.to_string()))? + "\n";
        let bytes = compressed(&line).map_err(|error| unwritable(error.to_string()))?;
        if bytes.len() > MOST_BYTES || line.len() > MOST_TEXT {
            return Err(RingError::TooLarge { night: time, bytes: bytes.len() });
        }
        let number = match self.held.last_key_value() {
            Some((number, held)) if held.has_room(bytes.len(), line.len()) => *number,
            Some((number, _)) => number + 1,
            None => FIRST,
        };
        self.history.add(night)?;
        let held = self.held.entry(number).or_default();
        held.bytes.extend_from_slice(&bytes);
        held.text += line.len();
        held.nights.insert(time);
        Ok(Some(number))
    }

    /// Lets objects fall out until there are as many as there may be: those that can't be read, then those whose newest night is the oldest.
    fn settle(&mut self, written: BTreeSet<u64>, before: &BTreeSet<String>) -> Change {
        let age = |(number, held): (&u64, &Held)| (held.nights.last().copied(), *number);
        while self.held.len() > MOST_OBJECTS {
            let Some((_, number)) = self.held.iter().map(age).min() else { break };
            let gone = self.held.remove(&number).unwrap_or_default();
            for night in gone.nights {
                if !self.held.values().any(|held| held.nights.contains(&night)) {
                    self.history.forget(night);
                }
            }
        }
        let names = self.names();
        self.damaged.retain(|damaged| !before.contains(&damaged.name) || names.contains(&damaged.name));
        let object = |number: u64| {
            let held = self.held.get(&number)?;
            Some(Object { name: self.name(number), bytes: held.bytes.clone() })
        };
        Change {
            write: written.into_iter().filter_map(object).collect(),
            delete: before.difference(&names).cloned().collect(),
        }
    }

    fn name(&self, number: u64) -> String {
        format!("{}-history-{number:05}", self.history.sweep())
    }

    fn names(&self) -> BTreeSet<String> {
        self.held.keys().map(|number| self.name(*number)).collect()
    }

    /// Takes over the nights of an object, all of them or none.
    fn take(&mut self, bytes: &[u8]) -> Result<(usize, BTreeSet<Timestamp>), String> {
        let mut text = String::new();
        MultiGzDecoder::new(bytes)
            .take(MOST_TEXT as u64 + 1)
            .read_to_string(&mut text)
            .map_err(|error| format!("can't be unpacked: {error}"))?;
        if text.len() > MOST_TEXT {
            return Err(format!("more than {MOST_TEXT} bytes when unpacked"));
        }
        let mut own = History::new(self.history.sweep());
        for read in nights(&text) {
            let (line, night) = read.map_err(|error| error.to_string())?;
            let wrong = |error: HistoryError| format!("line {line}: {error}");
            // Also of nights that another object has: there must not be two of the same.
            self.history.knows(&night).map_err(wrong)?;
            own.add(night).map_err(wrong)?;
        }
        let times = own.nights().map(|night| night.night).collect();
        for night in own.into_nights() {
            self.history.add(night).map_err(|error| error.to_string())?;
        }
        Ok((text.len(), times))
    }
}

impl Held {
    fn has_room(&self, bytes: usize, text: usize) -> bool {
        !self.is_damaged && self.bytes.len() + bytes <= MOST_BYTES && self.text + text <= MOST_TEXT
    }
}

fn compressed(line: &str) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(line.as_bytes())?;
    encoder.finish()
}

/// The number of an object by its name, which has to be exactly the one that it would be given.
fn number(sweep: &str, name: &str) -> Option<u64> {
    let digits = name.strip_prefix(sweep)?.strip_prefix("-history-")?;
    let number = digits.parse().ok()?;
    (format!("{number:05}") == digits).then_some(number)
}

#[cfg(test)]
mod tests;
