//! Room for logs of one size. No reconcile is busy while it waits for that of others: the experiment of whoever is next is woken, and finds it kept.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assay_api::TuningExperiment;
use tokio::sync::Notify;

use crate::clock::SharedClock;
use crate::lock::locked;
use crate::watch::{Tell, Touched};

/// How long room is kept for whoever was woken for it. They may be gone, or busy: then whoever asks next goes before them.
const KEPT: Duration = Duration::from_secs(10);

/// Logs in memory at the same time, of all namespaces and of one.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    pub of_all: usize,
    pub of_a_namespace: usize,
}

/// A pod whose log is to be read, and what is woken when there is room for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whose {
    pub namespace: String,
    pub experiment: String,
    pub pod: String,
}

pub struct Rooms {
    most: Most,
    state: Mutex<State>,
    clock: SharedClock,
    tell: Tell,
}

#[derive(Debug, Default)]
struct State {
    /// By namespace, what is in use and what is kept.
    taken: BTreeMap<String, usize>,
    kept: Vec<Kept>,
    /// Those for whom there was none, first those who came first; and these by namespace, first those which had their turn longest ago.
    lines: VecDeque<(String, VecDeque<InLine>)>,
}

#[derive(Debug)]
struct Kept {
    whose: Whose,
    since: Instant,
    was_missed: bool,
}

#[derive(Debug)]
struct InLine {
    whose: Whose,
    /// Whether room was kept for it already, and it did not come.
    was_missed: bool,
    /// The reconcile that waits for it; its experiment is woken where none does.
    reconcile: Option<Arc<Notify>>,
}

impl State {
    fn may_have(&self, namespace: &str, most: Most) -> bool {
        self.taken_by(namespace) < most.of_a_namespace && self.taken.values().sum::<usize>() < most.of_all
    }

    fn taken_by(&self, namespace: &str) -> usize {
        self.taken.get(namespace).copied().unwrap_or_default()
    }

    /// Keeps what is free for those in line, first for whose namespace has the least. Says for whom.
    fn hand_out(&mut self, most: Most, now: Instant) -> Vec<InLine> {
        let mut woken = Vec::new();
        loop {
            let lines = self.lines.iter().map(|(namespace, _)| namespace).enumerate();
            let may_have = lines.filter(|(_, namespace)| self.may_have(namespace, most));
            let next = may_have.min_by_key(|(_, namespace)| self.taken_by(namespace)).map(|(next, _)| next);
            let Some((namespace, mut line)) = next.and_then(|next| self.lines.remove(next)) else { return woken };
            if let Some(next) = line.pop_front() {
                *self.taken.entry(namespace.clone()).or_default() += 1;
                self.kept.push(Kept { whose: next.whose.clone(), since: now, was_missed: next.was_missed });
                woken.push(next);
            }
            if !line.is_empty() {
                self.lines.push_back((namespace, line));
            }
        }
    }

    fn line_of(&mut self, namespace: &str) -> &mut VecDeque<InLine> {
        let known = self.lines.iter().position(|(known, _)| known == namespace);
        let place = known.unwrap_or_else(|| {
            self.lines.push_back((namespace.to_owned(), VecDeque::new()));
            self.lines.len() - 1
        });
        &mut self.lines[place].1
    }

    /// Whoever is in line already stays where they are.
    fn join(&mut self, whose: &Whose, reconcile: Option<Arc<Notify>>) {
        let line = self.line_of(&whose.namespace);
        match line.iter_mut().find(|known| known.whose == *whose) {
            Some(known) => known.reconcile = reconcile,
            None => line.push_back(InLine { whose: whose.clone(), was_missed: false, reconcile }),
        }
    }

    /// Takes away those who wait for nothing any more.
    fn forget(&mut self, is_over: impl Fn(&Whose) -> bool) {
        for (_, line) in &mut self.lines {
            line.retain(|waiting| !is_over(&waiting.whose));
        }
        self.lines.retain(|(_, line)| !line.is_empty());
        self.let_go(|kept| is_over(&kept.whose));
    }

