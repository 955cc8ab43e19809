//! Limits how many plan streams a vantage has open, and knows which plan each of them has sent.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parallax_model::{PlanRevision, Vantage};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Maximum number of streams of a vantage: the prober, and what remains of connections before a restart.
const MAX_OF_VANTAGE: usize = 4;

type StreamsByVantage = BTreeMap<Vantage, VecDeque<StreamEntry>>;

/// What is known of one stream.
#[derive(Debug)]
struct StreamEntry {
    number: u64,
    displaced: CancellationToken,
    /// The last plan that was sent; `None` before the first, and for a responder.
    sent: Option<SentPlan>,
}

/// A plan that was sent to a prober.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SentPlan {
    pub(crate) revision: PlanRevision,
    pub(crate) assignments: u64,
}

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
        streams.push_back(StreamEntry {
            number,
            displaced: displaced.clone(),
            sent: None,
        });
        if streams.len() > MAX_OF_VANTAGE
            && let Some(oldest) = streams.pop_front()
        {
            oldest.displaced.cancel();
        }
        drop(state);
        OpenPlanStream {
            all: self.clone(),
            vantage: vantage.clone(),
            number,
            displaced,
        }
    }

    /// Returns the newest plan that an open stream of each vantage has sent.
    pub(crate) fn sent_plans(&self) -> BTreeMap<Vantage, SentPlan> {
        let state = self.0.lock();
        let newest = |streams: &VecDeque<StreamEntry>| streams.iter().filter_map(|stream| stream.sent).max();
        let plans = state.streams.iter();
        plans
            .filter_map(|(vantage, streams)| Some((vantage.clone(), newest(streams)?)))
            .collect()
    }
}

impl OpenPlanStream {
    /// Records the plan that the reader has now.
    pub(super) fn record_sent(&self, revision: PlanRevision, assignments: usize) {
        let mut state = self.all.0.lock();
        let mut streams = state.streams.get_mut(&self.vantage).into_iter().flatten();
        if let Some(stream) = streams.find(|stream| stream.number == self.number) {
            let assignments = u64::try_from(assignments).unwrap_or(u64::MAX);
            stream.sent = Some(SentPlan {
                revision,
                assignments,
            });
        }
    }

    /// Completes when a newer stream has taken its place.
    pub(crate) async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for OpenPlanStream {
    fn drop(&mut self) {
        let mut state = self.all.0.lock();
        if let Some(streams) = state.streams.get_mut(&self.vantage) {
            streams.retain(|stream| stream.number != self.number);
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

    #[test]
    fn the_newest_plan_of_a_vantages_open_streams_counts() {
        let all = OpenPlanStreams::default();
        let vantage: Vantage = "n1/pod".parse().unwrap();
        let (prober, responder) = (all.open(&vantage), all.open(&vantage));
        assert_eq!(all.sent_plans(), BTreeMap::new());
        let revision = |number| PlanRevision { epoch: 1, number };
        prober.record_sent(revision(4), 9);
        let newer = all.open(&vantage);
        newer.record_sent(revision(5), 8);
        let sent = |number, assignments| SentPlan {
            revision: revision(number),
            assignments,
        };
        assert_eq!(all.sent_plans()[&vantage], sent(5, 8));
        drop(newer);
        assert_eq!(all.sent_plans()[&vantage], sent(4, 9));
        drop(prober);
        assert!(all.sent_plans().is_empty());
        drop(responder);
    }
}
