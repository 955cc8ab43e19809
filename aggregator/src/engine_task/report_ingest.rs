//! Takes the reports of probers: checks them, records their observations and passes these to the engine.

use std::sync::Arc;

use parallax_diagnosis::{
    ObservationResult,
    replay::{RecordImplausible, RecordProgress},
};
use parallax_history::recording::RecordedReport;
use parallax_model::{EventTime, Micros, Recorded, ReportAnswer};

use super::EngineTask;
use crate::ingest::{IngestAnswer, Report, ReportBatch, ReportReceipt};

/// How many intervals after its arrival an observation may have started: an estimate of a prober's clock is wrong by the
/// delay of its fastest report.
const FUTURE_INTERVALS: u64 = 2;

impl EngineTask {
    pub(super) fn handle_report(&mut self, report: Report) {
        let Report {
            batch,
            received,
            reply: answer,
        } = report;
        let ingested = self.ingest(batch, received);
        // The client may have disconnected. The report is still counted, and a retransmission will be a duplicate.
        let _ = answer.send(ingested);
        let now = self.clock.now();
        self.release_rounds(now);
        if self.advance(now) {
            self.publish(now);
        }
    }

    fn ingest(&mut self, batch: ReportBatch, received: EventTime) -> IngestAnswer {
        let ReportBatch {
            header,
            observations,
            malformed_lines: malformed,
        } = batch;
        let state = Arc::clone(&self.topology_state.borrow().topology);
        let mut kept = Vec::new();
        let mut implausible = 0;
        let session = self.sessions.update(&header, received);
        let resend = self.startup_buffer.process_header(
            &header,
            (received, session.offset.offset_micros()),
            (|| self.joined_topology.vantages().len(), self.settings.interval),
        );
        let interval = self.settings.interval;
        let latest = received.plus(Micros(interval.0.saturating_mul(FUTURE_INTERVALS)));
        let mut receipt = ReportReceipt {
            malformed,
            ..ReportReceipt::default()
        };
        for mut observation in observations {
            if !session.sequences.insert(observation.seq) {
                receipt.duplicates += 1;
                continue;
            }
            receipt.accepted += 1;
            observation.started = session.offset.to_event_time(observation.started);
            // Names are shared: neither clone copies text.
            let recorded = Recorded {
                vantage: header.vantage.clone(),
                incarnation: header.incarnation.clone(),
                observation,
            };
            // Observations of runs stay out of cells, history and recording: runs probe at other times and rates.
            if recorded
                .observation
                .assignment
                .as_ref()
                .is_some_and(|id| id.run_id().is_some())
            {
                if let Some(runs) = &self.runs {
                    runs.record(&recorded);
                }
                continue;
            }
            // Probers start probes before they report them. A start in the future would keep a cell fresh until then.
            if recorded.observation.started > latest {
                implausible += 1;
                self.counters
                    .count_observation(&recorded, ObservationResult::Implausible, &state);
                continue;
            }
            self.zone_echoes.0.record(&recorded, &state);
            let result = self.engine.observe(&recorded);
            if header.is_resend {
                // A resent observation: an earlier process or the other replica has counted and stored it.
                self.counters.count_resent(result);
            } else {
                self.counters.count_observation(&recorded, result, &state);
                if let Some(history) = &mut self.history {
                    history.record_observation(&recorded, result, &state);
                }
            }
            if self.recorder.is_some() {
                kept.push(recorded);
            }
        }
        let implausible = (implausible > 0).then(|| RecordImplausible {
            vantage: header.vantage.clone(),
            at: received,
            observations: implausible,
        });
        if let Some(discarded) = &implausible {
            self.engine
                .discard_implausible(&discarded.vantage, discarded.observations);
        }
        if let Some(facts) = &header.facts {
            self.facts.record(&header.vantage, facts, received);
        }
        let progress = header.complete_until.map(|complete| RecordProgress {
            vantage: header.vantage.clone(),
            complete: session.offset.to_event_time(complete),
        });
        let progress = progress.and_then(|progress| self.startup_buffer.hold_progress(progress));
        if let Some(progress) = &progress {
            self.engine.record_progress(&progress.vantage, progress.complete);
        }
        if let Some(recorder) = &mut self.recorder {
            let report = RecordedReport {
                observations: kept,
                implausible,
                progress,
            };
            recorder.record_report(received, &self.joined_topology, report);
        }
        self.counters.count_report(receipt);
        IngestAnswer {
            receipt,
            response: ReportAnswer { resend },
        }
    }
}
