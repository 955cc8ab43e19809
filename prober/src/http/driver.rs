//! Polls the connection beside whatever is waited for: nothing is spawned, one future is one probe (R2).

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use hyper::rt::Executor;
use parking_lot::Mutex;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where hyper's HTTP/2 puts the work it would have spawned; the driver polls it and drops it with the probe.
#[derive(Clone, Default)]
pub(crate) struct SpawnedTasks(Arc<Mutex<Vec<Task>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for SpawnedTasks {
    fn execute(&self, task: F) {
        self.0.lock().push(Box::pin(task));
    }
}

/// The connection of one exchange.
pub(crate) struct ConnectionDriver<'a, C> {
    connection: Pin<&'a mut C>,
    ended: Option<hyper::Result<()>>,
    arriving: SpawnedTasks,
    tasks: FuturesUnordered<Task>,
}

impl<'a, C: Future<Output = hyper::Result<()>>> ConnectionDriver<'a, C> {
    pub(crate) fn new(connection: Pin<&'a mut C>, tasks: SpawnedTasks) -> Self {
        Self {
            connection,
            ended: None,
            arriving: tasks,
            tasks: FuturesUnordered::new(),
        }
    }

    /// The wanted future has the say; the end of the connection is only noted, because it may come in the very poll
    /// that readies the answer (R3).
    pub(crate) async fn drive<F: Future>(&mut self, wanted: F) -> F::Output {
        let mut wanted = pin!(wanted);
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(output) = wanted.as_mut().poll(cx) {
                    return Poll::Ready(output);
                }
                if !self.advance(cx) {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// As [`ConnectionDriver::drive`], but nothing where the connection ends first: what waits for an ended connection to be ready
    /// waits for ever, because it is kept until the probe is over.
    pub(crate) async fn drive_while_it_lasts<F: Future>(&mut self, wanted: F) -> Option<F::Output> {
        let mut wanted = pin!(wanted);
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(output) = wanted.as_mut().poll(cx) {
                    return Poll::Ready(Some(output));
                }
                if self.ended.is_some() {
                    return Poll::Ready(None);
                }
                if !self.advance(cx) {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Polls connection and tasks; whether something happened that the wanted future may not have seen.
    fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        if self.ended.is_none()
            && let Poll::Ready(ended) = self.connection.as_mut().poll(cx)
        {
            self.ended = Some(ended);
            moved = true;
        }
        self.tasks.extend(self.arriving.0.lock().drain(..));
        while let Poll::Ready(Some(())) = self.tasks.poll_next_unpin(cx) {
            moved = true;
        }
        moved || !self.arriving.0.lock().is_empty()
    }

    /// Why the connection failed, where it did: more precise than the request that was cancelled for it.
    pub(crate) fn failure(&self) -> Option<&hyper::Error> {
        self.ended.as_ref()?.as_ref().err()
    }
}
