//! What goes wrong, by a seed: how often whatever happens to requests, and what happens when to whom.

use std::collections::BTreeSet;
use std::time::Duration;

use super::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// A node, or its kubelet.
    Silence(usize),
    Return(usize),
    Reboot(usize),
    Vanish(usize),
    Cordon(usize, bool),
    /// Somebody removes the pod of a trial, whichever comes then.
    DeletePod(u64),
    EvictPod(u64),
    /// Somebody removes the Lease of a node, or of the leader.
    DeleteLease(usize),
    DeleteLeader,
    DeleteExperiment(usize),
    CreateExperiment(usize),
    Suspend(usize, bool),
    SuspendSweep(bool),
    /// Somebody asks for a night, or removes one.
    RunNow(u64),
    DeleteNight(u64),
    Quota(usize, bool),
    Queue(bool),
    /// The clock of a replica is wrong by this many seconds from here on.
    Clock(usize, i64),
    /// A replica can't reach the API server for so long.
    CutOff(usize, Duration),
    /// One is asked to stop, or killed.
    Stop(usize),
    Kill(usize),
    /// What watches have not told of yet is forgotten.
    Compact,
}

/// How often something happens is in 10,000.
#[derive(Clone, Debug)]
pub struct Weather {
    /// Until then.
    pub lasts: Duration,
    pub incidents: Vec<(Duration, Incident)>,
    /// Namespaces without room for pods, and a queue that lets nobody through.
    pub quota: BTreeSet<String>,
    pub queue_holds: bool,
    /// Requests that are refused; that or whose answers are lost; about which nobody hears; after which the replica is killed.
    pub refusals: u64,
    pub losses: u64,
    pub silences: u64,
    pub kills: u64,
    /// Trials that end badly, and pods that a kubelet does not want.
    pub mishaps: u64,
    pub admission: u64,
    /// At most, in milliseconds.
    latency: u64,
    lag: u64,
    /// Most watches are cut after this.
    cut: Option<u64>,
}

impl Weather {
    pub fn calm() -> Self {
        Self {
            lasts: Duration::ZERO,
            incidents: Vec::new(),
            quota: BTreeSet::new(),
            queue_holds: false,
            refusals: 0,
            losses: 0,
            silences: 0,
            kills: 0,
            mishaps: 0,
            admission: 0,
            latency: 15,
            lag: 50,
            cut: None,
        }
    }

    pub fn of(random: &mut Random, nodes: usize, experiments: usize, replicas: usize) -> Self {
        let lasts = random.milliseconds(30_000, 400_000);
        // Of all that can go wrong only some does, or nothing would ever get far.
        let mut often = |most: u64| if random.happens(4500) { 1 + random.below(most) } else { 0 };
        let mut weather = Self {
            refusals: often(600),
            losses: often(400),
            silences: often(100),
            kills: often(80),
            mishaps: often(1500),
            admission: often(1000),
            ..Self::calm()
        };
        weather.lasts = lasts;
        weather.latency = *random.pick(&[3, 30, 300, 1500]).unwrap();
        weather.lag = *random.pick(&[20, 300, 3000, 12_000]).unwrap();
        weather.cut = random.happens(4000).then(|| random.below(60_000) + 2000);
        for _ in 0..random.below(12) {
            weather.incidents(random, nodes, experiments, replicas);
        }
        weather.incidents.sort_by_key(|(at, _)| *at);
        weather
    }

    fn incidents(&mut self, random: &mut Random, nodes: usize, experiments: usize, replicas: usize) {
        let at = Duration::from_millis(random.below(self.lasts.as_millis() as u64));
        // Those that last do so for a moment, or for longer than anybody waits.
        let longest = *random.pick(&[15_000, 150_000, 500_000]).unwrap();
        let later = at + random.milliseconds(1000, longest);
        let node = random.below(nodes as u64) as usize;
        let experiment = random.below(experiments as u64) as usize;
        let replica = random.below(replicas as u64) as usize;
        let some = random.next();
        let (first, second) = match random.below(20) {
            0 => (Incident::Silence(node), Some(Incident::Return(node))),
            1 => (Incident::Reboot(node), None),
            2 => (Incident::Vanish(node), Some(Incident::Return(node))),
            3 => (Incident::Cordon(node, true), Some(Incident::Cordon(node, false))),
            4 | 5 => (Incident::DeletePod(some), None),
            6 => (Incident::EvictPod(some), None),
            7 => (Incident::DeleteLease(node), None),
            8 => (Incident::DeleteLeader, None),
            9 => {
                let back = Some(Incident::CreateExperiment(experiment)).filter(|_| random.happens(6000));
                (Incident::DeleteExperiment(experiment), back)
            }
            10 => (Incident::Suspend(experiment, true), Some(Incident::Suspend(experiment, false))),
            11 => (Incident::Quota(experiment, true), Some(Incident::Quota(experiment, false))),
            12 => (Incident::Queue(true), Some(Incident::Queue(false))),
            13 => {
                let seconds = random.below(40_000).cast_signed() - 20_000;
                (Incident::Clock(replica, seconds), Some(Incident::Clock(replica, 0)))
            }
            14 => (Incident::CutOff(replica, random.milliseconds(1000, 60_000)), None),
            15 if random.happens(5000) => (Incident::Stop(replica), None),
            15 => (Incident::Kill(replica), None),
            16 => (Incident::SuspendSweep(true), Some(Incident::SuspendSweep(false))),
            17 => (Incident::RunNow(some % 1000), None),
            18 => (Incident::DeleteNight(some), None),
            _ => (Incident::Compact, None),
        };
        self.incidents.push((at, first));
        self.incidents.extend(second.map(|second| (later, second)));
    }

    pub fn latency(&self, random: &mut Random) -> Duration {
        random.milliseconds(1, self.latency)
    }

    /// How late a watch is.
    pub fn lag(&self, random: &mut Random) -> Duration {
        random.milliseconds(1, self.lag)
    }

    /// After how long a watch is cut.
    pub fn cut(&self, random: &mut Random) -> Option<Duration> {
        self.cut.filter(|_| random.happens(7000)).map(|most| random.milliseconds(500, most))
    }
}
