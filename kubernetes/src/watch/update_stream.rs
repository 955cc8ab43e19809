//! The updates of one watch as a stream.

use std::future;

use futures_util::{Stream, StreamExt, stream};
use kube::Client;
use tokio::sync::mpsc;

use crate::watch::{QUEUE_CAPACITY, Reflector, WatchTiming, WatchUpdate, WatchedResource};

/// Lists and watches a resource for as long as the stream is polled. The reflector runs inside the stream, so no task
/// outlives its consumer.
pub fn watch_updates<S: WatchedResource>(
    client: Client,
    source: S,
    label_selector: Option<String>,
    timing: WatchTiming,
) -> impl Stream<Item = WatchUpdate<S::Object>> + Send {
    let (updates, receiver) = mpsc::channel(QUEUE_CAPACITY);
    let reflector = Reflector {
        client,
        source,
        label_selector,
        timing,
        updates,
    };
    let incoming = stream::unfold(receiver, |mut receiver| async move {
        let (_, update) = receiver.recv().await?;
        Some((update, receiver))
    });
    let running = stream::once(reflector.run()).filter_map(|()| future::ready(None));
    stream::select(incoming, running)
}
