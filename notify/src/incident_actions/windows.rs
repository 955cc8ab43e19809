//! Maintenance windows.

use parallax_api::incident_actions::{MaintenanceWindow, WindowRequest};
use parallax_history::store::DocumentKind;
use parallax_model::{EventTime, Micros, TargetId};

use super::{ActionError, ActionManager, document::VersionedAction, span};

/// Maximum number of maintenance windows.
const WINDOWS: usize = 500;

impl ActionManager {
    /// Opens a maintenance window.
    pub async fn open(&self, by: &str, request: WindowRequest) -> Result<MaintenanceWindow, ActionError> {
        self.ready().await;
        if request
            .targets
            .as_deref()
            .is_some_and(|targets| targets.trim().is_empty())
        {
            return Err(ActionError::NoTargets);
        }
        let mark = self.mark(by, request.note)?;
        let from = request.from.unwrap_or(mark.at);
        let window = MaintenanceWindow {
            id: format!("m-{:08x}", parallax_runtime::random() >> 32),
            from,
            until: from.plus(span("for_s", request.for_s)?),
            targets: request.targets,
            mark,
            persisted: false,
        };
        let now = self.clock.now();
        let entry = VersionedAction {
            changed: now,
            value: window,
        };
        let number = {
            let mut inner = self.inner.lock();
            inner.sheet.tidy(now);
            if inner.sheet.windows.len() >= WINDOWS {
                return Err(ActionError::Full);
            }
            inner.sheet.windows.insert(entry.value.id.clone(), entry.clone());
            inner.changed()
        };
        Ok(self.keep_window(number, entry).await)
    }

    /// Ends a window early.
    pub async fn end(&self, id: &str, by: &str) -> Result<MaintenanceWindow, ActionError> {
        self.ready().await;
        let mark = self.mark(by, None)?;
        let (number, entry) = {
            let mut inner = self.inner.lock();
            let number = inner.changed();
            let entry = inner
                .sheet
                .windows
                .get_mut(id)
                .ok_or_else(|| ActionError::NoWindow(id.to_owned()))?;
            entry.changed = mark.at.max(entry.changed.plus(Micros(1)));
            entry.value.until = entry.value.until.min(mark.at);
            entry.value.persisted = false;
            (number, entry.clone())
        };
        Ok(self.keep_window(number, entry).await)
    }

    async fn keep_window(&self, number: u64, entry: VersionedAction<MaintenanceWindow>) -> MaintenanceWindow {
        let VersionedAction {
            changed,
            value: mut window,
        } = entry;
        window.persisted = self
            .put(DocumentKind::Window, &window.id, (changed, number), &window)
            .await;
        if window.persisted {
            let mut inner = self.inner.lock();
            let known = inner.sheet.windows.get_mut(&window.id);
            if let Some(known) = known.filter(|known| known.changed == changed) {
                known.value.persisted = true;
            }
        }
        window
    }

    /// Windows that have not ended, the earliest first.
    pub fn windows(&self) -> Vec<MaintenanceWindow> {
        let now = self.clock.now();
        let inner = self.inner.lock();
        let windows = inner.sheet.windows.values().map(|entry| &entry.value);
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
