//! What can be said on the command line.

use std::{io::IsTerminal, time::Duration};

use clap::ValueEnum;
use parallax_model::ChallengeClient;

use crate::commands::query::ConnectionArgs;

/// Will the certificate be issued? Asks from every node what cert-manager's self check and the CA would meet.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 both verdicts pass, 1 one of them fails, 2 usage, 3 it could not run or one cannot be told.\n\
                  Without --no-create a Pod, a Service and an Ingress or HTTPRoute of its own are created with your rights, and removed again."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) instead: Option<PreflightAction>,
    #[command(flatten)]
    pub(super) asked: Request,
    /// One JSON document in place of text.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) way: ConnectionArgs,
}

/// What is done in place of asking once.
#[derive(Debug, clap::Subcommand)]
pub(super) enum PreflightAction {
    /// Make the preflights that Preflight objects ask for, until told to stop.
    Controller(super::controller::Args),
}

/// What is asked for: by the command line, or by a Preflight object.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct Request {
    /// The names; those of --certificate or --ingress where none is given.
    #[arg(value_name = "HOST", required_unless_present_any = ["certificate", "ingress"])]
    pub(super) hosts: Vec<String>,
    /// The Issuer whose solver would answer.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cluster_issuer", "class", "gateway"])]
    pub(super) issuer: Option<String>,
    /// The `ClusterIssuer` whose solver would answer.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["class", "gateway"])]
    pub(super) cluster_issuer: Option<String>,
    /// No issuer: an Ingress of this class.
    #[arg(long, value_name = "CLASS", conflicts_with = "gateway")]
    pub(super) class: Option<String>,
    /// No issuer: an `HTTPRoute` on this Gateway, as NAME or NAMESPACE/NAME.
    #[arg(long, value_name = "GATEWAY")]
    pub(super) gateway: Option<String>,
    /// A Certificate: its names, its issuer, its labels and annotations.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ingress", "issuer", "cluster_issuer", "class", "gateway"])]
    pub(super) certificate: Option<String>,
    /// An Ingress: its hosts, and the issuer that its annotations name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["issuer", "cluster_issuer", "class", "gateway"])]
    pub(super) ingress: Option<String>,
    /// Where the Certificate is or would be.
    #[arg(short, long, default_value = "default")]
    pub(super) namespace: String,
    /// Create nothing: look at the way that is there already, as far as it goes.
    #[arg(long)]
    pub(super) no_create: bool,
    /// Create also what costs money: an Ingress of a class that makes a balancer.
    #[arg(long)]
    pub(super) yes: bool,
    /// Where cert-manager would edit an Ingress that serves others: do so too, one path for as long as this takes. That
    /// Ingress is reloaded twice by its controller.
    #[arg(long, conflicts_with = "no_create")]
    pub(super) edit_in_place: bool,
    /// Fail also where it passes only because of the node that cert-manager's pod is on now.
    #[arg(long)]
    pub(super) strict: bool,
    /// Five fetches two seconds apart, as cert-manager makes them, in place of one.
    #[arg(long)]
    pub(super) faithful_timing: bool,
    /// Whose rules the CA's verdict follows.
    #[arg(long, value_enum, default_value = "boulder")]
    pub(super) profile: KnownAuthority,
    /// The name the authority goes by in CAA records, where the issuer's directory does not tell.
    #[arg(long, value_name = "NAME")]
    pub(super) caa_identity: Option<String>,
    /// How long the responder and its route may take to answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) ready: u32,
    #[command(flatten)]
    pub(super) setting: PreflightSettings,
}

/// What is the same for every preflight in a cluster.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct PreflightSettings {
    /// The image of the responder; that of the installed probers where absent.
    #[arg(long, value_name = "IMAGE")]
    pub(super) image: Option<String>,
    /// Where cert-manager runs; found by its Deployment's labels and its Lease where absent.
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) cert_manager_namespace: Option<String>,
    /// The namespace of Parallax in the cluster [default: parallax].
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) parallax_namespace: Option<String>,
    /// Another port than 80, which no real client ever asks: for laboratories.
    #[arg(long, hide = true, default_value_t = 80)]
    pub(super) port: u16,
    /// After so many seconds whoever comes next may remove what was created.
    #[arg(long, hide = true, default_value_t = 600)]
    pub(super) lifetime: u32,
}

/// An authority whose rules are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum KnownAuthority {
    /// Let's Encrypt's server.
    Boulder,
    /// Its test server.
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
    /// Whether this goes on until it is told to stop.
    pub(crate) const fn serves(&self) -> bool {
        self.instead.is_some()
    }

    /// Whether a person watches.
    pub(super) fn progress(&self) -> bool {
        !self.json && std::io::stderr().is_terminal()
    }
}

impl Request {
    /// Whether nothing can be said without a cluster.
    pub(super) const fn reads_the_cluster(&self) -> bool {
        !self.no_create
            || self.issuer.is_some()
            || self.cluster_issuer.is_some()
            || self.certificate.is_some()
            || self.ingress.is_some()
    }

    /// How long the route may take.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_secs(self.ready.into())
    }
}
