//! Leases: who may act, and who holds a node. Every change names the version that it was made from, so of two who want the same
//! only one gets it.

use std::time::Duration;

use assay_api::names::{HOLDER_ANNOTATION, MANAGED_BY, MANAGED_LABEL};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, Client};

use crate::error::{Error, call};

/// Leases of one namespace that are held for one length of time.
#[derive(Clone)]
pub struct Leases {
    api: Api<Lease>,
    duration: Duration,
}

/// What came of asking for a lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Held(Box<Lease>),
    /// Somebody else has it.
    Taken(String),
}

impl Leases {
    pub fn new(client: &Client, namespace: &str, duration: Duration) -> Self {
        Self { api: Api::namespaced(client.clone(), namespace), duration }
    }

    pub async fn get(&self, name: &str) -> Result<Option<Lease>, Error> {
        call(self.api.get_opt(name)).await
    }

    /// Takes or renews a lease, going by what is known of it.
    pub async fn ask(&self, name: &str, holder: &str, note: &str, known: Option<&Lease>) -> Result<Asked, Error> {
        let now = Timestamp::now();
        let Some(known) = known else {
            let lease = self.lease(name, holder, note, now, None);
            return match call(self.api.create(&PostParams::default(), &lease)).await {
                Ok(lease) => Ok(Asked::Held(lease.into())),
                Err(error) if error.is_conflict() => Ok(Asked::Taken("somebody who was faster".to_owned())),
                Err(error) => Err(error),
            };
        };
        if let Some(other) = holder_of(known, now).filter(|other| *other != holder) {
            return Ok(Asked::Taken(other.to_owned()));
        }
        let lease = self.lease(name, holder, note, now, Some(known));
        match call(self.api.replace(name, &PostParams::default(), &lease)).await {
            Ok(lease) => Ok(Asked::Held(lease.into())),
            Err(error) if error.is_conflict() || error.is_not_found() => {
                Ok(Asked::Taken("somebody who was faster".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// Gives a lease back, if it is still the one that was held.
    pub async fn release(&self, held: &Lease) -> Result<(), Error> {
        let name = held.metadata.name.as_deref().unwrap_or_default();
        let same =
            Preconditions { resource_version: held.metadata.resource_version.clone(), uid: held.metadata.uid.clone() };
        let params = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
        match call(self.api.delete(name, &params)).await {
            Err(error) if !(error.is_conflict() || error.is_not_found()) => Err(error),
            _ => Ok(()),
        }
    }

    fn lease(&self, name: &str, holder: &str, note: &str, now: Timestamp, known: Option<&Lease>) -> Lease {
        let spec = known.and_then(|known| known.spec.clone()).unwrap_or_default();
        let is_new = spec.holder_identity.as_deref() != Some(holder);
        Lease {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                // Of a lease that changed meanwhile nothing is replaced.
                resource_version: known.and_then(|known| known.metadata.resource_version.clone()),
                annotations: Some([(HOLDER_ANNOTATION.to_owned(), note.to_owned())].into()),
                labels: Some([(MANAGED_LABEL.to_owned(), MANAGED_BY.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(self.duration.as_secs() as i32),
                acquire_time: if is_new { Some(MicroTime(now)) } else { spec.acquire_time },
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(spec.lease_transitions.unwrap_or(0) + i32::from(is_new && known.is_some())),
                ..LeaseSpec::default()
            }),
        }
    }
}

/// Who holds a lease that has not run out.
pub fn holder_of(lease: &Lease, now: Timestamp) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    (age(lease, now) < f64::from(spec.lease_duration_seconds?)).then_some(holder)
}

/// Seconds since it was renewed.
pub fn age(lease: &Lease, now: Timestamp) -> f64 {
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    renewed.map_or(f64::INFINITY, |time| now.duration_since(time.0).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, renewed_seconds_ago: i64) -> Lease {
        let renewed = Timestamp::now() - Duration::from_secs(renewed_seconds_ago.unsigned_abs());
        Lease {
            metadata: ObjectMeta::default(),
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(30),
                renew_time: Some(MicroTime(renewed)),
                ..LeaseSpec::default()
            }),
        }
    }

    #[test]
    fn a_lease_runs_out() {
        let now = Timestamp::now();
        assert_eq!(holder_of(&lease("a", 29), now), Some("a"));
        assert_eq!(holder_of(&lease("a", 31), now), None);
        assert_eq!(holder_of(&lease("", 1), now), None);
        assert_eq!(holder_of(&Lease::default(), now), None);
    }
}
