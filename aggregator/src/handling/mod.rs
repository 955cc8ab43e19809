//! What people do about incidents: acknowledge, silence for a time, announce maintenance, ask whether a fix works. Who
//! did it and when is part of it.
//!
//! None of it changes a judgement: an incident closes on evidence alone. A silenced or acknowledged one is still open
//! and still shown; it only calls nobody.

pub mod api;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parallax_model::{EventTime, Micros, RunId, TargetId};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

use api::{Handling, Mark, Silence, Verification, Window, WindowRequest};

use crate::{
    clock::Clock,
    store::{AskError, Document, Paper, StoreHandle},
};

/// Longest text that goes with what somebody does, in characters.
const NOTE: usize = 500;
/// Shortest and longest silence or window, in seconds: a minute, thirty days.
const SPAN_S: (u64, u64) = (60, 30 * 86_400);
/// Incidents with a handling, and windows, in memory.
const MOST: usize = 2_000;
/// Time between two attempts to read what a former life left.
const AGAIN: Duration = Duration::from_secs(5);

/// Something that cannot be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotDone {
    #[error("{field}: expected {low} to {high} seconds (a minute to thirty days), found {found}")]
    Span {
        field: &'static str,
        low: u64,
        high: u64,
        found: u64,
    },
    #[error("note: expected at most {NOTE} characters, found {0}")]
    Note(usize),
    #[error("targets: expected a part of a target's URL, found nothing")]
    NoTargets,
    #[error("no maintenance window has the id {0:?}; `parallax maintenance list` shows them")]
    NoWindow(String),
    #[error("too many incidents and windows are kept; end some windows first")]
    Full,
}

/// Whether somebody has dealt with an incident, so that it calls nobody any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    None,
    Acknowledged,
    Silenced,
    Maintenance,
}

impl Standing {
    /// The word in texts and metric labels.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Acknowledged => "acknowledged",
            Self::Silenced => "silenced",
            Self::Maintenance => "maintenance",
        }
    }
}

/// What people did, in memory and in the store.
#[derive(Debug)]
pub(crate) struct Desk {
    clock: Clock,
    store: StoreHandle,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    handled: BTreeMap<String, Handling>,
    windows: BTreeMap<String, Window>,
}

impl Desk {
    pub(crate) fn new(clock: Clock, store: StoreHandle) -> Self {
        Self {
            clock,
            store,
            inner: Mutex::default(),
        }
    }

