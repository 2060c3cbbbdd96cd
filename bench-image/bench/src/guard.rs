//! Ends a trial that RocksDB doesn't let end: a write that is stopped for good never returns.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Calls for the end unless it is dropped in time.
pub struct Guard(Arc<(Mutex<bool>, Condvar)>);

impl Guard {
    pub fn arm(limit: Duration, give_up: impl FnOnce() + Send + 'static) -> Self {
        let state = Arc::new((Mutex::new(false), Condvar::new()));
        let watched = Arc::clone(&state);
        thread::spawn(move || {
            let (disarmed, changed) = &*watched;
            let guard = disarmed.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = changed.wait_timeout_while(guard, limit, |disarmed| !*disarmed);
            let (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
            // The lock is kept: who comes too late to disarm waits for the end.
            if !*guard {
                give_up();
            }
        });
        Self(state)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;

    #[test]
    fn it_calls_for_the_end_only_when_it_is_kept() {
        let (sender, ended) = channel();
        let kept = Guard::arm(Duration::from_millis(1), {
            let sender = sender.clone();
            move || sender.send(()).unwrap()
        });
        ended.recv_timeout(Duration::from_mins(1)).unwrap();
        drop(kept);
        drop(Guard::arm(Duration::from_mins(1), move || sender.send(()).unwrap()));
        assert_eq!(ended.recv_timeout(Duration::from_mins(1)), Err(RecvTimeoutError::Disconnected));
    }
}
