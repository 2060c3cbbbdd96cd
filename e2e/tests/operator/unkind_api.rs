//! An API server that refuses, stalls, forgets to answer and cuts every watch.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use crate::account;
use crate::bench::Bench;
use crate::experiment::{self, small};
use crate::lab::{Lab, rounds};
use crate::proxy::{FAULTS, Proxy};
use crate::witness::Witness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unkind_api_server_costs_time_and_no_trial() {
    for round in 0..rounds() {
        let lab = Lab::new("unkind").await;
        let (_bench, witness) = (Bench::new(&lab).start(&lab), Witness::start(&lab));
        let proxy = Proxy::start(&lab, 15, 42 + round as u64).await;
        let _operator = lab.operator_with(&[], Some(&proxy.kubeconfig));
        lab.apply(small(&lab, "unkind")).await;
        lab.decided("unkind", "Win", 5).await;
        lab.check(lab.losses("unkind").await.is_empty(), "no attempt is lost").await;
        assert_eq!(witness.ran(), experiment::trials(5));
        witness.saw_nothing_wrong(&lab).await;
        for fault in FAULTS {
            assert!(proxy.count(fault) > 0, "{fault:?} was never tried");
        }
        lab.close().await;
    }
}

/// A verdict follows from summaries, so what a log does costs the full record and nothing else: least of all the operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_without_end_costs_the_full_record_only() {
    let lab = Lab::new("log").await;
    let (_bench, witness) = (Bench::new(&lab).start(&lab), Witness::start(&lab));
    let proxy = Proxy::with_endless_logs(&lab).await;
    let mut operator = lab.operator_with(&[], Some(&proxy.kubeconfig));
    lab.apply(small(&lab, "log")).await;
    lab.decided("log", "Win", 5).await;
    assert!(proxy.logs() >= experiment::trials(5), "every trial's log was asked for");
    let records = lab.trials("log").await.into_iter().filter_map(|trial| trial.status);
    let records = records.flat_map(|status| status.attempts).filter(|attempt| attempt.record.is_some());
    assert_eq!(records.count(), 0);
    assert!(operator.is_running());
    lab.check(operator.peak_mib() < 200, &format!("the operator took {} MiB", operator.peak_mib())).await;
    witness.saw_nothing_wrong(&lab).await;
    lab.close().await;
}

/// The proxy by itself: what it lets through is what the API server said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_proxy_changes_nothing() {
    let lab = Lab::new("kind").await;
    let proxy = Proxy::start(&lab, 0, 1).await;
    let namespaces = [lab.client.clone(), account::client(&proxy.kubeconfig).await].map(Api::<Namespace>::all);
    let [direct, through] = namespaces.map(async |api| api.get(&lab.namespace).await.expect("the namespace"));
    let (direct, through) = (direct.await, through.await);
    assert_eq!(direct, through);
    assert!(FAULTS.iter().all(|fault| proxy.count(*fault) == 0));
    lab.close().await;
}
