//! A `next_probe` line: a probe that the engine requests.

use serde::Deserialize;

/// A requested probe, in the names of the recording.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct NextProbe {
    r#type: String,
    /// Channel.
    pub(super) channel: String,
    /// Node of the prober.
    pub(super) node: String,
    /// Pod to connect to.
    pub(super) backend: Option<String>,
    /// Node whose prober is asked for an echo.
    pub(super) dst_node: Option<String>,
    /// Name to look up.
    pub(super) name: Option<String>,
    size: Option<u32>,
    #[serde(default)]
    tcp: bool,
    /// The assignment that the result states: `ask`, the channel, the target and the destination.
    pub(super) assignment: String,
}

impl NextProbe {
    /// Parses a line; `None` for other lines.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let probe: Self = serde_json::from_str(line).ok()?;
        (probe.r#type == "next_probe").then_some(probe)
    }

    /// Reports whether the result is evidence: those of an echo of another size and of a name over TCP are not.
    pub(super) const fn is_evidence(&self) -> bool {
        self.size.is_none() && !self.tcp
    }

    /// Returns the id of the target.
    pub(super) fn target(&self) -> Option<&str> {
        self.assignment.split('|').nth(2)
    }
}
