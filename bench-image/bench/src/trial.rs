//! One trial from its spec to its record.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use assay_protocol::{
    Attestation, DatasetFacts, Digest, Disturbance, Engagement, Evidence, Exit, FailureKind, LsmState, Outcome, Series,
    Summary, TrialRecord, TrialSpec, VERSION, Work,
    invocation::{self, in_pod},
    output,
};

use crate::{
    dataset,
    driver::{self, Policy, Progress},
    engagement::Peaks,
    engine::{self, Attestor, Engine, EngineError, Fault},
    evidence::{self, Probe, Roots},
    failure::{TrialError, blame, blame_under_way, failed},
    fill::{fill, fill_events, live_bytes},
    guard::Guard,
    live::Live,
    measure,
    metrics::{Measured, metrics},
    watch::Watcher,
    workload::{self, Workload},
};

/// No record of a bench that can plant effects passes for another's.
const BENCH_VERSION: &str =
    if cfg!(feature = "planted") { concat!(env!("CARGO_PKG_VERSION"), "+planted") } else { env!("CARGO_PKG_VERSION") };

/// Where a trial works and what it leaves.
#[derive(Clone, Debug)]
pub struct Paths {
    pub spec: PathBuf,
    pub data: PathBuf,
    pub record: PathBuf,
    pub termination_log: Option<PathBuf>,
}

/// Whether a pod's input is what the pod was made for.
pub fn check_input(json: &[u8]) -> Result<(), String> {
    in_pod::check_input(json, std::env::var(in_pod::INPUT_DIGEST).ok().as_deref())
}

/// The spec in a file, with the digest of its bytes.
pub fn read_spec(path: &Path) -> Result<(TrialSpec, Digest), TrialError> {
    let json = fs::read(path).map_err(|error| TrialError::Spec(format!("{}: {error}", path.display())))?;
    // Another pod gets the right one.
    check_input(&json).map_err(TrialError::Environment)?;
    let spec = TrialSpec::from_json(&json).map_err(|error| TrialError::Spec(error.to_string()))?;
    Ok((spec, Digest::of(&json)))
}

/// Prepares the dataset of a trial. In a process of its own: what building a database leaves in memory would be in
/// the first measurement of each format, and in no other.
pub fn prepare(spec: &Path, data: &Path) -> Result<(), TrialError> {
    let (spec, _) = read_spec(spec)?;
    let trial_dir = invocation::trial_dir(data, &spec.trial);
    let workload = workload::build(&spec.workload, spec.seed, spec.dataset.seed).map_err(TrialError::Spec)?;
    let live = Live::default();
    dataset::prepare(data, &spec, workload.as_ref(), &mut |done, total| live.report("prepare", done, total))
        .map_err(|error| blame(&error, &spec, &trial_dir))?;
    Ok(())
}

