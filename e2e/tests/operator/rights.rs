//! Who may do what, asked of the real API server.

use std::collections::BTreeSet;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectRulesReview, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::chart::{agents, chart, helm};
use crate::lab::{Lab, SOON};

pub const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// What everybody may do who is known at all: ask what they themselves may do.
const SELF: [&str; 3] = ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"];

/// Somebody, as the API server knows them.
pub struct Subject {
    pub user: String,
    pub groups: Vec<String>,
}

impl Subject {
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let groups = ["system:authenticated", "system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")];
        Self { user: format!("system:serviceaccount:{namespace}:{name}"), groups: groups.map(str::to_owned).to_vec() }
    }

    /// All rules for them in a namespace, those for the whole cluster among them: `group resource verb`. Those for single objects
    /// are left out.
    pub async fn rights(&self, lab: &Lab, namespace: &str) -> BTreeSet<String> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        });
        let file = lab.folder.join("review.json").display().to_string();
        std::fs::write(&file, review.to_string()).expect("a review");
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let groups = self.groups.iter().flat_map(|group| ["--as-group", group]);
        let args = ["create", "--raw", path, "--filename", &file, "--as", &self.user].into_iter().chain(groups);
        let said = lab.kubectl(&args.collect::<Vec<_>>()).await;
        let answer: SelfSubjectRulesReview =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let status = answer.status.expect("a status");
        assert!(!status.incomplete, "the API server knows all rules: {:?}", status.evaluation_error);
        let mut rights = BTreeSet::new();
        for rule in status.resource_rules {
            if rule.resource_names.is_none_or(|names| names.is_empty()) {
                for group in rule.api_groups.iter().flatten() {
                    for resource in rule.resources.iter().flatten().filter(|name| !SELF.contains(&name.as_str())) {
                        rights.extend(rule.verbs.iter().map(|verb| line(group, resource, verb)));
                    }
                }
            }
        }
        rights
    }

    pub async fn may(&self, lab: &Lab, namespace: Option<&str>, verb: &str, resource: &str) -> bool {
        let (name, group, part) = parts(resource);
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(self.user.clone()),
                groups: Some(self.groups.clone()),
                resource_attributes: Some(ResourceAttributes {
                    namespace: namespace.map(str::to_owned),
                    group: Some(group.to_owned()),
                    resource: Some(name.to_owned()),
                    subresource: part.map(str::to_owned),
                    verb: Some(verb.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(lab.client.clone());
        let answer = api.create(&PostParams::default(), &review).await.expect("the API server answers");
        matches!(answer.status, Some(SubjectAccessReviewStatus { allowed: true, .. }))
    }
}

/// Name, group and subresource of `pods/log` or `tuningtrials.assay.rocks/status`.
fn parts(resource: &str) -> (&str, &str, Option<&str>) {
    let (whole, part) = resource.split_once('/').map_or((resource, None), |(whole, part)| (whole, Some(part)));
    let (name, group) = whole.split_once('.').unwrap_or((whole, ""));
    (name, group, part)
}

fn line(group: &str, resource: &str, verb: &str) -> String {
    format!("{} {resource} {verb}", if group.is_empty() { "core" } else { group })
}

const CLUSTER: &str = include_str!("../../../charts/assay/tests/rules-cluster.txt");
const NAMESPACED: &str = include_str!("../../../charts/assay/tests/rules-namespaced.txt");
const AGENT: &str = include_str!("../../../charts/assay/tests/rules-agent.txt");

/// The rights that one of the chart's golden files names for roles that fit, without those to single objects.
fn golden(text: &str, is_meant: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut rights = BTreeSet::new();
    for rule in text.lines().filter(|line| !line.contains(" named ")) {
        let (role, rest) = rule.split_once(": ").expect("a role");
        let (what, verbs) = rest.rsplit_once(": ").expect("verbs");
        let (group, resources) = what.split_once(' ').expect("a group");
        if is_meant(role) {
            let every = resources.split(',').flat_map(|resource| verbs.split(' ').map(move |verb| (resource, verb)));
            let group = if group == "core" { "" } else { group };
            rights.extend(every.map(|(resource, verb)| line(group, resource, verb)));
        }
    }
    rights
}

/// The accounts of a release in a namespace, which is also the only one whose experiments it runs, and of its agents in another.
pub async fn are_least(lab: &Lab) {
    let agents = agents(lab);
    let of = |role: &str| golden(AGENT, |found| found.ends_with(role));
    let agent = Subject::service_account(&agents, "assay-agent");
    are(lab, &agent, &agents, &of("agents/assay-agent")).await;
    are(lab, &agent, &lab.namespace, &of("leases/assay:assay-system:agent")).await;
    are(lab, &agent, "default", &BTreeSet::new()).await;
    let account = Subject::service_account(&lab.namespace, "assay");
    let everywhere: BTreeSet<String> = ["core nodes list", "core nodes watch"].map(str::to_owned).into();
    let own = golden(NAMESPACED, |role| {
        ["Role/team-a/assay", "Role/assay-system/assay-leader", "Role/assay-system/assay:assay-system:nodes"]
            .contains(&role)
    });
    // In a namespace a right to something of the whole cluster counts as well.
    let own: BTreeSet<String> = own.union(&everywhere).cloned().collect();
    let answers: BTreeSet<String> = everywhere.union(&of("agents/assay:assay-system:answers")).cloned().collect();
    are(lab, &account, &lab.namespace, &own).await;
    are(lab, &account, &agents, &answers).await;
    are(lab, &account, "default", &everywhere).await;
    // What kubelets are sent is good for nothing else, and the operator gets no token of any other account.
    let kubelets = Subject::service_account(&lab.namespace, "assay-kubelets");
    let configz = golden(AGENT, |role| role == "ClusterRole/assay:assay-system:kubelets");
    are(lab, &kubelets, &lab.namespace, &configz).await;
    are(lab, &kubelets, "default", &configz).await;
}

/// Of a release for all namespaces nothing is needed here but its roles.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_of_all_namespaces_has_the_least_rights_too() {
    let lab = Lab::with_nodes("wide", 0).await;
    let made = helm(&lab, &["template", "assay", &chart(), "--show-only", "templates/rbac.yaml"]).await;
    let file = lab.folder.join("roles.yaml");
    std::fs::write(&file, made).expect("a manifest");
    lab.kubectl(&["apply", "--server-side", "--filename", &file.display().to_string()]).await;
    let account = Subject::service_account(&lab.namespace, "assay");
    lab.until("the roles hold", SOON, async || account.may(&lab, None, "list", "nodes").await.then_some(())).await;
    let everywhere = golden(CLUSTER, |role| role == "ClusterRole/assay:assay-system");
    let leases = golden(CLUSTER, |role| {
        ["Role/assay-system/assay-leader", "Role/assay-system/assay:assay-system:nodes"].contains(&role)
    });
    are(&lab, &account, &lab.namespace, &everywhere.union(&leases).cloned().collect()).await;
    are(&lab, &account, "default", &everywhere).await;
    let name = format!("assay:{}", lab.namespace);
    lab.kubectl(&["delete", "clusterroles,clusterrolebindings", &name]).await;
    lab.close().await;
}

/// Somebody may do this in a namespace and nothing else.
async fn are(lab: &Lab, who: &Subject, place: &str, expected: &BTreeSet<String>) {
    let found = who.rights(lab, place).await;
    let (more, less): (Vec<_>, Vec<_>) = (found.difference(expected).collect(), expected.difference(&found).collect());
    let right = more.is_empty() && less.is_empty();
    lab.check(right, &format!("{} in {place} too much: {more:?}, missing: {less:?}", who.user)).await;
}
