//! The role of a prober.

/// The role of a prober.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// Probes, reports and serves the echo.
    #[default]
    Prober,
    /// Serves the echo only: a second Pod on a node, which other probers reach through a Service. It sends no reports.
    Responder,
}