fn prepare_apart(paths: &Paths) -> Result<(), TrialError> {
    let unfit = |error: io::Error| TrialError::Environment(format!("can't prepare the dataset: {error}"));
    let own = std::env::current_exe().map_err(unfit)?;
    let child = Command::new(own)
        .arg("prepare")
        .arg(&paths.spec)
        .arg(invocation::flag(invocation::DATA))
        .arg(&paths.data)
        .stdin(Stdio::null())
        .stdout(Stdio::inherit())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(unfit)?;
    let Output { status, stderr, .. } = child.wait_with_output().map_err(unfit)?;
    let said = String::from_utf8_lossy(&stderr);
    if status.success() {
        eprint!("{said}");
        return Ok(());
    }
    // Its last line goes into ours, which executors quote.
    let (before, last) = said.trim_end().rsplit_once('\n').unwrap_or(("", said.trim_end()));
    eprint!("{before}");
    let labels = ["assay-bench: ", "environment not usable: ", "spec refused: "];
    let why = labels.iter().fold(last, |rest, label| rest.strip_prefix(label).unwrap_or(rest));
    let message = match why {
        "" => format!("can't prepare the dataset: {status}"),
        why => format!("can't prepare the dataset: {why}"),
    };
    Err(match status.code().and_then(Exit::from_code) {
        Some(Exit::SpecRefused) => TrialError::Spec(message),
        _ => TrialError::Environment(message),
    })
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Runs the trial and writes its record, also where the config failed.
pub fn run(spec: &TrialSpec, spec_digest: Digest, paths: &Paths, roots: Roots, live: &Live) -> Result<(), TrialError> {
    let started = unix_ms();
    Summary::check_fits(spec).map_err(|error| TrialError::Spec(error.to_string()))?;
    let workload = workload::build(&spec.workload, spec.seed, spec.dataset.seed).map_err(TrialError::Spec)?;
    fs::create_dir_all(&paths.data)
        .map_err(|error| TrialError::Environment(format!("{}: {error}", paths.data.display())))?;
    let probe = Probe::open(roots, &paths.data, spec.cpus);
    let mut draft = draft(spec, spec_digest, started, &probe);
    let trial_dir = invocation::trial_dir(&paths.data, &spec.trial);
    let result = measure_trial(&mut draft, spec, workload.as_ref(), paths, &trial_dir, &probe, live)
        .map_err(|error| acquit(error, spec, workload.as_ref(), paths, live));
    // Whatever happened, the next trial needs the space.
    let removed = dataset::remove(&trial_dir);
    draft.finished_unix_ms = unix_ms();
    match result {
        Ok(()) => {
            write_record(&draft, paths)?;
            removed.map_err(|error| TrialError::Environment(error.to_string()))
        }
        Err(TrialError::Config { config, kind, message }) => {
            draft.outcome = Outcome::Failed { kind, message: message.clone() };
            draft.metrics.clear();
            write_record(&draft, paths)?;
            Err(TrialError::Config { config, kind, message })
        }
        Err(error) => Err(error),
    }
}

/// Corruption is no fact about a config if its trial began with a damaged dataset.
fn acquit(error: TrialError, spec: &TrialSpec, workload: &dyn Workload, paths: &Paths, live: &Live) -> TrialError {
    if !matches!(error, TrialError::Config { kind: FailureKind::Corruption, .. }) {
        return error;
    }
    live.report("check the dataset", 0, 1);
    let trial_dir = invocation::trial_dir(&paths.data, &spec.trial);
    match dataset::check(&paths.data, spec, workload) {
        Ok(()) => error,
        Err(found) if found.fault() == Fault::Corruption => {
            let what = match dataset::discard(&paths.data, spec, workload) {
                Ok(()) => "it was removed, and is prepared again".to_owned(),
                Err(error) => format!("it can't be removed ({error})"),
            };
            TrialError::Environment(format!("the dataset is damaged; {what}. Check the disk ({found})"))
        }
        Err(found) => blame(&found, spec, &trial_dir),
    }
}

/// A record with all that is known before anything runs.
fn draft(spec: &TrialSpec, spec_digest: Digest, started: u64, probe: &Probe) -> TrialRecord {
    let (placement, storage, _) = probe.begin().end();
    TrialRecord {
        version: VERSION,
        spec: spec.clone(),
        spec_digest,
        outcome: Outcome::Completed,
        started_unix_ms: started,
        finished_unix_ms: started,
        window_started_unix_ms: started,
        window_seconds: 0.0,
        metrics: BTreeMap::new(),
        work: Work {
            hash: Digest::of(b""),
            counts: BTreeMap::new(),
            user_bytes: 0,
            live_bytes: None,
            answers: None,
            wrong_answers: 0,
            policy_operations: 0,
        },
        dataset: DatasetFacts {
            content: Digest::of(b""),
            format: Digest::of(b""),
            entries: 0,
            logical_bytes: None,
            sst_bytes: 0,
            files_by_level: Vec::new(),
        },
        evidence: Evidence {
            build: evidence::build_facts(
                BENCH_VERSION,
                crate::rocksdb_version(),
                env!("ASSAY_ROCKSDB_BUILD").to_owned(),
            ),
            host: probe.host(),
            placement,
            storage,
            disturbance: Disturbance::default(),
            attestation: Attestation::default(),
            lsm_before: LsmState::default(),
            lsm_after: LsmState::default(),
            own_triggers: Vec::new(),
            engagement: Engagement::default(),
            role_time: BTreeMap::new(),
            drift_percent: None,
        },
        latency: BTreeMap::new(),
        families: BTreeMap::new(),
        tickers: BTreeMap::new(),
        time_spent: BTreeMap::new(),
        series: Series::default(),
    }
}

fn measure_trial(
    draft: &mut TrialRecord,
    spec: &TrialSpec,
    workload: &dyn Workload,
    paths: &Paths,
    trial_dir: &Path,
    probe: &Probe,
    live: &Live,
) -> Result<(), TrialError> {
    let to_trial = |error: EngineError| blame(&error, spec, trial_dir);
    let families = workload.families(&spec.config);

    if !dataset::is_prepared(&paths.data, spec, workload) {
        prepare_apart(paths)?;
    }
    let dataset = dataset::prepare(&paths.data, spec, workload, &mut |_, _| {}).map_err(to_trial)?;
    draft.dataset = dataset.facts.clone();
    live.report("clone", 0, 1);
    let attestor =
        Attestor::new(&paths.data, &spec.baseline, &spec.config, &|config| workload.families(config), spec.page_cache)
            .map_err(to_trial)?;
    dataset::clone_to(&dataset.dir, trial_dir).map_err(to_trial)?;
    let engine = Arc::new(Engine::open(trial_dir, &spec.config, &families, spec.page_cache).map_err(to_trial)?);
    draft.evidence.attestation = attestor.attest(trial_dir).map_err(to_trial)?;
    live.report("settle", 0, 1);
    let settling = guard_deadline(draft, "settle", paths);
    engine.wait_until_settled().map_err(to_trial)?;
    drop(settling);
    let settled = measure::lsm_state(engine.as_ref(), &spec.config).settled;
    dataset::set_page_cache(trial_dir, spec.page_cache).map_err(to_trial)?;

    let roles = spec.workload.kind().roles();
    let progress = Progress::new(&roles);
    #[cfg(feature = "planted")]
    let progress = progress.with(driver::planted::Plant::of(spec).map_err(TrialError::Spec)?);
    let progress = Arc::new(progress);
    live.watch(&engine, &progress);
    let peaks = Peaks::of(&spec.tuned_families, &families);
    let tuned = peaks.tuned().to_vec();
    let mut watcher = Watcher::new(&engine, trial_dir, spec, probe, live, peaks);
    let running = guard_deadline(draft, "finish its work", paths);
    let policy = Policy::new(workload.rules(&spec.config));
    let outcome = driver::run(&engine, &spec.config, &policy, workload, &roles, &progress, &mut watcher);
    drop(running);
    live.unwatch();
    if let Some(failure) = watcher.failure.take() {
        return Err(failure);
    }
    let to_lost = |error: EngineError| blame_under_way(&error, spec, trial_dir);
    let results = outcome.map_err(to_lost)?;
    let Some(mut closed) = watcher.closed.take() else {
        return Err(TrialError::Environment("the window never closed".to_owned()));
    };
    closed.lsm_before.settled = settled;
    fill(draft, spec, workload, engine.as_ref(), &results, &closed, watcher.sampler);

    live.report("drain", 0, 1);
    let draining_ends = guard_deadline(draft, "drain", paths);
    let draining = Instant::now();
    // First what is still in memory: with other triggers a flush might wait for compactions that are not due.
    let kept = engine.flush().and_then(|()| {
        let kept = engine.compact_like(&attestor.config.options, &attestor.baseline.options)?;
        engine.wait_until_settled()?;
        Ok(kept)
    });
    draft.evidence.own_triggers = kept.map_err(to_lost)?.into_iter().collect();
    let drained = closed.drained(&engine, draining.elapsed());
    let leftovers = workload.leftovers(&engine).map_err(to_lost)?;
    drop(engine);
    drop(draining_ends);
    draft.work.live_bytes = dataset.facts.logical_bytes.map(|loaded| live_bytes(spec, workload, &results, loaded));
    let (from, to) = (closed.opening_unix_us, closed.closing_unix_us);
    let events = fill_events(&mut draft.evidence.engagement, trial_dir, &tuned, from, to);
    draft.metrics = metrics(&Measured {
        workload: &spec.workload,
        results: &results,
        closed: &closed,
        drained: &drained,
        live_bytes: draft.work.live_bytes,
        leftovers,
        events: events.as_ref(),
    });
    Ok(())
}

/// Every phase has the deadline. The window ends by itself at it; what is stuck in RocksDB ends here.
fn guard_deadline(draft: &TrialRecord, what: &'static str, paths: &Paths) -> Guard {
    const GRACE: Duration = Duration::from_secs(10);
    let (mut record, paths, seconds) = (draft.clone(), paths.clone(), draft.spec.deadline_seconds);
    Guard::arm(Duration::from_secs(seconds).saturating_add(GRACE), move || {
        let trial_dir = invocation::trial_dir(&paths.data, &record.spec.trial);
        let cause = if let Some(status) = engine::logged_failure(&trial_dir) {
            blame_under_way(&EngineError::Background(Some(status)), &record.spec, &trial_dir)
        } else {
            let message = format!("RocksDB did not {what} within {seconds} s (deadlineSeconds)");
            failed(&record.spec, FailureKind::Deadline, message)
        };
        eprintln!("assay-bench: {cause}");
        let mut code = cause.exit_code();
        if let TrialError::Config { kind, message, .. } = cause {
            record.metrics.clear();
            record.outcome = Outcome::Failed { kind, message };
            record.finished_unix_ms = unix_ms();
            if write_record(&record, &paths).is_err() {
                code = Exit::EnvironmentRefused as u8;
            }
        }
        std::process::exit(code.into());
    })
}

/// Writes the record where nobody can see half of it.
fn write_record(record: &TrialRecord, paths: &Paths) -> Result<(), TrialError> {
    let path = &paths.record;
    let write = || -> io::Result<()> {
        let json = serde_json::to_vec(record)?;
        let unfinished = path.with_extension("new");
        let mut file = fs::File::create(&unfinished)?;
        file.write_all(&json)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        if let Some(log) = &paths.termination_log {
            // Not by renaming: the kubelet has mounted this very file.
            fs::write(log, serde_json::to_vec(&Summary::of(record, &json)?)?)?;
            let mut out = io::stdout().lock();
            out.write_all(&output::record_line(&json))?;
            out.write_all(b"\n")?;
        }
        Ok(())
    };
    write().map_err(|error| TrialError::Environment(format!("can't write the record {}: {error}", path.display())))
}
