//! Command-line arguments.

use std::{io::IsTerminal, time::Duration};

use clap::ValueEnum;
use parallax_model::ChallengeClient;

use crate::commands::query::ConnectionArgs;

/// Test whether a certificate will be issued: fetch the challenge from every node by the rules of cert-manager and
/// of the CA.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 both verdicts pass, 1 one verdict fails, 2 usage error, 3 the preflight could not run or one verdict is unknown.\n\
                  Unless --no-create is given, creates a Pod, a Service and an Ingress or HTTPRoute with your permissions, and removes them."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) action: Option<PreflightAction>,
    #[command(flatten)]
    pub(super) request: Request,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub(super) enum PreflightAction {
    /// Run the preflights that Preflight objects request, until interrupted.
    Controller(super::controller::Args),
}

/// The request: from the command line, or from a Preflight object.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct Request {
    /// The host names [default: those of --certificate or --ingress].
    #[arg(value_name = "HOST", required_unless_present_any = ["certificate", "ingress"])]
    pub(super) hosts: Vec<String>,
    /// Use the solvers of this Issuer.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cluster_issuer", "class", "gateway"])]
    pub(super) issuer: Option<String>,
    /// Use the solvers of this `ClusterIssuer`.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["class", "gateway"])]
    pub(super) cluster_issuer: Option<String>,
    /// Use no issuer, but an Ingress of this class.
    #[arg(long, value_name = "CLASS", conflicts_with = "gateway")]
    pub(super) class: Option<String>,
    /// Use no issuer, but an `HTTPRoute` on this Gateway (NAME or NAMESPACE/NAME).
    #[arg(long, value_name = "GATEWAY")]
    pub(super) gateway: Option<String>,
    /// Take host names, issuer, labels and annotations from this Certificate.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ingress", "issuer", "cluster_issuer", "class", "gateway"])]
    pub(super) certificate: Option<String>,
    /// Take host names and issuer from this Ingress and its annotations.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["issuer", "cluster_issuer", "class", "gateway"])]
    pub(super) ingress: Option<String>,
    /// The namespace of the Certificate, existing or future.
    #[arg(short, long, default_value = "default")]
    pub(super) namespace: String,
    /// Create nothing: test the existing path only, as far as it goes.
    #[arg(long)]
    pub(super) no_create: bool,
    /// Also create an Ingress of a class that provisions a load balancer, which costs money.
    #[arg(long)]
    pub(super) yes: bool,
    /// If cert-manager would edit an existing Ingress in place, do so too: insert one path for the duration of the
    /// test. The ingress controller reloads twice.
    #[arg(long, conflicts_with = "no_create")]
    pub(super) edit_in_place: bool,
    /// Also fail if the self check passes only because of the node on which cert-manager's Pod runs now.
    #[arg(long)]
    pub(super) strict: bool,
    /// Make five fetches, two seconds apart, as cert-manager does, instead of one.
    #[arg(long)]
    pub(super) faithful_timing: bool,
    /// The CA whose rules the CA verdict follows.
    #[arg(long, value_enum, default_value = "boulder")]
    pub(super) profile: KnownAuthority,
    /// The CA's identity in CAA records, if the issuer's directory does not determine it.
    #[arg(long, value_name = "NAME")]
    pub(super) caa_identity: Option<String>,
    /// How long to wait for the responder and its route, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) ready: u32,
    #[command(flatten)]
    pub(super) settings: PreflightSettings,
}

/// Settings that are the same for every preflight in a cluster.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct PreflightSettings {
    /// The image of the responder [default: that of the DaemonSet parallax-prober].
    #[arg(long, value_name = "IMAGE")]
    pub(super) image: Option<String>,
    /// The namespace of cert-manager [default: found by its Deployment's labels and its Lease].
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) cert_manager_namespace: Option<String>,
    /// The namespace of Parallax in the cluster [default: parallax].
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) parallax_namespace: Option<String>,
    /// The port to fetch from. Real clients use 80 only; others are for test environments.
    #[arg(long, hide = true, default_value_t = 80)]
    pub(super) port: u16,
    /// The time in seconds after which any preflight may remove the created objects.
    #[arg(long, hide = true, default_value_t = 600)]
    pub(super) lifetime: u32,
}

/// A CA with known rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum KnownAuthority {
    /// Let's Encrypt's server.
    Boulder,
    /// Let's Encrypt's test server.
    Pebble,
}

impl From<KnownAuthority> for ChallengeClient {
    fn from(authority: KnownAuthority) -> Self {
        match authority {
            KnownAuthority::Boulder => Self::Boulder,
            KnownAuthority::Pebble => Self::Pebble,
        }
    }
}

impl Args {
    /// Reports whether the command runs until it is stopped.
    pub(crate) const fn is_server(&self) -> bool {
        self.action.is_some()
    }

    /// Reports whether stderr is a terminal that shows progress.
    pub(super) fn shows_progress(&self) -> bool {
        !self.json && std::io::stderr().is_terminal()
    }
}

impl Request {
    /// Reports whether the request requires access to a cluster.
    pub(super) const fn requires_cluster(&self) -> bool {
        !self.no_create
            || self.issuer.is_some()
            || self.cluster_issuer.is_some()
            || self.certificate.is_some()
            || self.ingress.is_some()
    }

    /// Returns how long to wait for the route.
    pub(super) fn ready_timeout(&self) -> Duration {
        Duration::from_secs(self.ready.into())
    }
}
