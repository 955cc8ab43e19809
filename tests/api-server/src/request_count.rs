//! The number of requests, and from which on they get no response.

/// Requests and their responses. Watches do not count.
#[derive(Debug, Default)]
pub(crate) struct RequestCount {
    pub(crate) started: usize,
    /// Number of requests that get a response; `None` for all.
    pub(crate) answered: Option<usize>,
    /// Whether the response of the request after those was lost.
    pub(crate) lost: bool,
}
