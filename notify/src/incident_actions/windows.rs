//! Maintenance windows.

use parallax_api::incident_actions::{MaintenanceWindow, WindowRequest};
use parallax_history::store::DocumentKind;
use parallax_model::{EventTime, Micros, TargetId};

use super::{ActionError, ActionManager, document::VersionedAction, parse_duration};

/// Maximum number of maintenance windows.
const MAX_WINDOWS: usize = 500;

impl ActionManager {
    /// Opens a maintenance window.
    pub async fn open_window(
        &self,
        by: &str,
        request: WindowRequest,
    ) -> Result<MaintenanceWindow, ActionError> {
        self.wait_until_ready().await;
        if request
            .targets
            .as_deref()
            .is_some_and(|targets| targets.trim().is_empty())
        {
            return Err(ActionError::EmptyTargetFilter);
        }
        let mark = self.signed_note(by, request.note)?;
        let from = request.from.unwrap_or(mark.at);
        let window = MaintenanceWindow {
            id: format!("m-{:08x}", parallax_runtime::random() >> 32),
            from,
            until: from.plus(parse_duration("duration_s", request.duration_s)?),
            targets: request.targets,
            author: mark,
            persisted: false,
        };
        let now = self.clock.now();
        let entry = VersionedAction {
            changed_at: now,
            value: window,
        };
        let number = {
            let mut inner = self.inner.lock();
            inner.document.prune(now);
            if inner.document.windows.len() >= MAX_WINDOWS {
                return Err(ActionError::TooManyWindows);
            }
            inner
                .document
                .windows
                .insert(entry.value.id.clone(), entry.clone());
            inner.next_change_number()
        };
        Ok(self.persist_window(number, entry).await)
    }

    /// Ends a window early.
    pub async fn end_window(&self, id: &str, by: &str) -> Result<MaintenanceWindow, ActionError> {
        self.wait_until_ready().await;
        let mark = self.signed_note(by, None)?;
        let (number, entry) = {
            let mut inner = self.inner.lock();
            let number = inner.next_change_number();
            let entry = inner
                .document
                .windows
                .get_mut(id)
                .ok_or_else(|| ActionError::UnknownWindow(id.to_owned()))?;
            entry.changed_at = mark.at.max(entry.changed_at.plus(Micros(1)));
            entry.value.until = entry.value.until.min(mark.at);
            entry.value.persisted = false;
            (number, entry.clone())
        };
        Ok(self.persist_window(number, entry).await)
    }

    async fn persist_window(
        &self,
        number: u64,
        entry: VersionedAction<MaintenanceWindow>,
    ) -> MaintenanceWindow {
        let VersionedAction {
            changed_at: changed,
            value: mut window,
        } = entry;
        window.persisted = self
            .persist(
                DocumentKind::MaintenanceWindow,
                &window.id,
                (changed, number),
                &window,
            )
            .await;
        if window.persisted {
            let mut inner = self.inner.lock();
            let known = inner.document.windows.get_mut(&window.id);
            if let Some(known) = known.filter(|known| known.changed_at == changed) {
                known.value.persisted = true;
            }
        }
        window
    }

    /// Windows that have not ended, the earliest first.
    pub fn windows(&self) -> Vec<MaintenanceWindow> {
        let now = self.clock.now();
        let inner = self.inner.lock();
        let windows = inner.document.windows.values().map(|entry| &entry.value);
        let mut windows: Vec<_> = windows.filter(|window| now < window.until).cloned().collect();
        windows.sort_by(|a, b| a.from.cmp(&b.from).then_with(|| a.id.cmp(&b.id)));
        windows
    }
}

/// Whether a window covers an incident with these targets. A window for some targets does not cover an incident with
/// other targets among its own, nor one without targets, such as a node's.
pub(super) fn covers(window: &MaintenanceWindow, targets: &[TargetId], now: EventTime) -> bool {
    let meant = window.targets.as_deref().is_none_or(|text| {
        !targets.is_empty() && targets.iter().all(|target| target.as_str().contains(text))
    });
    (window.from..window.until).contains(&now) && meant
}