    /// Gives back what has been kept for too long. Whoever was busy is first in line then, but not again: they may never come.
    fn expire(&mut self, now: Instant) {
        let over = self.let_go(|kept| now.saturating_duration_since(kept.since) >= KEPT);
        for Kept { whose, .. } in over.into_iter().rev().filter(|kept| !kept.was_missed) {
            let namespace = whose.namespace.clone();
            self.line_of(&namespace).push_front(InLine { whose, was_missed: true, reconcile: None });
        }
    }

    fn give_back(&mut self, namespace: &str) {
        let Some(taken) = self.taken.get_mut(namespace) else { return };
        *taken -= 1;
        if *taken == 0 {
            self.taken.remove(namespace);
        }
    }

    /// Gives back what is kept for those. Says who they are.
    fn let_go(&mut self, is_over: impl Fn(&Kept) -> bool) -> Vec<Kept> {
        let over: Vec<_> = self.kept.extract_if(.., |kept| is_over(kept)).collect();
        for kept in &over {
            self.give_back(&kept.whose.namespace);
        }
        over
    }

    /// Takes what is kept for this one.
    fn take_kept(&mut self, whose: &Whose) -> bool {
        let kept = self.kept.iter().position(|known| known.whose == *whose);
        kept.map(|kept| self.kept.remove(kept)).is_some()
    }
}

impl Rooms {
    pub fn new(most: Most, clock: &SharedClock, tell: &Tell) -> Self {
        Self { most, state: Mutex::default(), clock: Arc::clone(clock), tell: tell.clone() }
    }

    /// Forgets those who wait for nothing any more.
    pub fn prune(&self, is_over: impl Fn(&Whose) -> bool) {
        let mut state = locked(&self.state);
        state.forget(is_over);
        let woken = state.hand_out(self.most, self.clock.instant());
        drop(state);
        self.wake(woken);
    }

    /// Whether there is room for this one, which is in use from then on. If there is none, it is in line, and a reconcile may wait for it.
    fn take(&self, whose: &Whose, reconcile: Option<Arc<Notify>>) -> bool {
        let now = self.clock.instant();
        let mut state = locked(&self.state);
        if state.take_kept(whose) {
            return true;
        }
        let was_free = state.may_have(&whose.namespace, self.most);
        state.expire(now);
        let mut has_room = !was_free && state.may_have(&whose.namespace, self.most);
        if has_room {
            // Those for whom it was kept are not here.
            state.forget(|known| known == whose);
            *state.taken.entry(whose.namespace.clone()).or_default() += 1;
        } else {
            state.join(whose, reconcile);
        }
        let mut woken = state.hand_out(self.most, now);
        woken.retain(|woken| woken.whose != *whose);
        has_room |= state.take_kept(whose);
        drop(state);
        self.wake(woken);
        has_room
    }

    /// The same where only what is kept for it counts.
    fn take_kept(&self, whose: &Whose) -> bool {
        locked(&self.state).take_kept(whose)
    }

    /// How many are in use.
    #[cfg(test)]
    pub fn in_use(&self) -> usize {
        let state = locked(&self.state);
        state.taken.values().sum::<usize>() - state.kept.len()
    }

    fn give_back(&self, namespace: &str) {
        let mut state = locked(&self.state);
        state.give_back(namespace);
        let woken = state.hand_out(self.most, self.clock.instant());
        drop(state);
        self.wake(woken);
    }

    fn wake(&self, woken: Vec<InLine>) {
        for InLine { whose: Whose { namespace, experiment, .. }, reconcile, .. } in woken {
            match reconcile {
                Some(reconcile) => reconcile.notify_one(),
                None => self.tell.touched(Touched::one::<TuningExperiment>(namespace, experiment)),
            }
        }
    }
}

/// What the logs of one reconcile ask for.
#[derive(Default)]
pub struct Demand {
    /// They ask one after another.
    turn: tokio::sync::Mutex<()>,
    /// Whether one of them has found no room. It is in line for all of them: the others only take what was kept for them before.
    is_unmet: AtomicBool,
    own: Arc<Own>,
}

/// What the logs of one reconcile have.
#[derive(Debug, Default)]
struct Own {
    rooms: AtomicUsize,
    /// One of them is free again, or another's is kept for the one that waits.
    freed: Arc<Notify>,
}

impl Demand {
    pub fn is_unmet(&self) -> bool {
        self.is_unmet.load(Ordering::Relaxed)
    }

