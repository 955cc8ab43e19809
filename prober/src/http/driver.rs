//! Polls the connection in the same future as the request, so that a probe is one future and spawns no tasks.

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

/// The executor of hyper's HTTP/2: the driver polls the tasks and drops them with the probe.
#[derive(Clone, Default)]
pub(crate) struct SpawnedTasks(Arc<Mutex<Vec<Task>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for SpawnedTasks {
    fn execute(&self, task: F) {
        self.0.lock().push(Box::pin(task));
    }
}

/// Drives the connection of one exchange.
pub(crate) struct ConnectionDriver<'a, C> {
    connection: Pin<&'a mut C>,
    ended: Option<hyper::Result<()>>,
    spawned: SpawnedTasks,
    tasks: FuturesUnordered<Task>,
}

impl<'a, C: Future<Output = hyper::Result<()>>> ConnectionDriver<'a, C> {
    pub(crate) fn new(connection: Pin<&'a mut C>, tasks: SpawnedTasks) -> Self {
        Self {
            connection,
            ended: None,
            spawned: tasks,
            tasks: FuturesUnordered::new(),
        }
    }

    /// Polls the connection until the wanted future is ready. An end of the connection is only recorded, because it may
    /// occur in the same poll that makes the response ready.
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

    /// Like [`ConnectionDriver::drive`], but returns `None` if the connection ends first: a future that waits for an
    /// ended connection to become ready never completes, because the connection is kept until the end of the probe.
    pub(crate) async fn drive_until_closed<F: Future>(&mut self, wanted: F) -> Option<F::Output> {
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

    /// Polls connection and tasks. Returns whether there was progress that the wanted future may not have seen.
    fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        if self.ended.is_none()
            && let Poll::Ready(ended) = self.connection.as_mut().poll(cx)
        {
            self.ended = Some(ended);
            moved = true;
        }
        self.tasks.extend(self.spawned.0.lock().drain(..));
        while let Poll::Ready(Some(())) = self.tasks.poll_next_unpin(cx) {
            moved = true;
        }
        moved || !self.spawned.0.lock().is_empty()
    }

    /// The error of the connection, if it failed: more precise than the error of the request that it cancelled.
    pub(crate) fn failure(&self) -> Option<&hyper::Error> {
        self.ended.as_ref()?.as_ref().err()
    }
}
