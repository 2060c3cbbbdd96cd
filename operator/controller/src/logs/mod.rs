//! The ends of pods' logs. They may be large and come from programs of others, so few are in memory at the same time, and those of one
//! namespace take no room from another's.

mod room;

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use assay_api::bounds;
use assay_api::names::CONTAINER;
use assay_core::status::shorten;
use assay_protocol::output::{LAST_LINES, MAX_LOG_BYTES, record_in};
use futures::{AsyncRead, AsyncReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;

use crate::clock::SharedClock;
use crate::error::{Error, call};
use crate::lock::locked;
use crate::watch::Tell;
pub use room::Whose;
use room::{Demand, Most, Room, Rooms};

/// Most logs are short: what a bench prints is its record. Whether a log of just so many bytes has ended is not known, so it takes more room.
const SIZES: [(usize, Most); 3] = [
    (128 << 10, Most { of_all: 128, of_a_namespace: 64 }),
    (1 << 20, Most { of_all: 16, of_a_namespace: 8 }),
    (MAX_LOG_BYTES as usize, Most { of_all: 2, of_a_namespace: 1 }),
];

/// A container runtime writes a longer line in pieces, and a kubelet counts each of them as a line: containerd's have 16 KiB, CRI-O's 8 KiB.
const PIECE: u64 = 8 << 10;
/// So many of what a kubelet counts are the lines among which the record is, however long that is.
const LINES: u64 = LAST_LINES as u64 + MAX_LOG_BYTES / PIECE;

/// How a kubelet begins what it says where it can't read a log, or no more of it. That comes as if it were part of the log, and ends it without
/// the end of a line. (`kuberuntime_container.go` of Kubernetes, `logs.go` of its cri-client.)
const EXCUSES: [&str; 8] = [
    "unable to retrieve container logs for ",
    "container status is nil",
    "failed to try resolving symlinks in path ",
    "failed to open log file ",
    "failed to tail ",
    "failed to seek ",
    "failed to read log file ",
    "failed to get parse function: ",
];

/// A log is read in parts of this many bytes.
const PART: usize = 16 * 1024;

/// The room that there is for logs, of each size.
pub struct Logs {
    rooms: [Arc<Rooms>; SIZES.len()],
    /// Which of the sizes those logs need that are longer than the first.
    longer: Mutex<BTreeMap<Whose, usize>>,
}

/// What the logs of one reconcile ask for, of each size.
#[derive(Default)]
pub struct Demands([Demand; SIZES.len()]);

impl Demands {
    /// Whether there was no room for one of them.
    pub fn are_unmet(&self) -> bool {
        self.0.iter().any(Demand::is_unmet)
    }
}

/// A log, or the record in it, with the room that it takes until it is dropped.
#[derive(Debug)]
pub struct Log {
    text: String,
    _room: Option<Room>,
}

impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Log {}

impl Log {
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The lines at its end that are for people.
    pub fn last_lines(&self) -> &str {
        let end = self.text.trim_end();
        let begin = end.rmatch_indices('\n').nth(usize::from(LAST_LINES) - 1);
        begin.map_or(end, |(at, _)| &end[at + 1..])
    }

    /// The record that is in it, byte for byte, and nothing else.
    pub fn into_record(mut self) -> Option<Self> {
        let record = record_in(&self.text)?;
        let begin = record.as_ptr().addr() - self.text.as_ptr().addr();
        self.text.truncate(begin + record.len());
        self.text.drain(..begin);
        Some(self)
    }
}

impl Logs {
    pub fn new(clock: &SharedClock, tell: &Tell) -> Self {
        let rooms = SIZES.map(|(_, most)| Rooms::new(most, clock, tell).into());
        Self { rooms, longer: Mutex::default() }
    }

    /// The end of the log of a pod's container; `None` while others have the room that it takes. Then its experiment is reconciled when there is
    /// some.
    pub async fn end_of(&self, demands: &Demands, whose: &Whose, pods: &Api<Pod>) -> Result<Option<Log>, Error> {
        let first = locked(&self.longer).get(whose).copied().unwrap_or_default();
        for (number, (size, _)) in SIZES.into_iter().enumerate().skip(first) {
            let Some(room) = demands.0[number].room(&self.rooms[number], whose).await else { break };
            let bytes = call(end_of(pods, &whose.pod, size)).await?;
            if bytes.len() < size
                && let Some(why) = excuse(&bytes)
            {
                return Err(Error::Unexpected(why));
            }
            if bytes.len() < size || number + 1 == SIZES.len() {
                return Ok(Some(Log { text: text(bytes), _room: Some(room) }));
            }
            // It is read again when there is more room: whoever waits holds nothing, and no connection that somebody might end.
            drop((bytes, room));
            locked(&self.longer).insert(whose.clone(), number + 1);
        }
        Ok(None)
    }

    /// Forgets logs that nobody asks for any more.
    pub fn prune(&self, is_over: impl Fn(&Whose) -> bool) {
        locked(&self.longer).retain(|whose, _| !is_over(whose));
        for rooms in &self.rooms {
            rooms.prune(&is_over);
        }
    }
}

/// The end of a log, and of that so many bytes.
async fn end_of(pods: &Api<Pod>, pod: &str, most: usize) -> kube::Result<Vec<u8>> {
    let params = LogParams {
        container: Some(CONTAINER.to_owned()),
        tail_lines: i64::try_from(LINES).ok(),
        limit_bytes: i64::try_from(most).ok(),
        ..LogParams::default()
    };
    all_of(pods.log_stream(pod, &params).await?, most).await.map_err(kube::Error::ReadEvents)
}

/// All of a log. Whoever answers may do so without end, so no more than this is taken.
async fn all_of(log: impl AsyncRead, most: usize) -> io::Result<Vec<u8>> {
    let mut log = pin!(log);
    // At once: a buffer that grows is there twice. What is not written to takes no memory, so this is no matter for `read_to_end`:
    // it would write zeros to all that is left of it, before each part that comes.
    let mut bytes = Vec::with_capacity(most);
    let mut part = vec![0; PART];
    while bytes.len() < most {
        let length = part.len().min(most - bytes.len());
        let length = log.read(&mut part[..length]).await?;
        if length == 0 {
            break;
        }
        bytes.extend_from_slice(&part[..length]);
    }
    Ok(bytes)
}

/// Why a kubelet could not read a log to its end.
fn excuse(log: &[u8]) -> Option<String> {
    // A file may end within a line, too.
    let line = log.rsplit(|byte| *byte == b'\n').next()?;
    let end = String::from_utf8_lossy(&line[line.len().saturating_sub(PART)..]);
    let begin = EXCUSES.iter().filter_map(|excuse| end.rfind(excuse)).min()?;
    Some(shorten(&end[begin..], bounds::MESSAGE))
}

/// The text that bytes are, in their place: what is none becomes a question mark each.
fn text(mut bytes: Vec<u8>) -> String {
    let mut sound = 0;
    while let Err(error) = std::str::from_utf8(&bytes[sound..]) {
        sound += error.valid_up_to();
        bytes[sound] = b'?';
    }
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use assay_protocol::output::record_line;

    use super::*;
    use crate::clock::testing::Manual;
    use crate::http::testing::{answering, answering_each, server};

    fn log(text: &str) -> Log {
        Log { text: text.to_owned(), _room: None }
    }

    fn logs() -> Logs {
        Logs::new(&(Manual::new() as SharedClock), &Tell::heard().0)
    }

    fn whose(pod: &str) -> Whose {
        Whose { namespace: "here".to_owned(), experiment: "e".to_owned(), pod: pod.to_owned() }
    }

    #[tokio::test]
    async fn the_end_of_a_log_is_read_and_no_more() {
        let (client, asked) = answering(200, "one\ntwo\n");
        let logs = logs();
        let end_of =
            async |client| logs.end_of(&Demands::default(), &whose("p"), &Api::namespaced(client, "here")).await;
        let log = end_of(client).await.expect("a log").expect("room");
        assert_eq!(log.text(), "one\ntwo\n");
        let asked = asked.join().expect("a request");
        assert_eq!(asked.what, "GET /api/v1/namespaces/here/pods/p/log");
        let query = ["container=bench", "limitBytes=131072", "tailLines=2068"].map(ToOwned::to_owned);
        assert_eq!(asked.query, query.into());
        drop(log);
        assert!(end_of(server(404).0).await.expect_err("no pod").is_not_found());
    }

    #[tokio::test]
    async fn what_a_kubelet_says_that_cannot_read_a_log_is_none() {
        let no_runtime = "unable to retrieve container logs for containerd://1234";
        let broken = "failed to read log file \"/var/log/0.log\": input/output error";
        let record = String::from_utf8(record_line(b"{ \"a\" : 1 }")).expect("text");
        for (answer, why) in [
            (no_runtime.to_owned(), Some(no_runtime)),
            (format!("words\n{broken}"), Some(broken)),
            (format!("words\n{}{broken}", &record[..record.len() / 2]), Some(broken)),
            // A bench's own lines end.
            (format!("{no_runtime}\n"), None),
            (format!("{broken}\nwords"), None),
        ] {
            let pods = Api::namespaced(answering(200, &answer).0, "here");
            let logs = logs();
            let log = logs.end_of(&Demands::default(), &whose("p"), &pods).await;
            let said = log.as_ref().err().map(Error::message);
            assert_eq!(said.as_deref(), why);
            assert_eq!(logs.rooms[0].in_use(), usize::from(why.is_none()));
        }
    }

    /// A log that comes in parts, for which it gets buffers of so many bytes.
    struct Slow {
        parts: usize,
        largest: Arc<Mutex<usize>>,
    }

    impl AsyncRead for Slow {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
            let largest = locked(&self.largest).max(buffer.len());
            *locked(&self.largest) = largest;
            if self.parts == 0 {
                return Poll::Ready(Ok(0));
            }
            self.parts -= 1;
            buffer[..2].copy_from_slice(b"ab");
            Poll::Ready(Ok(2))
        }
    }

    /// One of 16 MiB has to be filled with zeros first, which takes longer than all that is done with most logs.
    #[tokio::test]
    async fn a_short_log_takes_little() {
        let largest = Arc::new(Mutex::new(0));
        let slow = Slow { parts: 3, largest: Arc::clone(&largest) };
        let bytes = all_of(slow, SIZES[0].0).await.expect("a log");
        assert_eq!((bytes.as_slice(), bytes.capacity()), (b"ababab".as_slice(), SIZES[0].0));
        let largest = *locked(&largest);
        assert!(largest <= PART, "a buffer of {largest} bytes");
    }

    #[test]
    fn a_printed_record_is_found_byte_for_byte() {
        let line = |json: &str| String::from_utf8(record_line(json.as_bytes())).expect("text");
        let record = "{ \"a\" : 1 }";
        let found = log(&format!("words\n{}\n{}\nmore words\n", line("{}"), line(record))).into_record();
        assert_eq!(found.expect("a record").text(), record);
        assert_eq!(log("words\n").into_record(), None);
    }

    #[test]
    fn of_many_lines_the_last_are_for_people() {
        assert_eq!(log("").last_lines(), "");
        assert_eq!(log("one\ntwo\n\n").last_lines(), "one\ntwo");
        let lines: Vec<String> = (0..2068).map(|line| line.to_string()).collect();
        for (all, first) in [(20, 0), (21, 1), (2068, 2048)] {
            assert_eq!(log(&lines[..all].join("\n")).last_lines(), lines[first..all].join("\n"));
        }
    }

    #[test]
    fn what_is_no_text_takes_no_more_room_than_before() {
        assert_eq!(text("gr\u{fc}n".as_bytes().to_vec()), "gr\u{fc}n");
        assert_eq!(text(b"a\xffb\xc3".to_vec()), "a?b?");
        let noise = vec![0xff; 1 << 20];
        let (place, length) = (noise.as_ptr(), noise.len());
        let text = text(noise);
        assert_eq!((text.as_ptr(), text.len()), (place, length), "the lossy way has three bytes for each");
    }

    #[tokio::test]
    async fn a_long_log_takes_other_room() {
        const SHORT: usize = SIZES[0].0;
        const LONG: usize = SIZES[1].0;
        const LONGEST: usize = SIZES[2].0;
        let logs = logs();
        for (length, [short, long, longest]) in [
            (SHORT - 1, [1, 0, 0]),
            (SHORT, [0, 1, 0]),
            (LONG - 1, [0, 1, 0]),
            (LONG, [0, 0, 1]),
            (LONGEST, [0, 0, 1]),
            (LONGEST + 1, [0, 0, 1]),
        ] {
            let whole = "x".repeat(length);
            // Whoever answers may say more than it was asked for.
            let answers = [SHORT, LONG, LONGEST + 1].map(|limit| (200, whole[..length.min(limit)].to_owned()));
            let pods = Api::namespaced(answering_each(answers.into()).0, "here");
            let log = logs
                .end_of(&Demands::default(), &whose(&length.to_string()), &pods)
                .await
                .expect("a log")
                .expect("room");
            assert!(log.text() == &whole[..length.min(LONGEST)], "{length}");
            assert!(log.text.capacity() <= LONGEST, "a buffer of {}", log.text.capacity());
            assert_eq!(logs.rooms.each_ref().map(|rooms| rooms.in_use()), [short, long, longest], "{length}");
        }
    }

    /// Whoever waits for much room keeps no other meanwhile, and is read once there is some.
    #[tokio::test]
    async fn a_long_log_is_not_read_again_and_again() {
        let logs = logs();
        let most = SIZES[1].1.of_a_namespace;
        let others = Demands::default();
        let mut taken = Vec::new();
        for number in 0..most {
            taken.push(others.0[1].room(&logs.rooms[1], &whose(&number.to_string())).await.expect("there is room"));
        }
        let whole = "x".repeat(SIZES[0].0);
        let (client, asked) = answering_each([(200, whole.clone()), (200, whole.clone())].into());
        let pods = Api::namespaced(client, "here");
        for _ in 0..3 {
            let demands = Demands::default();
            assert_eq!(logs.end_of(&demands, &whose("p"), &pods).await.expect("an answer"), None);
            assert!(demands.are_unmet());
        }
        assert_eq!(logs.rooms[0].in_use(), 0);
        taken.pop();
        let log = logs.end_of(&Demands::default(), &whose("p"), &pods).await.expect("an answer");
        assert!(log.expect("room").text() == whole);
        let asked = asked.join().expect("requests");
        let limits = asked.iter().map(|asked| asked.query.iter().find(|part| part.starts_with("limitBytes")).cloned());
        let sizes = SIZES.map(|(size, _)| Some(format!("limitBytes={size}")));
        assert_eq!(limits.collect::<Vec<_>>(), sizes[..2], "once each");
    }

    #[test]
    fn all_logs_together_are_bounded() {
        let bytes: usize = SIZES.iter().map(|(size, most)| size * most.of_all).sum();
        assert_eq!(bytes, 64 << 20);
        for (_, most) in SIZES {
            assert!(2 * most.of_a_namespace <= most.of_all, "one namespace leaves others as much as it has");
        }
    }
}
