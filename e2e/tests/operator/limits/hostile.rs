//! A tenant whose bench does its worst, and another one beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use assay_api::{TuningTrial, names};
use assay_protocol::invocation::in_pod::METRICS_PORT;
use assay_protocol::output::record_line;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{AT_ONCE, on_node, quiet};
use crate::bench::{Bench, End};
use crate::lab::{Lab, SOON};
use crate::logs::Logs;
use crate::pods;

/// Pods of the hostile bench, all at once.
const LOUD: usize = 64;
const LOG_BYTES: usize = 16 << 20;
const PAGE_BYTES: usize = 4 << 20;
/// The most of a record that the operator reads as objects, as it has little around it.
const RECORD_BYTES: usize = (4 << 20) - (64 << 10);
/// What it never does.
const UNREAD_BYTES: usize = 4 << 20;
/// What the chart limits the operator to.
const LIMIT_KIB: u64 = 256 << 10;
/// The most of the other tenant's experiment beside them.
const BLOCKS: usize = 30;
/// How many times as long another tenant may wait until a trial is collected.
const SLOWER: f64 = 2.0;

/// A log as long as one may be with nothing in it, and one with a record that takes as much memory as one may.
fn shouts() -> [String; 2] {
    const RECORD: &str = include_str!("../../../../operator/core/tests/data/records/cramped.json");
    let mut record: Value = serde_json::from_str(RECORD).expect("a record");
    let parts = [("metrics", RECORD_BYTES), ("tickers", UNREAD_BYTES)];
    for (part, _) in parts {
        record[part] = json!(format!("dense {part}"));
    }
    let mut record = record.to_string();
    for (part, bytes) in parts {
        let mut entries = String::from("\"x\":1");
        for number in 0.. {
            if entries.len() >= bytes {
                break;
            }
            write!(entries, ",\"{number:x}\":1").expect("a string takes it");
        }
        record = record.replace(&format!("\"dense {part}\""), &format!("{{{entries}}}"));
    }
    let line = String::from_utf8(record_line(record.as_bytes())).expect("text");
    let noise = ".".repeat(LOG_BYTES - line.len() - 2);
    [".".repeat(LOG_BYTES), format!("{noise}\n{line}\n")]
}

/// Metrics without end of a bench that runs on this machine, and how often they were asked for.
async fn pages() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.64", METRICS_PORT)).await.expect("a free port");
    let (address, asked) = (listener.local_addr().expect("an address"), Arc::<AtomicUsize>::default());
    let counted = asked.clone();
    tokio::spawn(async move {
        let page: Arc<[u8]> = "metric 1\n".repeat(PAGE_BYTES / 9).into_bytes().into();
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let page = page.clone();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await;
                let _ = stream.write_all(&page).await;
            });
        }
    });
    (address, asked)
}

/// When each trial of a namespace ended, and when that was written down.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<BTreeMap<String, [Option<Instant>; 2]>>>);

impl Collected {
    fn watch(lab: &Lab) -> Self {
        let collected = Self::default();
        let (of_pods, of_trials) = (collected.clone(), collected.clone());
        let (pods, trials) = (pods::changes(lab.api()), watcher(lab.api::<TuningTrial>(), watcher::Config::default()));
        tokio::spawn(pods.for_each(move |event| {
            if let Event::Apply(pod) = event
                && pods::phase(&pod) == "Succeeded"
            {
                of_pods.note(pods::trial(&pod), 0);
            }
            std::future::ready(())
        }));
        tokio::spawn(trials.for_each(move |event| {
            if let Ok(Event::Apply(trial)) = event
                && trial.status.as_ref().is_some_and(|status| !status.attempts.is_empty())
            {
                of_trials.note(&trial.name_any(), 1);
            }
            std::future::ready(())
        }));
        collected
    }

    /// How many trials were written down.
    fn written(&self) -> usize {
        let times = self.0.lock().expect("times");
        times.values().filter(|[_, written]| written.is_some()).count()
    }

    fn note(&self, trial: &str, what: usize) {
        let mut times = self.0.lock().expect("times");
        times.entry(trial.to_owned()).or_default()[what].get_or_insert_with(Instant::now);
    }

