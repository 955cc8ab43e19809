//! Limits how many plan streams a vantage has open.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parallax_model::Vantage;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Maximum number of streams of a vantage: the prober, and what remains of connections before a restart.
const MAX_OF_VANTAGE: usize = 4;

type StreamsByVantage = BTreeMap<Vantage, VecDeque<(u64, CancellationToken)>>;

/// The open plan streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenPlanStreams(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    opened: u64,
    /// Oldest first.
    streams: StreamsByVantage,
}

/// An open stream, no longer counted when it is dropped.
#[derive(Debug)]
pub(crate) struct OpenPlanStream {
    all: OpenPlanStreams,
    vantage: Vantage,
    number: u64,
    displaced: CancellationToken,
}

impl OpenPlanStreams {
    /// Counts a new stream of a vantage, and ends its oldest one if there are too many.
    pub(crate) fn open(&self, vantage: &Vantage) -> OpenPlanStream {
        let displaced = CancellationToken::new();
        let mut state = self.0.lock();
        state.opened += 1;
        let number = state.opened;
        let streams = state.streams.entry(vantage.clone()).or_default();
        streams.push_back((number, displaced.clone()));
        if streams.len() > MAX_OF_VANTAGE
            && let Some((_, oldest)) = streams.pop_front()
        {
            oldest.cancel();
        }
        drop(state);
        OpenPlanStream {
            all: self.clone(),
            vantage: vantage.clone(),
            number,
            displaced,
        }
    }
}

impl OpenPlanStream {
    /// Completes when a newer stream has taken its place.
    pub(crate) async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for OpenPlanStream {
    fn drop(&mut self) {
        let mut state = self.all.0.lock();
        if let Some(streams) = state.streams.get_mut(&self.vantage) {
            streams.retain(|(number, _)| *number != self.number);
            if streams.is_empty() {
                state.streams.remove(&self.vantage);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_stream_of_a_vantage_ends_its_first_and_no_other() {
        let all = OpenPlanStreams::default();
        let (one, two) = ("n1/pod".parse().unwrap(), "n2/pod".parse().unwrap());
        let other = all.open(&two);
        let streams: Vec<OpenPlanStream> = (0..5).map(|_| all.open(&one)).collect();
        let displaced: Vec<bool> = streams
            .iter()
            .map(|stream| stream.displaced.is_cancelled())
            .collect();
        assert_eq!(displaced, [true, false, false, false, false]);
        assert!(!other.displaced.is_cancelled());
        drop(streams);
        assert_eq!(all.0.lock().streams.len(), 1);
    }
}
