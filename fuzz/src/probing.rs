//! Real probes of servers in the same thread, over loopback sockets: the whole path from connect to observation,
//! without any interface used only by the fuzzer.

use std::{future::Future, path::PathBuf};

use parallax_model::{Assignment, FailureKind, Observation, Outcome, Phase, ReportSeq};
use parallax_prober::{ProbeContext, ProbeResult, TlsConfigs};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// Servers here always close the connection, so a probe that takes this long hangs.
const HANG_TIMEOUT_US: u64 = 15_000_000;

/// A runtime and the state shared by probes, one per thread.
pub(crate) struct ProbeHarness<S> {
    runtime: Runtime,
    context: ProbeContext,
    server: S,
}

impl<S> ProbeHarness<S> {
    pub(crate) fn new<F: Future<Output = S>>(server: impl FnOnce() -> F) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a Tokio runtime");
        let server = runtime.block_on(server());
        Self {
            runtime,
            // No resolver is ever queried: every assignment contains an address.
            context: ProbeContext::with_tls(
                PathBuf::from("/nonexistent/resolv.conf"),
                TlsConfigs::with_roots(root()),
            ),
            server,
        }
    }

    /// Runs a probe concurrently with the server, which may still run when the probe has ended.
    pub(crate) fn probe<'a, F: Future>(
        &'a self,
        assignment: &Assignment,
        serve: impl FnOnce(&'a S) -> F,
    ) -> ProbeResult {
        self.runtime.block_on(async {
            let mut probe = std::pin::pin!(parallax_prober::run(assignment, &self.context));
            tokio::select! {
                biased;
                result = &mut probe => result,
                _ = serve(&self.server) => probe.await,
            }
        })
    }

    pub(crate) const fn server(&self) -> &S {
        &self.server
    }
}

/// A root certificate whose key nobody has: handshakes are attempted and cannot succeed.
fn root() -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(include_bytes!("root.pem")).ok()
}

/// Builds an assignment that dials one address.
pub(crate) fn assignment(probe: &Value, dial: &Value) -> Assignment {
    serde_json::from_value(json!({
        "id": "fuzz", "target": "http://shop.example.test/", "channel": "vip", "probe": probe, "dial": dial,
        "interval_us": HANG_TIMEOUT_US, "timeout_us": HANG_TIMEOUT_US,
    }))
    .expect("a valid assignment")
}

/// Checks properties of every result, whatever the peer did.
pub(crate) fn check_result(result: ProbeResult) {
    if let Outcome::Failed { phase, kind, .. } = &result.outcome {
        let waited = matches!(
            kind,
            FailureKind::ConnectTimeout
                | FailureKind::FirstByteTimeout
                | FailureKind::TlsTimeout
                | FailureKind::BodyStalled
                | FailureKind::ResolveTimeout
        );
        assert!(
            !waited,
            "the server has closed the connection and the probe still waits in {phase}"
        );
    }
    let times = result.times;
    let parts = Phase::ALL
        .iter()
        .map(|phase| times.get(*phase))
        .chain([times.second_request]);
    let sum: u64 = parts.flatten().map(|time| time.0).sum();
    assert_eq!(
        Some(sum),
        times.total.map(|total| total.0),
        "the phases add up to the total"
    );
    if let Some(detail) = &result.detail {
        assert!(
            detail.chars().count() <= 300 && !detail.contains(char::is_control),
            "{detail:?}"
        );
    }
    let observation = result.into_observation(ReportSeq(1));
    let written = serde_json::to_string(&observation).expect("an observation can be serialized");
    assert!(!written.contains('\n'), "not one line: {written}");
    let read: Observation = serde_json::from_str(&written).expect("a serialized observation can be parsed");
    assert_eq!(read, observation);
}
