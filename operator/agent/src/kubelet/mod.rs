//! Which CPUs the kubelet gave to a pod alone: its podresources API, v1, on a socket of the node.

mod grpc;
mod proto;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use assay_protocol::CpuList;
use proto::{Value, fields};

const LIST: &str = "/v1.PodResourcesLister/List";

/// The CPUs that a pod's containers have for themselves, which may be none; `None` before the kubelet has begun it.
pub async fn cpus(socket: &Path, namespace: &str, pod: &str) -> Result<Option<CpuList>, String> {
    let answer = grpc::call(socket, LIST).await.map_err(|error| format!("{}: {error}", socket.display()))?;
    let mut pods = pods_in(&answer).ok_or_else(|| format!("{}: can't parse the answer", socket.display()))?;
    Ok(pods.remove(&(namespace.to_owned(), pod.to_owned())))
}

/// The CPUs of each pod in a `ListPodResourcesResponse`, by namespace and name; `None` where it is none.
fn pods_in(response: &[u8]) -> Option<BTreeMap<(String, String), CpuList>> {
    let mut pods = BTreeMap::new();
    for (_, resources) in fields(response)?.into_iter().filter(|(number, _)| *number == 1) {
        let resources = fields(resources.bytes()?)?;
        let text = |wanted: u64| {
            let found = resources.iter().find(|(number, _)| *number == wanted);
            found.and_then(|(_, value)| Some(String::from_utf8_lossy(value.bytes()?).into_owned())).unwrap_or_default()
        };
        let mut cpus = BTreeSet::new();
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
        pods.insert((text(2), text(1)), CpuList::from_iter(cpus));
    }
    Some(pods)
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
        let pods = pods_in(&response).unwrap();
        let found =
            |namespace: &str, pod: &str| pods.get(&(namespace.to_owned(), pod.to_owned())).map(CpuList::to_string);
        assert_eq!(found("team", "t-a0").as_deref(), Some("2-3,5,128"));
        assert_eq!(found("team", "t-a1").as_deref(), Some(""), "the CPUs are shared");
        assert_eq!(found("team", "t-a2"), None, "it is not there yet");
        assert_eq!(pods_in(&[]), Some(BTreeMap::new()));
        for end in 1..response.len() {
            // Whatever is cut off, nobody panics.
            let _ = pods_in(&response[..end]);
        }
        assert_eq!(pods_in(&response[..response.len() - 1]), None);
    }
}
