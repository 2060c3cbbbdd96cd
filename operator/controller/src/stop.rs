//! When everything is to end: on a signal, or to begin again.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::info;

#[derive(Clone, Default)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    /// That SIGTERM and Ctrl-C ask for.
    pub fn on_signals() -> anyhow::Result<Self> {
        let stop = Self::default();
        let mut terminate = signal(SignalKind::terminate()).context("can't handle signals")?;
        tokio::spawn({
            let stop = stop.clone();
            async move {
                tokio::select! {
                    biased;
                    _ = terminate.recv() => {}
                    _ = tokio::signal::ctrl_c() => {}
                }
                info!("shutting down");
                stop.ask();
            }
        });
        Ok(stop)
    }

    pub fn ask(&self) {
        self.0.send_replace(true);
    }

    /// Ends when somebody has asked.
    pub fn asked(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut receiver = self.0.subscribe();
        async move {
            // It can't fail while somebody may ask, and nobody has to be asked who is gone.
            let _ = receiver.wait_for(|is_asked| *is_asked).await;
        }
    }
}
