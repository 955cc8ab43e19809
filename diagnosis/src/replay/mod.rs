//! Replays a recorded stream line by line: the same engine, the same bytes, on any machine.
//!
//! The `type` of a line tells the two formats apart:
//! * trials, `topology` / `obs` / `end`: independent recordings of one target, any number per file;
//! * Parallax's own recordings, `settings` / `settings_changed` / `topology_spec` / `topology_unread` / `baseline_reset` /
//!   `restored` / `observation` / `implausible` / `progress` / `advance` / `gap` ([`RecordLine`]), in one file or in several
//!   segments.
//!
//! Output is one JSON object per line: `verdict`, `unexplained`, `next_probe`, `malformed`, `gap`, and `trial` at the
//! end of each recording. A `next_probe` line requests one follow-up probe; a caller that can make it writes its
//! outcome into the recording, with the line's `assignment`.

mod lines;
mod output;
mod record;
mod trial;

use parallax_model::EventTime;
use serde_json::Value;

use crate::view::View;

pub use lines::{
    RecordBaselineReset, RecordClock, RecordImplausible, RecordLine, RecordProgress, RecordRestored,
    RecordSettings, RecordSettingsChanged, RecordTopology, RecordTopologyUnread,
};

use output::{OutputLine, RecordCounts};
use record::RecordingReader;
use trial::TrialReader;

/// Version of the engine's judgement. It increases whenever the same stream may lead to other incidents:
///
/// 1. Each subject is judged alone. Recordings of this version state none.
/// 2. Paths have several hops, and subjects are judged beside the causes that others named.
/// 3. A known cause explains failures from its beginning to its end only, and balancers may avoid a node that fails. A fault
///    that came back once is over soon after the length of its pause.
/// 4. A further fault may begin after the known causes.
/// 5. A verdict of a host waits for a cause that its address or the network finds possible.
/// 6. A region that an incident names together with others stays in it until it is improbable, and a lookup may take the questions
///    of a search list.
/// 7. Single questions count apart from lookups, unanswered echoes to a silent prober count once it did not restart, and names are judged
///    after addresses.
/// 8. A client that fails may reach the Pods of its own node, failures of a client that go on for rounds are no
///    stall, and an echo to a Pod that is no longer the prober of its node is no evidence.
/// 9. A fault that lasts is not its own background, a host knows the links from its entries to its origins, and a region that many
///    reports confirmed is replaced only after several reports in a row.
/// 10. Known causes are selected beside the further fault, too, the search for several faults starts from what incidents name, and
///     cells with share zero count as unaffected.
/// 11. A wrong certificate is no loss of packets, and the fault of its only host, not of the address. Other subjects count from the
///     onset of a further fault, two known causes may have separate rates, what any incident names is compared as a whole, and a
///     fault beside known causes needs a probability of 0.99.
/// 12. A named cause between nodes reaches an address over the origins of its hosts, whichever they are, and where it does not fail,
///     it does not count against another one. Failures without a verdict are investigated until they have ceased for longer than they
///     pause, and a host needs a ready endpoint.
/// 13. Connections to a front support faults of the front in the judgement of its hosts, and a host knows the clients of a zone
///     if connections to its front fail.
///     A refused PROXY header says nothing about a front that works without one for any probe of the client.
/// 14. A port with which other clients speak TLS does not lack it. Regions that only their priors separate are named together.
///     An unknown address may be cached from before the first round.
/// 15. The TTL of a cache is known after a period of answers that is longer. A cause that fails seldom begins before its quiet rounds,
///     the evidence of other subjects counts for a suspected cause, and a subject that decides a tie opens no other incident.
/// 16. Tied endpoints are named together with the region of all of them, and endpoints that fail seldom once this has lasted. A host
///     knows the links of the nodes of its entries and origins. A failed control that an open incident explains is no sign of a stall.
/// 17. An open incident that names a region of a tie names the tie, a subject that recovers forgets since when it has waited, only a
///     cause that echoes show explains a failed echo, and a further fault needs as much evidence as the only one.
/// 18. An uncertain verdict of the mesh waits for a second round, and a seldom fault that is not between nodes until it has lasted.
///     A target narrows no tie to regions that leave failures of a nearer member unexplained.
/// 19. A verdict waits for a subject that has just begun to suspect a cause and for a node whose prober is silent, compared beside
///     what the subject has named. A wider region beside a named one waits for two further rounds.
/// 20. Queries that a prober loses while it runs late are no symptom.
pub const ENGINE_VERSION: u32 = 20;

