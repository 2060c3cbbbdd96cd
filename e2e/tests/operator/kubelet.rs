//! As much of a kubelet as an agent asks: which CPUs it gave to which pod. Here each pod of a lab has the same.

use std::convert::Infallible;
use std::path::Path;

use futures::stream;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use tokio::net::UnixListener;
use tokio::task::AbortHandle;

use crate::lab::Lab;

/// It answers as long as this is kept.
pub struct Kubelet(AbortHandle);

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Kubelet {
    /// Gives the CPU of this number to every pod of a lab.
    pub fn start(lab: &Lab, socket: &Path, cpu: u8) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        let (pods, namespace) = (lab.api::<Pod>(), lab.namespace.clone());
        let serve = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (pods, namespace) = (pods.clone(), namespace.clone());
                let service = service_fn(move |_| {
                    let (pods, namespace) = (pods.clone(), namespace.clone());
                    async move {
                        let there = pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
                        let resources = |pod: &Pod| resources(&namespace, &pod.name_any(), cpu);
                        Ok::<_, Infallible>(answer(&there.iter().flat_map(resources).collect::<Vec<u8>>()))
                    }
                });
                tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service));
            }
        };
        Self(tokio::spawn(serve).abort_handle())
    }
}

/// A `PodResources` among those of a `ListPodResourcesResponse`.
fn resources(namespace: &str, pod: &str, cpu: u8) -> Vec<u8> {
    let container = [field(1, b"bench"), field(3, &[cpu])].concat();
    let pod = [field(1, pod.as_bytes()), field(2, namespace.as_bytes()), field(3, &container)].concat();
    field(1, &pod)
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("a short field");
    // In two bytes, whether or not one would do.
    [&[number << 3 | 2, length as u8 & 0x7f | 0x80, (length >> 7) as u8], bytes].concat()
}

type Frames = stream::Iter<std::array::IntoIter<Result<Frame<Bytes>, Infallible>, 2>>;

fn answer(message: &[u8]) -> Response<StreamBody<Frames>> {
    let length = u32::try_from(message.len()).expect("a short message");
    let data = [&[0][..], &length.to_be_bytes(), message].concat();
    let trailers = HeaderMap::from_iter([("grpc-status".parse().expect("a name"), HeaderValue::from_static("0"))]);
    let frames = [Frame::data(Bytes::from(data)), Frame::trailers(trailers)];
    let mut response = Response::new(StreamBody::new(stream::iter(frames.map(Ok))));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}
