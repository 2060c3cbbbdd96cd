//! The ends of pods' logs. They may be large and come from programs of others, so few are in memory at the same time, and those of one
//! namespace take no room from another's.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_api::TuningExperiment;
use assay_api::names::CONTAINER;
use assay_protocol::output::{LAST_LINES, MAX_LOG_BYTES, record_in};
use futures::{AsyncRead, AsyncReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, call};
use crate::lock::locked;
use crate::watch::{Tell, Touched};

/// Logs in memory at the same time, of all namespaces and of one.
const SHORT: Most = Most { of_all: 32, of_a_namespace: 16 };
/// And those of them that are longer than most.
const LONG: Most = Most { of_all: 2, of_a_namespace: 1 };

/// How many of a namespace wait in line where it has no room left, each for one reconcile that is busy meanwhile, and for how long.
const IN_LINE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(2);
/// How long one waits for room that other namespaces have.
const LONGEST: Duration = Duration::from_secs(20);

/// Most logs are shorter: what a bench prints is its record. Whether one of this length has ended is not known, so it is a long one.
const SHORT_BYTES: usize = 1 << 20;

const LONG_BYTES: usize = MAX_LOG_BYTES as usize;

/// A log is read in parts of this many bytes.
const PART: usize = 16 * 1024;

#[derive(Clone, Copy)]
struct Most {
    of_all: usize,
    of_a_namespace: usize,
}

/// The room that there is for logs.
pub struct Logs {
    short: Rooms,
    long: Rooms,
}

struct Rooms {
    most: Most,
    all: Arc<Semaphore>,
    namespaces: Mutex<HashMap<String, Own>>,
    waiting: Arc<Waiting>,
}

/// What a namespace may take.
#[derive(Clone)]
struct Own {
    room: Arc<Semaphore>,
    line: Arc<Semaphore>,
}

impl Own {
    fn new(most: Most) -> Self {
        let [room, line] = [most.of_a_namespace, IN_LINE].map(|places| Arc::new(Semaphore::new(places)));
        Self { room, line }
    }

    /// Some room, now or soon. Those that wait are served in turn: whoever only ever looked would find none where another always takes what has
    /// just become free.
    async fn some(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(room) = Arc::clone(&self.room).try_acquire_owned() {
            return Some(room);
        }
        let _place = self.line.try_acquire().ok()?;
        tokio::time::timeout(PATIENCE, Arc::clone(&self.room).acquire_owned()).await.ok()?.ok()
    }
}

/// What the logs of one reconcile ask for. They ask one after another, or they would have all places in line; and once one has found no room in
/// time, the next one would not either.
#[derive(Default)]
pub struct Demand {
    /// Whether there was none.
    short: tokio::sync::Mutex<bool>,
    long: tokio::sync::Mutex<bool>,
}

impl Demand {
    pub async fn is_unmet(&self) -> bool {
        *self.short.lock().await || *self.long.lock().await
    }
}

/// An experiment, by its namespace and name.
type Whose<'a> = (&'a str, &'a str);

/// The experiments whose logs found no room, by their namespaces, first those that have waited longest.
#[derive(Debug)]
struct Waiting {
    names: Mutex<HashMap<String, VecDeque<String>>>,
    tell: Tell,
}

impl Waiting {
    fn put(&self, namespace: &str, name: &str) {
        let mut names = locked(&self.names);
        let names = names.entry(namespace.to_owned()).or_default();
        if names.iter().all(|known| known != name) {
            names.push_back(name.to_owned());
        }
    }

    fn next(&self, namespace: &str) -> Option<String> {
        let mut all = locked(&self.names);
        let names = all.get_mut(namespace)?;
        let next = names.pop_front();
        if names.is_empty() {
            all.remove(namespace);
        }
        next
    }
}

/// What a log takes of it until it is dropped. Then the next experiment of its namespace is woken that waits for some.
#[derive(Debug)]
pub struct Room {
    /// Declared first, so that they are free by then.
    _of_namespace: OwnedSemaphorePermit,
    of_all: Option<OwnedSemaphorePermit>,
    _next: Next,
}

#[derive(Debug)]
struct Next {
    waiting: Arc<Waiting>,
    namespace: String,
}

