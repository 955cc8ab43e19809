//! The HTTP proxy between the probers and a target outside the cluster. The front of such a target is the proxy's address;
//! the failure kinds tell the proxy's failures from those of the target behind it.

use parallax_model::{FailureKind, ProbeSpec};

use super::{Cause, CauseContext, SERVER_REGIONS, Wording, host_and_port, remedy};

const UNUSABLE: &[FailureKind] = &[
    FailureKind::ProxyUnresolved,
    FailureKind::ProxyRefused,
    FailureKind::ProxyUnreachable,
    FailureKind::ProxyTimeout,
    FailureKind::ProxyClosed,
];
const DENIED: &[FailureKind] = &[FailureKind::ProxyDenied];
const UNAUTHORISED: &[FailureKind] = &[FailureKind::ProxyAuthentication];

/// No other cause produces these kinds, so they decide alone.
const CERTAIN: f64 = 100.0;

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P18",
        title: "the HTTP proxy does not work",
        regions: SERVER_REGIONS,
        profile: |_| [4.0, 4.0, 2.0, 2.0, 0.1, 0.1, 0.1, 0.1, 0.1, 2.0],
        weight: |s| CERTAIN * s.share_of_kinds(UNUSABLE),
        mechanism: |s| {
            Wording::new(s)
                .add("the HTTP proxy that the target is probed through does not accept connections or closes them")
                .add(", so nothing is known about the target itself")
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "check the proxy: whether it runs, listens on the port of httpProxy, and accepts the probers as clients",
                    proxy_command(s),
                    "none (read-only)",
                )
                .with_ineffective_when("a firewall or NetworkPolicy between the probers and the proxy drops the connections"),
            ]
        },
    },
    Cause {
        id: "P19",
        title: "the HTTP proxy refuses a tunnel to the target",
        regions: SERVER_REGIONS,
        profile: |_| [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 6.0, 6.0, 0.1, 0.1],
        weight: |s| CERTAIN * s.share_of_kinds(DENIED),
        mechanism: |s| {
            Wording::new(s)
                .add(
                    "the HTTP proxy answers, but opens no tunnel to the target: it forbids the host, or cannot reach it",
                )
                .clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "read the proxy's log for the host: 403 means that a rule forbids it, 502 to 504 that the proxy cannot \
                     reach it",
                    proxy_command(s),
                    "none (read-only)",
                )
                .with_ineffective_when("the proxy itself uses another proxy, whose log then has the reason"),
            ]
        },
    },
    Cause {
        id: "P21",
        title: "the HTTP proxy rejects the probers' credential",
        regions: SERVER_REGIONS,
        profile: |_| [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 8.0, 0.1, 0.1, 0.1],
        weight: |s| CERTAIN * s.share_of_kinds(UNAUTHORISED),
        mechanism: |s| {
            Wording::new(s)
                .add("the HTTP proxy requires authentication (407) and rejects the probers' credential or their lack of one")
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "set proxyCredential for the target, or replace the password in the Secret that it names",
                    None,
                    "probers read a changed Secret with the next probe, once the kubelet has updated the volume",
                )
                .with_ineffective_when("the proxy supports neither basic nor bearer authentication"),
            ]
        },
    },
];

/// A command that shows how the proxy answers for the target.
fn proxy_command(s: &CauseContext<'_>) -> Option<String> {
    let ProbeSpec::Http(probe) = &s.target?.probe else {
        return None;
    };
    Some(format!(
        "curl -sSI --max-time 5 --proxy http://{} {}://{}/",
        probe.proxy.as_ref()?.url.authority(),
        probe.scheme,
        host_and_port(probe.host.as_str(), probe.port)
    ))
}