    /// Room for the log of a pod; `None` while others have it. Waits only as long as other logs of the same reconcile, which is busy with
    /// them anyway, have some.
    pub async fn room(&self, rooms: &Arc<Rooms>, whose: &Whose) -> Option<Room> {
        if rooms.take_kept(whose) {
            return Some(self.taken(rooms, whose));
        }
        let _turn = self.turn.lock().await;
        loop {
            if self.is_unmet() {
                return rooms.take_kept(whose).then(|| self.taken(rooms, whose));
            }
            let is_busy = self.own.rooms.load(Ordering::Relaxed) > 0;
            if rooms.take(whose, is_busy.then(|| Arc::clone(&self.own.freed))) {
                return Some(self.taken(rooms, whose));
            }
            if is_busy {
                self.own.freed.notified().await;
            } else {
                self.is_unmet.store(true, Ordering::Relaxed);
            }
        }
    }

    fn taken(&self, rooms: &Arc<Rooms>, whose: &Whose) -> Room {
        self.own.rooms.fetch_add(1, Ordering::Relaxed);
        Room { rooms: Arc::clone(rooms), namespace: whose.namespace.clone(), own: Arc::clone(&self.own) }
    }
}

/// What a log takes until it is dropped.
pub struct Room {
    rooms: Arc<Rooms>,
    namespace: String,
    own: Arc<Own>,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "room of {}", self.namespace)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.rooms.give_back(&self.namespace);
        self.own.rooms.fetch_sub(1, Ordering::Relaxed);
        self.own.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::future::join_all;
    use futures::{FutureExt as _, poll};
    use tokio::sync::mpsc::UnboundedReceiver;

    use super::*;
    use crate::clock::testing::Manual;

    const MOST: Most = Most { of_all: 4, of_a_namespace: 2 };

    struct Lab {
        rooms: Arc<Rooms>,
        clock: Arc<Manual>,
        heard: UnboundedReceiver<Touched>,
    }

    impl Lab {
        fn new(most: Most) -> Self {
            let (clock, (tell, heard)) = (Manual::new(), Tell::heard());
            let rooms = Rooms::new(most, &(Arc::clone(&clock) as SharedClock), &tell).into();
            Self { rooms, clock, heard }
        }

        /// A reconcile that asks for one log.
        fn ask(&self, who: &str) -> Option<Room> {
            self.ask_in("here", who)
        }

        fn ask_in(&self, namespace: &str, who: &str) -> Option<Room> {
            let demand = Demand::default();
            demand.room(&self.rooms, &whose(namespace, who)).now_or_never().expect("nobody waits")
        }

        /// Who was woken.
        fn woken(&mut self) -> Vec<String> {
            let woken = std::iter::from_fn(|| self.heard.try_recv().ok());
            let name = |touched| {
                let Touched::One { name, .. } = touched else { unreachable!("{touched:?}") };
                name
            };
            woken.map(name).collect()
        }
    }

    fn whose(namespace: &str, who: &str) -> Whose {
        Whose { namespace: namespace.to_owned(), experiment: who.to_owned(), pod: format!("{who}-pod") }
    }

    fn is_idle(rooms: &Rooms) -> bool {
        let state = locked(&rooms.state);
        state.taken.is_empty() && state.kept.is_empty() && state.lines.is_empty()
    }

    #[test]
    fn room_is_kept_for_whoever_was_woken_for_it() {
        let mut lab = Lab::new(MOST);
        let mut taken = vec![lab.ask("loud"), lab.ask("loud")];
        assert!(taken.iter().all(Option::is_some));
        for who in ["first", "second", "first"] {
            assert!(lab.ask(who).is_none());
        }
        assert!(lab.ask_in("there", "e").is_some(), "others have room");
        assert!(lab.woken().is_empty(), "and theirs is none for these");
        taken.pop();
        assert_eq!(lab.woken(), ["first"], "one at a time");
        for who in ["loud", "second"] {
            assert!(lab.ask(who).is_none(), "{who} does not go before it");
        }
        let first = lab.ask("first");
        assert!(first.is_some());
        drop(first);
        taken.clear();
        assert_eq!(lab.woken(), ["second", "loud"], "each is woken once");
        assert!(lab.ask("loud").is_some() && lab.ask("second").is_some());
        assert!(lab.woken().is_empty() && is_idle(&lab.rooms));
    }

    /// Nobody is woken for what they take themselves.
    #[test]
    fn where_there_is_room_nobody_is_woken() {
        let mut lab = Lab::new(MOST);
        for _ in 0..3 {
            drop(lab.ask("e").expect("there is room"));
        }
        assert!(lab.woken().is_empty() && is_idle(&lab.rooms));
    }

    /// Whoever asks has some in the end, and those who were busy keep their place.
    #[test]
    fn room_that_is_not_fetched_is_for_whoever_asks() {
        let mut lab = Lab::new(MOST);
        let taken = [lab.ask("loud"), lab.ask("loud")];
        for who in ["gone", "busy", "next"] {
            assert!(lab.ask(who).is_none());
        }
        drop(taken);
        assert_eq!(lab.woken(), ["gone", "busy"]);
        assert!(lab.ask("new").is_none());
        lab.clock.pass(KEPT);
        let new = lab.ask("new");
        assert!(new.is_some(), "nobody has asked for it");
        assert_eq!(lab.woken(), ["gone"], "it may come yet");
        assert!(lab.ask("busy").is_none());
        drop(new);
        assert_eq!(lab.woken(), ["busy"], "it was before the next one");
        assert!(lab.ask("busy").is_some());
        assert_eq!(lab.woken(), ["next"]);
        lab.clock.pass(KEPT);
        let late = lab.ask("late");
        assert!(late.is_some());
        assert_eq!(lab.woken(), ["next"], "it may come yet, but one that was missed twice does not");
        assert!(lab.ask("next").is_some());
        drop(late);
        assert!(is_idle(&lab.rooms));
    }

    #[test]
    fn whoever_is_there_no_more_keeps_no_room() {
        let mut lab = Lab::new(MOST);
        let mut taken = vec![lab.ask("loud"), lab.ask("loud")];
        for who in ["gone", "gone too", "next", "last"] {
            assert!(lab.ask(who).is_none());
        }
        taken.pop();
        assert_eq!(lab.woken(), ["gone"]);
        lab.rooms.prune(|whose| whose.experiment.starts_with("gone"));
        assert_eq!(lab.woken(), ["next"]);
        taken.pop();
        assert_eq!(lab.woken(), ["last"]);
        lab.rooms.prune(|_| true);
        assert!(is_idle(&lab.rooms));
    }

    /// A log may take 16 MiB, and any number of pods may end at the same time.
    #[test]
    fn few_logs_are_held_and_fewer_of_a_namespace() {
        for most in [MOST, Most { of_all: 2, of_a_namespace: 1 }] {
            let mut lab = Lab::new(most);
            let mut ask = |namespace: &str, who: &str| {
                let rooms: Vec<_> = std::iter::from_fn(|| lab.ask_in(namespace, who)).collect();
                assert_eq!(lab.woken(), [""; 0]);
                rooms
            };
            let (loud, quiet) = (ask("loud", "e"), ask("quiet", "f"));
            assert_eq!((loud.len(), quiet.len()), (most.of_a_namespace, most.of_a_namespace));
            assert!(ask("third", "g").is_empty(), "so many of all");
            drop(loud);
            let (least, tie) = (vec!["g", "e"], vec!["e"]);
            assert_eq!(lab.woken(), if most.of_a_namespace == 1 { tie } else { least });
            drop(quiet);
        }
    }

    /// However many of its logs wait.
    #[test]
    fn no_namespace_is_before_another_again_and_again() {
        let mut lab = Lab::new(Most { of_all: 2, of_a_namespace: 1 });
        let mut rooms = VecDeque::from(["loud", "quiet"].map(|namespace| (namespace, lab.ask_in(namespace, "e"))));
        for number in 0..9 {
            for namespace in ["loud", "quiet"] {
                assert!(lab.ask_in(namespace, &format!("{namespace} {number}")).is_none());
            }
        }
        assert!(lab.ask_in("third", "third").is_none());
        let mut served = Vec::new();
        while !served.contains(&"third".to_owned()) {
            rooms.pop_front();
            for name in lab.woken() {
                let namespace = ["loud", "quiet", "third"].into_iter().find(|namespace| name.starts_with(namespace));
                let namespace = namespace.expect("one of them");
                rooms.push_back((namespace, lab.ask_in(namespace, &name)));
                served.push(name);
            }
        }
        assert_eq!(served, ["loud 0", "quiet 0", "third"]);
    }

    /// However many there are, if others have all other room, and without another reconcile.
    #[tokio::test(start_paused = true)]
    async fn all_logs_of_a_reconcile_are_read() {
        let mut lab = Lab::new(MOST);
        let other = lab.ask("other").expect("there is room");
        let demand = Demand::default();
        let read = async |number: usize| {
            let room = demand.room(&lab.rooms, &whose("here", &number.to_string())).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            room.is_some()
        };
        assert_eq!(join_all((0..20).map(read)).await, [true; 20]);
        assert!(!demand.is_unmet());
        drop(other);
        assert!(lab.woken().is_empty() && is_idle(&lab.rooms));
    }

    /// What others give back is theirs as well.
    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_waits_is_woken_by_others() {
        let mut lab = Lab::new(MOST);
        let other = lab.ask("other").expect("there is room");
        let (rooms, demand, [first, second]) =
            (Arc::clone(&lab.rooms), Demand::default(), ["first", "second"].map(|who| whose("here", who)));
        let _first = demand.room(&rooms, &first).await.expect("there is room");
        let mut second = pin!(demand.room(&rooms, &second));
        assert!(poll!(&mut second).is_pending());
        drop(other);
        assert!(second.await.is_some());
        assert!(lab.woken().is_empty());
    }

    /// But they leave it to those who wait.
    #[tokio::test(start_paused = true)]
    async fn a_reconcile_with_many_logs_is_not_before_others() {
        let mut lab = Lab::new(Most { of_all: 1, of_a_namespace: 1 });
        let demand = Demand::default();
        let room = demand.room(&lab.rooms, &whose("here", "first")).await.expect("there is room");
        assert!(lab.ask("quiet").is_none());
        let (rooms, name, late) = (Arc::clone(&lab.rooms), whose("here", "second"), whose("here", "third"));
        let (mut second, mut third) = (pin!(demand.room(&rooms, &name)), pin!(demand.room(&rooms, &late)));
        assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
        drop(room);
        assert!(second.await.is_none() && third.await.is_none());
        assert!(demand.is_unmet());
        assert_eq!(lab.woken(), ["quiet"]);
        drop(lab.ask("quiet").expect("it is its turn"));
        assert_eq!(lab.woken(), ["second"]);
        assert!(is_idle(&rooms) || !rooms.take_kept(&late), "one of its logs waits for all of them");
    }

    /// What is kept for one of them is there even if another one has found none.
    #[tokio::test(start_paused = true)]
    async fn a_log_that_was_waited_for_is_read() {
        let lab = Lab::new(Most { of_all: 1, of_a_namespace: 1 });
        let taken = lab.ask("loud");
        assert!(taken.is_some() && lab.ask("known").is_none());
        drop(taken);
        let demand = Demand::default();
        assert!(demand.room(&lab.rooms, &whose("here", "new")).await.is_none());
        assert!(demand.is_unmet());
        assert!(demand.room(&lab.rooms, &whose("here", "known")).await.is_some());
    }

    /// Two hundred experiments with more logs than one may read at a time: all have their turn again and again.
    #[test]
    fn whoever_waits_longest_is_next() {
        let mut lab = Lab::new(MOST);
        let names: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let mut read = vec![0; names.len()];
        let (mut awake, mut rooms): (VecDeque<usize>, VecDeque<_>) = ((0..names.len()).collect(), VecDeque::new());
        while read.iter().sum::<usize>() < 5 * names.len() {
            let number = awake.pop_front().expect("nobody is forgotten");
            if let Some(room) = lab.ask(&names[number]) {
                read[number] += 1;
                let most = read.iter().max().expect("some");
                assert!(read.iter().all(|count| count + 1 >= *most), "{read:?}");
                // Another one of its pods ends at once.
                awake.push_back(number);
                rooms.push_back(room);
            }
            if awake.is_empty() || rooms.len() == MOST.of_a_namespace {
                rooms.pop_front();
            }
            awake.extend(lab.woken().iter().map(|name| name.parse::<usize>().expect("a number")));
        }
        assert_eq!(read, [5; 200]);
    }
}
