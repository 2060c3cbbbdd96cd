//! The certificate of the operator's own server. Its files are replaced while the operator runs, as are those of a Secret.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// What the files have: the certificates, and their key.
type Files = Result<(Vec<u8>, Vec<u8>), String>;

pub struct Tls {
    folder: PathBuf,
    seen: Files,
    acceptor: TlsAcceptor,
}

impl Tls {
    /// Of a folder with `tls.crt` and `tls.key`.
    pub fn read(folder: PathBuf) -> Result<Self, String> {
        let seen = files(&folder);
        let acceptor = acceptor(&seen)?;
        Ok(Self { folder, seen, acceptor })
    }

    /// Of the certificate that is there now. While that is unusable, the last one that was not goes on.
    pub fn acceptor(&mut self) -> TlsAcceptor {
        let now = files(&self.folder);
        if now != self.seen {
            match acceptor(&now) {
                Ok(acceptor) => {
                    info!("the certificate for metrics was renewed");
                    self.acceptor = acceptor;
                }
                Err(why) => warn!(why, "can't use the new certificate for metrics; the last one stays"),
            }
            self.seen = now;
        }
        self.acceptor.clone()
    }
}

fn files(folder: &std::path::Path) -> Files {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    Ok((read("tls.crt")?, read("tls.key")?))
}

fn acceptor(files: &Files) -> Result<TlsAcceptor, String> {
    let (chain, key) = files.as_ref().map_err(Clone::clone)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|error| format!("tls.crt: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("tls.key: {error}"))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let config = config.map_err(|error| format!("tls.crt and tls.key: {error}"))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
