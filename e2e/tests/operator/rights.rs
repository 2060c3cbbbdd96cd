//! Who may do what, asked of the real API server: every verb on every kind that it knows.

use std::collections::BTreeSet;

use futures::StreamExt;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::Api;
use kube::api::PostParams;

use crate::chart::{agents, chart, helm};
use crate::lab::{Lab, SOON};

pub const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// What discovery does not tell of, and what is worth the most to whoever wants more rights.
const MORE: [&str; 12] = [
    "pods/exec",
    "pods/attach",
    "pods/portforward",
    "pods/ephemeralcontainers",
    "pods/log",
    "pods/eviction",
    "nodes/proxy",
    "nodes/configz",
    "nodes/status",
    "serviceaccounts/token",
    "tuningexperiments.assay.rocks/status",
    "tuningtrials.assay.rocks/status",
];
/// What gives somebody the rights of others. Discovery knows neither these verbs nor users and groups.
const GRANTS: [(&str, &str); 9] = [
    ("users", "impersonate"),
    ("groups", "impersonate"),
    ("serviceaccounts", "impersonate"),
    ("uids.authentication.k8s.io", "impersonate"),
    ("userextras.authentication.k8s.io/scopes", "impersonate"),
    ("roles.rbac.authorization.k8s.io", "bind"),
    ("roles.rbac.authorization.k8s.io", "escalate"),
    ("clusterroles.rbac.authorization.k8s.io", "bind"),
    ("clusterroles.rbac.authorization.k8s.io", "escalate"),
];
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

    /// Everything that they may do in a namespace, or in none: `group resource verb`.
    pub async fn rights(&self, lab: &Lab, namespace: Option<&str>) -> BTreeSet<String> {
        let known = lab.kubectl(&["api-resources", "--no-headers", "--output", "name"]).await;
        let resources = known.lines().map(str::trim).chain(MORE).filter(|resource| !resource.is_empty());
        let asked = resources.flat_map(|resource| VERBS.map(|verb| (resource, verb))).chain(GRANTS);
        let allowed = futures::stream::iter(asked)
            .map(|(resource, verb)| async move {
                let (name, group, part) = parts(resource);
                let is_allowed = self.may(lab, namespace, verb, resource).await && !SELF.contains(&name);
                is_allowed.then(|| line(group, &with(name, part), verb))
            })
            .buffer_unordered(16);
        allowed.filter_map(async |right| right).collect().await
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

fn with(name: &str, part: Option<&str>) -> String {
    part.map_or_else(|| name.to_owned(), |part| format!("{name}/{part}"))
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
    are(lab, &agent, Some(&agents), &of("agents/assay-agent")).await;
    are(lab, &agent, Some(&lab.namespace), &of("leases/assay:assay-system:agent")).await;
    are(lab, &agent, Some("default"), &BTreeSet::new()).await;
    are(lab, &agent, None, &BTreeSet::new()).await;
    let account = Subject::service_account(&lab.namespace, "assay");
    let everywhere: BTreeSet<String> =
        ["core nodes list", "core nodes watch", "core nodes/configz get"].map(str::to_owned).into();
    let own = golden(NAMESPACED, |role| {
        ["Role/team-a/assay", "Role/assay-system/assay-leader", "Role/assay-system/assay:assay-system:nodes"]
            .contains(&role)
    });
    // Asked for in a namespace, a right to something of the whole cluster counts as well.
    let own: BTreeSet<String> = own.union(&everywhere).cloned().collect();
    let answers: BTreeSet<String> = everywhere.union(&of("agents/assay:assay-system:answers")).cloned().collect();
    are(lab, &account, Some(&lab.namespace), &own).await;
    are(lab, &account, Some(&agents), &answers).await;
    are(lab, &account, Some("default"), &everywhere).await;
    are(lab, &account, None, &everywhere).await;
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
    are(&lab, &account, Some(&lab.namespace), &everywhere.union(&leases).cloned().collect()).await;
    are(&lab, &account, Some("default"), &everywhere).await;
    are(&lab, &account, None, &everywhere).await;
    let name = format!("assay:{}", lab.namespace);
    lab.kubectl(&["delete", "clusterroles,clusterrolebindings", &name]).await;
    lab.close().await;
}

/// Somebody may do this in a place and nothing else.
async fn are(lab: &Lab, who: &Subject, place: Option<&str>, expected: &BTreeSet<String>) {
    let found = who.rights(lab, place).await;
    let (more, less): (Vec<_>, Vec<_>) = (found.difference(expected).collect(), expected.difference(&found).collect());
    let right = more.is_empty() && less.is_empty();
    lab.check(right, &format!("{} in {place:?} too much: {more:?}, missing: {less:?}", who.user)).await;
}
