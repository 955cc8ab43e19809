//! `parallax solver`: responds to one challenge, as cert-manager's own solver does.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
};
use parallax_model::CHALLENGE_PATH;
use tokio::net::TcpListener;

use crate::exit::Failure;

/// Respond to one ACME challenge. Runs in the Pod that a preflight creates.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The port to listen on.
    #[arg(long, value_name = "PORT", default_value_t = 8089)]
    listen_port: u16,
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    listen_address: std::net::IpAddr,
    /// The host name of the challenge; other hosts get a 404.
    #[arg(long)]
    domain: String,
    /// The token of the challenge. Base64url may start with a hyphen.
    #[arg(long, allow_hyphen_values = true)]
    token: String,
    /// The key authorization to respond with.
    #[arg(long, allow_hyphen_values = true)]
    key: String,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    super::query::block_on(async {
        let stop = super::stop_on_signal()?;
        let address = SocketAddr::new(args.listen_address, args.listen_port);
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| Failure::Indeterminate(format!("cannot listen on {address}: {error}")))?;
        let bound = listener.local_addr().map_err(Failure::indeterminate)?;
        super::print(&format!("responding for {} on {bound}\n", args.domain))?;
        let router = Router::new().fallback(respond).with_state(Arc::new(args));
        axum::serve(listener, router)
            .with_graceful_shutdown(stop.cancelled_owned())
            .await
            .map_err(Failure::indeterminate)
    })
}

/// Responds to `/` and `/healthz` under any host name, and to the token only under its own.
async fn respond(State(args): State<Arc<Args>>, uri: Uri, headers: HeaderMap) -> (StatusCode, String) {
    if matches!(uri.path(), "/" | "/healthz") {
        return (StatusCode::OK, String::new());
    }
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    let requested_token = uri.path().strip_prefix(CHALLENGE_PATH);
    if name.eq_ignore_ascii_case(&args.domain) && requested_token == Some(args.token.as_str()) {
        (StatusCode::OK, args.key.clone())
    } else {
        (StatusCode::NOT_FOUND, "no challenge at this path\n".to_owned())
    }
}