    /// The milliseconds that it took, in order, of the trials that ended between two moments.
    fn between(&self, begin: Instant, end: Instant) -> Vec<f64> {
        let times = self.0.lock().expect("times");
        let whole = times.values().filter_map(|[ended, written]| Some(((*ended)?, (*written)?)));
        let within = whole.filter(|(ended, _)| (begin..end).contains(ended));
        let mut took: Vec<f64> =
            within.map(|(ended, written)| written.saturating_duration_since(ended).as_secs_f64() * 1e3).collect();
        took.sort_by(f64::total_cmp);
        took
    }
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

/// What a namespace's pods print and serve costs the operator no more memory than it has, and no other tenant its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hostile_bench_costs_no_other_tenant_anything() {
    let loud = Lab::with_nodes("loud", LOUD).await;
    let mut good = loud.beside("good").await;
    let node = good.add_node().await;
    let (page, scraped) = pages().await;
    let shouts = shouts();
    let logs = Logs::start(&loud, move |pod| {
        let number =
            pod.strip_prefix("assay-trial-loud-").and_then(|rest| rest.split('-').next()?.parse::<usize>().ok());
        let Some(number) = number else { return Ok("words\n".to_owned()) };
        Ok(shouts[number % 2].clone())
    })
    .await;
    let operator = loud.operator_everywhere(&[], Some(&logs.kubeconfig));
    let _benches = [Bench::new(&loud).script(|_| End::Never).start(&loud), Bench::new(&good).start(&good)];
    let [collected, shouted] = [&good, &loud].map(Collected::watch);

    for (number, node) in loud.nodes.iter().enumerate() {
        loud.apply(on_node(&loud, &format!("loud-{number}"), node)).await;
    }
    let pods = loud.api::<Pod>();
    let all_run = loud.until("all of them run", 300, async || {
        let there = pods.list(&ListParams::default()).await.ok()?.items;
        let is_meant = |pod: &&Pod| pods::role(pod) == names::ROLE_TRIAL && pods::phase(pod) == "Running";
        let running: Vec<String> = there.iter().filter(is_meant).map(ResourceExt::name_any).collect();
        (running.len() == LOUD).then_some(running)
    });
    let running = all_run.await;
    quiet(&loud, &logs).await;
    let began = Instant::now();
    good.apply(on_node(&good, "calm", &node)).await;
    good.decided("calm", "Win", 5).await;
    let calm = collected.between(began, Instant::now());

    let (ip, params) = (page.ip().to_string(), PatchParams::default());
    let serves = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
    futures::stream::iter(&running)
        .for_each_concurrent(AT_ONCE, async |pod| {
            pods.patch_status(pod, &params, &Patch::Merge(&serves)).await.expect("a pod has an address");
        })
        .await;
    let asked = async || (scraped.load(Ordering::Relaxed) >= 2 * LOUD).then_some(());
    loud.until("all were asked for their progress", SOON, asked).await;
    let with_pages = operator.memory_kib("VmHWM");

    let mut beside = on_node(&good, "beside", &node);
    // It has to take longer than all logs.
    beside["spec"]["repetitions"] = json!(BLOCKS);
    good.apply(beside).await;
    let is_going = async || (collected.written() > calm.len()).then_some(());
    good.until("the other tenant has begun", SOON, is_going).await;
    let _ = logs.asked();
    let began = Instant::now();
    let ends = json!({"metadata": {"annotations": {
        "fake.assay.rocks/exit-code": "0", "fake.assay.rocks/message": "no summary",
    }}});
    futures::stream::iter(&running)
        .for_each_concurrent(LOUD, async |pod| {
            pods.patch(pod, &params, &Patch::Merge(&ends)).await.expect("a pod can end");
        })
        .await;
    let all_read = async || (shouted.written() >= LOUD).then_some(());
    loud.until("all logs were read", 300, all_read).await;
    let end = Instant::now();
    let of_loud = |asked: &&String| asked.contains("/assay-trial-loud-") && asked.contains("/log?");
    let read = logs.asked().iter().filter(of_loud).count();
    let verdict = good.finished("beside").await.verdicts.first().map(|found| found.verdict.clone());
    assert_eq!(verdict.as_deref(), Some("Win"));
    let beside = collected.between(began, end);
    let peak = operator.memory_kib("VmHWM");
    println!(
        "{LOUD} pods with {} MiB of metrics each, asked {scraped:?} times: peak {with_pages} KiB",
        PAGE_BYTES >> 20
    );
    println!(
        "{LOUD} logs of {} MiB, read in {read} requests within {:?}: peak {peak} KiB",
        LOG_BYTES >> 20,
        end - began
    );
    println!("ms to collect a trial of another tenant: {calm:.0?} before, {beside:.0?} meanwhile");
    assert!(!calm.is_empty() && !beside.is_empty(), "no trial of the other tenant ended");
    let (calm, beside) = (median(&calm), median(&beside));
    println!("at the median {:.2} times as long", beside / calm);
    assert!(peak < LIMIT_KIB, "the operator took {peak} KiB");
    assert!(beside <= SLOWER * calm, "another tenant waits {beside:.0} ms instead of {calm:.0} ms");
    good.close().await;
    loud.close().await;
}
