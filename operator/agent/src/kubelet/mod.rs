//! Which CPUs the kubelet gave to a pod alone: its podresources API, v1, on a socket of the node.

mod grpc;
mod proto;

use std::collections::BTreeSet;
use std::path::Path;

use assay_record::CpuList;
use proto::{Value, fields};

const LIST: &str = "/v1.PodResourcesLister/List";

/// The CPUs of a pod's containers; `None` where the kubelet gave it none of its own, or has not begun it yet.
pub async fn cpus(socket: &Path, namespace: &str, pod: &str) -> Result<Option<CpuList>, String> {
    let answer = grpc::call(socket, LIST).await.map_err(|error| format!("{}: {error}", socket.display()))?;
    let cpus = cpus_in(&answer, namespace, pod).ok_or_else(|| format!("{}: not understood", socket.display()))?;
    Ok(Some(CpuList::from_iter(cpus)).filter(|cpus| !cpus.is_empty()))
}

/// The CPUs of a pod in a `ListPodResourcesResponse`; `None` where it is none.
fn cpus_in(response: &[u8], namespace: &str, pod: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for (_, resources) in fields(response)?.into_iter().filter(|(number, _)| *number == 1) {
        let resources = fields(resources.bytes()?)?;
        let is = |wanted: u64, text: &str| {
            resources.iter().any(|(number, value)| *number == wanted && value.bytes() == Some(text.as_bytes()))
        };
        if !(is(1, pod) && is(2, namespace)) {
            continue;
        }
        for (_, container) in resources.iter().filter(|(number, _)| *number == 3) {
            for (_, ids) in fields(container.bytes()?)?.into_iter().filter(|(number, _)| *number == 3) {
                let ids = match ids {
                    Value::Number(id) => vec![id],
                    Value::Bytes(packed) => proto::packed(packed)?,
                };
                for id in ids {
                    cpus.insert(u32::try_from(id).ok()?);
                }
            }
        }
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn pod(namespace: &str, name: &str, containers: &[&[u8]]) -> Vec<u8> {
        let containers = containers.iter().flat_map(|container| field(3, container));
        let pod = field(1, name.as_bytes()).into_iter().chain(field(2, namespace.as_bytes())).chain(containers);
        field(1, &pod.collect::<Vec<u8>>())
    }

    #[test]
    fn cpus_of_the_pod_are_found() {
        let (named, device) = (field(1, b"bench"), field(2, &field(1, b"vendor/device")));
        // As Go writes them, and as an older encoder may.
        let packed = [&named[..], &device, &field(3, &[2, 3, 0x80, 1])].concat();
        let single = [&named[..], &[3 << 3, 5]].concat();
        let response = [
            pod("other", "t-a0", &[&field(3, &[7])]),
            pod("team", "t-a0", &[&packed, &single]),
            pod("team", "t-a1", &[&named]),
        ]
        .concat();
        let found = |namespace: &str, pod: &str| {
            cpus_in(&response, namespace, pod).map(|cpus| cpus.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(found("team", "t-a0"), Some(vec![2, 3, 5, 128]));
        assert_eq!(found("team", "t-a1"), Some(vec![]), "the CPUs are shared");
        assert_eq!(found("team", "t-a2"), Some(vec![]), "it is not there yet");
        assert_eq!(cpus_in(&[], "team", "t-a0"), Some(BTreeSet::new()));
        for end in 1..response.len() {
            // Whatever is cut off, nobody panics.
            let _ = cpus_in(&response[..end], "team", "t-a0");
        }
        assert_eq!(cpus_in(&response[..response.len() - 1], "team", "t-a0"), None);
    }
}
