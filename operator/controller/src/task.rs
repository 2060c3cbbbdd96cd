//! Tasks that end with whoever has begun them, so that nothing is left of an operator that has ended; those without which the operator must
//! not go on; and what computes for long.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};

/// A task, which ends when this is dropped.
pub struct Task<T>(JoinHandle<T>);

/// Begins a task.
pub fn begin<F>(future: F) -> Task<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    Task(tokio::spawn(future))
}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Begins tasks that everything else relies on: what goes by a watch that has ended, say, goes by what is long out of date.
#[derive(Clone)]
pub struct Vital(mpsc::UnboundedSender<String>);

/// Hears of it when one of these tasks has ended, by itself or by a panic. When this is dropped, all of them end.
pub struct Ended(mpsc::UnboundedReceiver<String>);

impl Vital {
    pub fn new() -> (Self, Ended) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), Ended(receiver))
    }

    /// Begins a task that is not meant to end.
    pub fn begin(&self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let end = End { name: name.into(), sender: self.0.clone() };
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = end.sender.closed() => {}
                () = task => {}
            }
        });
    }
}

impl Ended {
    /// Waits for the first end, and says whose it is.
    pub async fn first(&mut self) -> String {
        match self.0.recv().await {
            Some(name) => name,
            // None has begun, and none will.
            None => std::future::pending().await,
        }
    }
}

/// Tells of the end of a task when it is dropped, as it is by a panic too.
struct End {
    name: String,
    sender: mpsc::UnboundedSender<String>,
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.sender.send(std::mem::take(&mut self.name));
    }
}

/// Computes for long. Other tasks go on beside it where there is more than one thread for them.
pub fn compute<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that knows how many threads there are")]
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// One computation at a time: it occupies a thread for seconds, and no task waits for it.
static IS_BUSY: AtomicBool = AtomicBool::new(false);

/// A computation on a thread of its own, beside all tasks.
pub struct Aside<T>(JoinHandle<T>);

impl<T> Aside<T> {
    pub fn has_ended(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for the result; `None` after a panic.
    pub async fn result(self) -> Option<T> {
        self.0.await.ok()
    }
}

/// Gives the thread back, after a panic as well.
struct Busy;

impl Drop for Busy {
    fn drop(&mut self) {
        IS_BUSY.store(false, Ordering::SeqCst);
    }
}

/// Whether there is more than one thread: a single one has no place beside its tasks.
pub fn has_threads() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

/// Begins to compute on a thread of its own; `None` while something else does.
pub fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<Aside<T>> {
    if IS_BUSY.swap(true, Ordering::SeqCst) {
        return None;
    }
    let busy = Busy;
    Some(Aside(tokio::task::spawn_blocking(move || {
        let _busy = busy;
        work()
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_ends_with_whoever_has_begun_it() {
        let (tell, mut told) = mpsc::channel::<()>(1);
        let task = begin(async move {
            let _tell = tell;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        assert!(told.try_recv().is_err_and(|error| error == mpsc::error::TryRecvError::Empty), "it runs");
        drop(task);
        assert_eq!(told.recv().await, None, "it has ended");
        assert_eq!(begin(async { 7 }).await.expect("it ends by itself"), 7);
    }

    #[tokio::test]
    async fn the_end_of_a_vital_task_is_heard_of_however_it_came() {
        let (vital, mut ended) = Vital::new();
        let (tell, mut told) = mpsc::channel::<()>(1);
        vital.begin("what goes on", async move {
            let _tell = tell;
            std::future::pending::<()>().await;
        });
        let first = tokio::time::timeout(std::time::Duration::from_millis(10), ended.first()).await;
        assert!(first.is_err(), "nothing has ended: {first:?}");
        vital.begin("what returns", async {});
        assert_eq!(ended.first().await, "what returns");
        vital.begin("what panics", async { panic!("as it should") });
        assert_eq!(ended.first().await, "what panics");
        assert!(told.try_recv().is_err_and(|error| error == mpsc::error::TryRecvError::Empty), "it runs");
        drop(ended);
        assert_eq!(told.recv().await, None, "it has ended with whoever heard of it");
    }

    #[tokio::test]
    async fn one_thread_computes_as_well() {
        assert_eq!(compute(|| 7), 7);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_computes_holds_nobody_up() {
        let (tell, told) = std::sync::mpsc::channel();
        let _other = begin(async move { tell.send(()) });
        assert_eq!(compute(|| told.recv_timeout(std::time::Duration::from_mins(1))), Ok(()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn one_thing_at_a_time_is_computed_aside() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let first = aside(move || told.recv()).expect("nothing else is computed");
        assert!(!first.has_ended() && aside(|| 7).is_none());
        tell.send(()).expect("it waits");
        assert_eq!(first.result().await, Some(Ok(())));
        let next = aside(|| 7).expect("the first has ended");
        assert_eq!(next.result().await, Some(7));
        let panics = aside(|| panic!("as it should")).expect("the next has ended");
        assert_eq!(panics.result().await, None::<()>);
        assert!(aside(|| 7).is_some());
    }
}