impl Drop for Next {
    fn drop(&mut self) {
        if let Some(name) = self.waiting.next(&self.namespace) {
            self.waiting.tell.touched(Touched::one::<TuningExperiment>(self.namespace.clone(), name));
        }
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
    pub fn new(tell: &Tell) -> Self {
        Self { short: Rooms::new(SHORT, tell), long: Rooms::new(LONG, tell) }
    }

    /// The end of the log of a pod's container; `None` while others have the room that it takes. Then its experiment is reconciled when one of them
    /// is done, if that is in its namespace.
    pub async fn end_of(
        &self,
        demand: &Demand,
        whose: Whose<'_>,
        pods: &Api<Pod>,
        pod: &str,
    ) -> Result<Option<Log>, Error> {
        let Some(room) = self.short.for_one_of(&demand.short, whose).await else { return Ok(None) };
        let bytes = call(end_of(pods, pod, SHORT_BYTES)).await?;
        if bytes.len() < SHORT_BYTES {
            return Ok(Some(Log { text: text(bytes), _room: Some(room) }));
        }
        // It is read again when there is more room: whoever waits holds nothing, and no connection that somebody might end.
        drop((bytes, room));
        let Some(room) = self.long.for_one_of(&demand.long, whose).await else { return Ok(None) };
        let bytes = call(end_of(pods, pod, LONG_BYTES)).await?;
        Ok(Some(Log { text: text(bytes), _room: Some(room) }))
    }
}

impl Rooms {
    fn new(most: Most, tell: &Tell) -> Self {
        let waiting = Waiting { names: Mutex::default(), tell: tell.clone() };
        let all = Arc::new(Semaphore::new(most.of_all));
        Self { most, all, namespaces: Mutex::default(), waiting: waiting.into() }
    }

    /// The room for one log of an experiment; `None` while others of its namespace have all of it. So few of each namespace wait here, and
    /// they are served in turn, however many logs one of them has.
    async fn room(&self, (namespace, experiment): Whose<'_>) -> Option<Room> {
        let own = self.of(namespace);
        let room = own.some().await.or_else(|| {
            self.waiting.put(namespace, experiment);
            // Nobody was woken for what has just become free.
            Arc::clone(&own.room).try_acquire_owned().ok()
        })?;
        let next = Next { waiting: Arc::clone(&self.waiting), namespace: namespace.to_owned() };
        // Whoever waits for others in vain wakes the next one of its namespace, too.
        let mut room = Room { _of_namespace: room, of_all: None, _next: next };
        room.of_all = Some(tokio::time::timeout(LONGEST, Arc::clone(&self.all).acquire_owned()).await.ok()?.ok()?);
        Some(room)
    }

    /// The same, for one of the logs of a reconcile.
    async fn for_one_of(&self, is_full: &tokio::sync::Mutex<bool>, whose: Whose<'_>) -> Option<Room> {
        let mut is_full = is_full.lock().await;
        let room = if *is_full { None } else { self.room(whose).await };
        *is_full = room.is_none();
        room
    }