/// Reads a stream and reports the engine's events as lines of JSON.
#[derive(Debug, Default)]
pub struct Replay {
    open: OpenRecording,
    /// Malformed lines outside any recording; the next recording reports them.
    malformed: u64,
    recordings: u64,
}

#[derive(Debug, Default)]
enum OpenRecording {
    #[default]
    None,
    Trial(Box<TrialReader>),
    Recording(Box<RecordingReader>),
}

impl Replay {
    /// Creates a reader.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one line of input; `number` identifies it in error reports. Malformed lines are counted, reported and
    /// skipped. Lines of unknown type come from a newer version and are skipped.
    pub fn read_line(&mut self, number: usize, text: &str) -> Vec<String> {
        let mut out = Vec::new();
        if text.trim().is_empty() {
            return out;
        }
        if let Err(reason) = self.read_entry(text, &mut out) {
            match &mut self.open {
                OpenRecording::None => self.malformed += 1,
                OpenRecording::Trial(trial) => trial.counts.malformed += 1,
                OpenRecording::Recording(recording) => recording.counts.malformed += 1,
            }
            out.push(OutputLine::Malformed { line: number, reason }.write());
        }
        out
    }

    /// Returns the engine's view at `now` while one of Parallax's own recordings is being read.
    #[must_use]
    pub fn view(&self, now: EventTime) -> Option<View> {
        match &self.open {
            OpenRecording::Recording(recording) => recording.view(now),
            OpenRecording::None | OpenRecording::Trial(_) => None,
        }
    }

    /// Advances the clock of a trial to `seconds` without a line: rounds that are over are judged. A caller that
    /// answers `next_probe` lines calls this at the end of a round; otherwise the answers arrive one round later than
    /// in a running mesh.
    pub fn advance_to(&mut self, seconds: f64) -> Vec<String> {
        let mut out = Vec::new();
        if let OpenRecording::Trial(trial) = &mut self.open {
            trial.advance_to(seconds, &mut out);
        }
        out
    }

    /// Finishes the open recording, if any. Call it at the end of the input.
    pub fn finish(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        self.close(&mut out);
        out
    }

    fn close(&mut self, out: &mut Vec<String>) {
        match std::mem::take(&mut self.open) {
            OpenRecording::None => {}
            OpenRecording::Trial(trial) => trial.finish(out),
            OpenRecording::Recording(recording) => recording.finish(out),
        }
    }

    fn read_entry(&mut self, text: &str, out: &mut Vec<String>) -> Result<(), String> {
        let value: Value = serde_json::from_str(text).map_err(|e| format!("not valid JSON: {e}"))?;
        let kind = value
            .get("type")
            .and_then(Value::as_str)
            .ok_or("the line has no \"type\"")?
            .to_owned();
        match kind.as_str() {
            "topology" => {
                let topology = trial::TopologyLine::read(value)?;
                match &mut self.open {
                    OpenRecording::Trial(trial) if trial.has_id_of(&topology) => trial.replace(topology),
                    _ => {
                        let trial = TrialReader::new(topology, std::mem::take(&mut self.malformed))?;
                        self.close(out);
                        self.open = OpenRecording::Trial(Box::new(trial));
                        Ok(())
                    }
                }
            }
            "obs" | "end" => match &mut self.open {
                OpenRecording::Trial(trial) if kind == "obs" => trial.observe(value, out),
                OpenRecording::Trial(_) => {
                    self.close(out);
                    Ok(())
                }
                _ => Err(format!("{kind:?} before any \"topology\"")),
            },
            "settings" => {
                let settings = RecordingReader::parse_settings(value)?;
                if let OpenRecording::Recording(recording) = &mut self.open
                    && recording.continues(&settings)
                {
                    return Ok(());
                }
                let malformed = std::mem::take(&mut self.malformed);
                let statement = OutputLine::Engine {
                    trial: self.recordings,
                    recorded: settings.engine,
                    judged: ENGINE_VERSION,
                };
                let is_other = settings.engine != Some(ENGINE_VERSION);
                let recording = RecordingReader::new(settings, self.recordings, malformed);
                self.recordings += 1;
                self.close(out);
                if is_other {
                    out.push(statement.write());
                }
                self.open = OpenRecording::Recording(Box::new(recording));
                Ok(())
            }
            "settings_changed" | "topology_spec" | "topology_unread" | "restored" | "baseline_reset"
            | "observation" | "implausible" | "progress" | "advance" | "gap" => match &mut self.open {
                OpenRecording::Recording(recording) => recording.read_entry(&kind, value, out),
                _ => Err(format!("{kind:?} before any \"settings\"")),
            },
            _ => Ok(()),
        }
    }
}