    /// Reads what a former life left, as soon as the store can say; what was done since stands.
    pub(crate) async fn run(self: Arc<Self>, cancelled: CancellationToken) {
        loop {
            let asked = tokio::select! {
                () = cancelled.cancelled() => return,
                asked = self.store.ask(|store| {
                    Ok((store.documents(Paper::Handling, MOST)?, store.documents(Paper::Window, MOST)?))
                }) => asked,
            };
            match asked {
                Ok((handled, windows)) => {
                    let mut inner = self.inner.lock();
                    for (id, handling) in read(handled) {
                        inner.handled.entry(id).or_insert(handling);
                    }
                    for (id, window) in read(windows) {
                        inner.windows.entry(id).or_insert(window);
                    }
                    return;
                }
                Err(AskError::Off) => return,
                Err(AskError::Down(_) | AskError::Slow) => {}
            }
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }

    /// How an incident is handled; nothing where nobody did anything.
    pub(crate) fn of(&self, incident: &str) -> Option<Handling> {
        self.inner.lock().handled.get(incident).cloned()
    }

    /// Why nobody is to be called for an incident at present, in words.
    pub(crate) fn quiet(&self, incident: &str, targets: &[TargetId]) -> Option<String> {
        let (standing, by) = self.because(incident, targets)?;
        Some(format!("{} by {by}", standing.label()))
    }

    /// Whether somebody has dealt with an incident.
    pub(crate) fn standing(&self, incident: &str, targets: &[TargetId]) -> Standing {
        self.because(incident, targets)
            .map_or(Standing::None, |(standing, _)| standing)
    }

    /// What keeps an incident quiet, and who did it.
    fn because(&self, incident: &str, targets: &[TargetId]) -> Option<(Standing, String)> {
        let now = self.clock.now();
        let inner = self.inner.lock();
        if let Some(handling) = inner.handled.get(incident) {
            if let Some(silence) = handling.silenced.as_ref().filter(|silence| now < silence.until) {
                return Some((Standing::Silenced, silence.mark.by.clone()));
            }
            if let Some(mark) = &handling.acknowledged {
                return Some((Standing::Acknowledged, mark.by.clone()));
            }
        }
        inner
            .windows
            .values()
            .find(|window| window.covers(targets, now))
            .map(|window| (Standing::Maintenance, window.mark.by.clone()))
    }

    fn mark(&self, by: &str, note: Option<String>) -> Result<Mark, NotDone> {
        let note = note
            .map(|note| note.trim().to_owned())
            .filter(|note| !note.is_empty());
        if let Some(length) = note
            .as_ref()
            .map(|note| note.chars().count())
            .filter(|length| *length > NOTE)
        {
            return Err(NotDone::Note(length));
        }
        Ok(Mark {
            by: by.to_owned(),
            at: self.clock.now(),
            note: note.map(|note| {
                note.chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .collect()
            }),
        })
    }

    fn change(&self, incident: &str, change: impl FnOnce(&mut Handling)) -> Result<Handling, NotDone> {
        let mut inner = self.inner.lock();
        if !inner.handled.contains_key(incident) && inner.handled.len() >= MOST {
            return Err(NotDone::Full);
        }
        let handling = inner.handled.entry(incident.to_owned()).or_default();
        change(handling);
        Ok(handling.clone())
    }

    /// Somebody has seen it.
    pub(crate) async fn acknowledge(
        &self,
        incident: &str,
        by: &str,
        note: Option<String>,
    ) -> Result<Handling, NotDone> {
        let mark = self.mark(by, note)?;
        let handling = self.change(incident, |handling| handling.acknowledged = Some(mark))?;
        Ok(self.kept(incident, handling).await)
    }

    /// Nobody is called for so long.
    pub(crate) async fn silence(
        &self,
        incident: &str,
        by: &str,
        seconds: u64,
        note: Option<String>,
    ) -> Result<Handling, NotDone> {
        let mark = self.mark(by, note)?;
        let until = mark.at.plus(span("for_s", seconds)?);
        let silence = Silence { mark, until };
        let handling = self.change(incident, |handling| handling.silenced = Some(silence))?;
        Ok(self.kept(incident, handling).await)
    }

    /// A silence is over before its time.
    pub(crate) async fn unsilence(&self, incident: &str, by: &str) -> Result<Handling, NotDone> {
        let mark = self.mark(by, None)?;
        let handling = self.change(incident, |handling| {
            if let Some(silence) = &mut handling.silenced {
                silence.until = silence.until.min(mark.at);
                silence.mark.note = Some(format!("ended by {}", mark.by));
            }
        })?;
        Ok(self.kept(incident, handling).await)
    }

    /// Somebody asks whether a fix works; the run says.
    pub(crate) async fn verify(&self, incident: &str, by: &str, run: RunId) -> Result<Handling, NotDone> {
        let mark = self.mark(by, None)?;
        let verification = Verification {
            mark,
            run,
            outcome: None,
        };
        let handling = self.change(incident, |handling| handling.verified = Some(verification))?;
        Ok(self.kept(incident, handling).await)
    }

    /// A window of maintenance.
    pub(crate) async fn open(&self, by: &str, request: WindowRequest) -> Result<Window, NotDone> {
        if request
            .targets
            .as_deref()
            .is_some_and(|targets| targets.trim().is_empty())
        {
            return Err(NotDone::NoTargets);
        }
        let mark = self.mark(by, request.note)?;
        let from = request.from.unwrap_or(mark.at);
        let window = Window {
            id: format!("m-{:08x}", crate::aggregator::random() >> 32),
            from,
            until: from.plus(span("for_s", request.for_s)?),
            targets: request.targets,
            mark,
            persisted: false,
        };
        let mut window = {
            let mut inner = self.inner.lock();
            let now = self.clock.now();
            inner.windows.retain(|_, window| now < window.until);
            if inner.windows.len() >= MOST {
                return Err(NotDone::Full);
            }
            inner.windows.insert(window.id.clone(), window.clone());
            window
        };
        window.persisted = self.put(Paper::Window, &window.id, &window).await;
        Ok(window)
    }

    /// Ends a window before its time.
    pub(crate) async fn end(&self, id: &str, by: &str) -> Result<Window, NotDone> {
        let mark = self.mark(by, None)?;
        let mut window = {
            let mut inner = self.inner.lock();
            let window = inner
                .windows
                .get_mut(id)
                .ok_or_else(|| NotDone::NoWindow(id.to_owned()))?;
            window.until = window.until.min(mark.at);
            window.clone()
        };
        window.persisted = self.put(Paper::Window, id, &window).await;
        Ok(window)
    }

    /// Windows that are not over, the soonest first.
    pub(crate) fn windows(&self) -> Vec<Window> {
        let now = self.clock.now();
        let inner = self.inner.lock();
        let mut windows: Vec<_> = inner
            .windows
            .values()
            .filter(|window| now < window.until)
            .cloned()
            .collect();
        windows.sort_by(|a, b| a.from.cmp(&b.from).then_with(|| a.id.cmp(&b.id)));
        windows
    }

    async fn kept(&self, incident: &str, mut handling: Handling) -> Handling {
        handling.persisted = self.put(Paper::Handling, incident, &handling).await;
        handling
    }

    /// Whether it outlives a restart.
    async fn put(&self, sort: Paper, id: &str, value: &impl Serialize) -> bool {
        let Ok(value) = serde_json::to_value(value) else {
            return false;
        };
        let document = Document {
            sort,
            id: id.to_owned(),
            at: self.clock.now(),
            value,
        };
        let put = self.store.ask(move |store| store.put(&document)).await;
        if let Err(error) = &put
            && !matches!(error, AskError::Off)
        {
            tracing::warn!(%error, id, "what somebody did about an incident is in memory only");
        }
        put.is_ok()
    }
}

fn span(field: &'static str, seconds: u64) -> Result<Micros, NotDone> {
    let (low, high) = SPAN_S;
    if (low..=high).contains(&seconds) {
        Ok(Micros::from_secs(seconds))
    } else {
        Err(NotDone::Span {
            field,
            low,
            high,
            found: seconds,
        })
    }
}

/// Documents of another version that this one cannot read are left where they are.
fn read<T: DeserializeOwned>(documents: Vec<Document>) -> impl Iterator<Item = (String, T)> {
    documents
        .into_iter()
        .filter_map(|document| Some((document.id, serde_json::from_value(document.value).ok()?)))
}

impl Window {
    fn covers(&self, targets: &[TargetId], now: EventTime) -> bool {
        let meant = |target: &TargetId| {
            self.targets
                .as_deref()
                .is_none_or(|text| target.as_str().contains(text))
        };
        // What fails besides the announced is nobody's maintenance.
        (self.from..self.until).contains(&now) && !targets.is_empty() && targets.iter().all(meant)
    }
}