    fn of(&self, namespace: &str) -> Own {
        let most = self.most.of_a_namespace;
        let mut namespaces = locked(&self.namespaces);
        // Those that nobody waits for are made again.
        namespaces.retain(|_, own| Arc::strong_count(&own.room) > 1 || own.room.available_permits() < most);
        namespaces.entry(namespace.to_owned()).or_insert_with(|| Own::new(self.most)).clone()
    }
}

/// The end of a log, and of that so many bytes.
async fn end_of(pods: &Api<Pod>, pod: &str, most: usize) -> kube::Result<Vec<u8>> {
    let params = LogParams {
        container: Some(CONTAINER.to_owned()),
        tail_lines: Some(LAST_LINES.into()),
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
    use futures::poll;

    use super::*;
    use crate::http::testing::{answering, answering_each, server};

    fn log(text: &str) -> Log {
        Log { text: text.to_owned(), _room: None }
    }

    #[tokio::test]
    async fn the_end_of_a_log_is_read_and_no_more() {
        let (client, asked) = answering(200, "one\ntwo\n");
        let logs = Logs::new(&Tell::heard().0);
        let end_of =
            async |client| logs.end_of(&Demand::default(), ("here", "e"), &Api::namespaced(client, "here"), "p").await;
        let log = end_of(client).await.expect("a log").expect("room");
        assert_eq!(log.text(), "one\ntwo\n");
        let asked = asked.join().expect("a request");
        assert_eq!(asked.what, "GET /api/v1/namespaces/here/pods/p/log");
        let query = ["container=bench", "limitBytes=1048576", "tailLines=20"].map(ToOwned::to_owned);
        assert_eq!(asked.query, query.into());
        drop(log);
        assert!(end_of(server(404).0).await.expect_err("no pod").is_not_found());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_finds_no_room_is_woken_when_there_is_some() {
        let (tell, mut heard) = Tell::heard();
        let mut woken = move || {
            heard.try_recv().ok().map(|touched| {
                let Touched::One { namespace, name, .. } = touched else { unreachable!("{touched:?}") };
                format!("{namespace}/{name}")
            })
        };
        let logs = Logs::new(&tell);
        for (rooms, most) in [(&logs.short, SHORT), (&logs.long, LONG)] {
            let mut taken = Vec::new();
            for _ in 0..most.of_a_namespace {
                taken.push(rooms.room(("here", "loud")).await.expect("there is room"));
            }
            for experiment in ["first", "second", "first"] {
                assert!(rooms.room(("here", experiment)).await.is_none());
            }
            drop(rooms.room(("there", "e")).await.expect("there is room"));
            assert_eq!(woken(), None, "not in their namespace");
            taken.pop();
            assert_eq!((woken(), woken()), (Some("here/first".to_owned()), None), "one at a time");
            drop(rooms.room(("here", "first")).await.expect("there is room"));
            assert_eq!(woken(), Some("here/second".to_owned()));
            taken.clear();
            assert_eq!(woken(), None, "each is woken once");
            assert!(locked(&rooms.waiting.names).is_empty());
        }
    }

    /// Whoever waits for the room of a long log is not woken by its own short one, which it gives up.
    #[tokio::test]
    async fn a_long_log_is_not_read_again_and_again() {
        let (tell, mut heard) = Tell::heard();
        let logs = Logs::new(&tell);
        let long = logs.long.room(("here", "first")).await.expect("there is room");
        let whole = "x".repeat(SHORT_BYTES);
        let (client, _asked) = answering(200, &whole);
        let (second, pods) = (("here", "second"), Api::namespaced(client, "here"));
        let demand = Demand::default();
        assert_eq!(logs.end_of(&demand, second, &pods, "p").await.expect("an answer"), None);
        assert!(heard.try_recv().is_err());
        assert!(demand.is_unmet().await);
        assert_eq!(logs.short.all.available_permits(), SHORT.of_all, "it keeps no room from others meanwhile");
        drop(long);
        assert!(heard.try_recv().is_ok());
    }

    /// One that reads log after log leaves it to the others in between.
    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_room_is_next() {
        for most in [SHORT, LONG] {
            let rooms = Rooms::new(most, &Tell::heard().0);
            let own = || rooms.room(("here", "loud"));
            let mut taken = Vec::new();
            for _ in 0..most.of_a_namespace {
                taken.push(own().await);
            }
            let mut line: Vec<_> = (0..IN_LINE).map(|_| Box::pin(rooms.room(("here", "quiet")))).collect();
            for waiting in &mut line {
                assert!(poll!(waiting).is_pending());
            }
            assert!(own().await.is_none(), "the line is full");
            for waiting in line {
                taken.remove(0);
                assert!(own().await.is_none(), "others were here before");
                taken.push(waiting.await);
            }
            assert!(taken.iter().all(Option::is_some));
            let mut late = pin!(own());
            assert!(poll!(&mut late).is_pending());
            tokio::time::sleep(PATIENCE).await;
            assert!(late.await.is_none(), "nobody waits for long");
        }
    }

    /// However many there are: they do not take the line from one another.
    #[tokio::test(start_paused = true)]
    async fn all_logs_of_a_reconcile_are_read() {
        for most in [SHORT, LONG] {
            let rooms = Rooms::new(most, &Tell::heard().0);
            let mut others = Vec::new();
            for _ in 1..most.of_a_namespace {
                others.push(rooms.room(("here", "other")).await.expect("there is room"));
            }
            let is_full = Demand::default().short;
            let read = async || {
                let room = rooms.for_one_of(&is_full, ("here", "own")).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                room.is_some()
            };
            let read = futures::future::join_all((0..4 * IN_LINE).map(|_| read())).await;
            assert!(read.into_iter().all(|is_read| is_read));
        }
    }

    /// Where there is none, no time is lost by waiting for it again.
    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_finds_no_room_asks_for_no_more() {
        let (tell, mut heard) = Tell::heard();
        let rooms = Rooms::new(LONG, &tell);
        let mut others = Vec::new();
        for namespace in ["one", "two"] {
            others.push(rooms.room((namespace, "e")).await.expect("there is room"));
        }
        let is_full = Demand::default().long;
        let mut waiting = pin!(rooms.for_one_of(&is_full, ("three", "e")));
        assert!(poll!(&mut waiting).is_pending());
        assert!(rooms.room(("three", "next")).await.is_none());
        tokio::time::sleep(LONGEST).await;
        assert!(waiting.await.is_none(), "others have it for long");
        let Ok(Touched::One { name, .. }) = heard.try_recv() else { unreachable!("the next one is not woken") };
        assert_eq!(name, "next");
        others.clear();
        assert!(rooms.for_one_of(&is_full, ("three", "e")).await.is_none());
        assert!(rooms.room(("three", "e")).await.is_some(), "but there is some now");
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
        let bytes = all_of(slow, SHORT_BYTES).await.expect("a log");
        assert_eq!((bytes.as_slice(), bytes.capacity()), (b"ababab".as_slice(), SHORT_BYTES));
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
        let logs = Logs::new(&Tell::heard().0);
        for length in [SHORT_BYTES - 1, SHORT_BYTES, LONG_BYTES, LONG_BYTES + 1] {
            let whole = "x".repeat(length);
            let answers = [SHORT_BYTES, LONG_BYTES + 1].map(|limit| (200, whole[..length.min(limit)].to_owned()));
            let pods = Api::namespaced(answering_each(answers.into()).0, "here");
            let log = logs.end_of(&Demand::default(), ("here", "e"), &pods, "p").await.expect("a log").expect("room");
            assert!(log.text() == &whole[..length.min(LONG_BYTES)], "{length}");
            assert!(log.text.capacity() <= LONG_BYTES, "a buffer of {}", log.text.capacity());
            let taken = [&logs.short, &logs.long].map(|rooms| rooms.most.of_all - rooms.all.available_permits());
            assert_eq!(taken, if length < SHORT_BYTES { [1, 0] } else { [0, 1] }, "{length}");
        }
    }

    /// A log may take 16 MiB, and any number of pods may end at the same time.
    #[tokio::test(start_paused = true)]
    async fn few_logs_are_held_and_fewer_of_a_namespace() {
        for most in [SHORT, LONG] {
            let rooms = Rooms::new(most, &Tell::heard().0);
            let mut first = Vec::new();
            for _ in 0..most.of_a_namespace {
                first.push(rooms.room(("loud", "e")).await.expect("there is room"));
            }
            assert!(rooms.room(("loud", "e")).await.is_none(), "so many of a namespace");
            let mut others = Vec::new();
            while first.len() + others.len() < most.of_all {
                others.push(rooms.room(("quiet", "e")).await.expect("others have room"));
            }
            let mut third = pin!(rooms.room(("third", "e")));
            assert!(poll!(&mut third).is_pending(), "so many of all");
            first.clear();
            // One that comes later, and be it of those that came first, does not go before it.
            let mut again = pin!(rooms.room(("loud", "e")));
            let third = if most.of_a_namespace == 1 {
                assert!(poll!(&mut again).is_pending());
                let third = third.await.expect("its turn");
                assert!(poll!(&mut again).is_pending());
                third
            } else {
                third.await.expect("its turn")
            };
            others.clear();
            drop(third);
            assert!(again.await.is_some());
        }
    }
}
