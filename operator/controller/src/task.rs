//! Tasks that end with whoever has begun them, so that nothing is left of an operator that has ended. And what computes for long.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::{Handle, RuntimeFlavor};
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

/// Computes for long. Other tasks go on beside it where there is more than one thread for them.
pub fn compute<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that knows how many threads there are")]
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_ends_with_whoever_has_begun_it() {
        let (tell, mut told) = tokio::sync::mpsc::channel::<()>(1);
        let task = begin(async move {
            let _tell = tell;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        assert!(told.try_recv().is_err_and(|error| error == tokio::sync::mpsc::error::TryRecvError::Empty), "it runs");
        drop(task);
        assert_eq!(told.recv().await, None, "it has ended");
        assert_eq!(begin(async { 7 }).await.expect("it ends by itself"), 7);
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
}
