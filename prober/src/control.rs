//! The way to the aggregator. Ordinary HTTP with pooled connections; the only place that uses reqwest (R1).

use std::{fs, io, path::PathBuf, time::Duration};

use reqwest::{Client, RequestBuilder, redirect};
use rustls::{ClientConfig, pki_types::CertificateDer};
use url::Url;

use crate::tls::Tls;

const CONNECT: Duration = Duration::from_secs(5);

/// What the prober shows to be let in.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// The token itself.
    Fixed(String),
    /// A file that holds it, read anew for each request: projected `ServiceAccount` tokens are replaced while the
    /// process lives.
    File(PathBuf),
}

impl From<String> for Token {
    fn from(token: String) -> Self {
        Self::Fixed(token)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(_) => f.write_str("Fixed(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Token {
    fn read(&self) -> io::Result<String> {
        match self {
            Self::Fixed(token) => Ok(token.clone()),
            // A file in memory, as projected volumes are.
            Self::File(path) => Ok(fs::read_to_string(path)?.trim().to_owned()),
        }
    }
}

/// A client of the aggregator.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    http: Client,
    base: Url,
    token: Option<Token>,
}

/// Why there can be no client of the aggregator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoControl {
    #[error("expected http://HOST:PORT or https://HOST")]
    Url,
    #[error(transparent)]
    Client(#[from] reqwest::Error),
}

impl Control {
    /// `only` are the roots to trust for the aggregator; without any, those of the probes are.
    pub(crate) fn new(
        base: Url,
        token: Option<Token>,
        probes: &Tls,
        only: &[CertificateDer<'static>],
    ) -> Result<Self, NoControl> {
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(NoControl::Url);
        }
        let tls: ClientConfig = if only.is_empty() {
            probes.control()
        } else {
            Tls::with_roots(only.iter().cloned()).control()
        };
        let http = Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .no_proxy()
            .connect_timeout(CONNECT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("parallax-prober/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { http, base, token })
    }

    pub(crate) fn get(&self, path: [&str; 2], query: &[(&str, &str)]) -> io::Result<RequestBuilder> {
        let mut url = self.url(path);
        url.query_pairs_mut().extend_pairs(query);
        self.authorized(self.http.get(url))
    }

    pub(crate) fn post(&self, path: [&str; 2]) -> io::Result<RequestBuilder> {
        self.authorized(self.http.post(self.url(path)))
    }

    fn url(&self, path: [&str; 2]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    fn authorized(&self, request: RequestBuilder) -> io::Result<RequestBuilder> {
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token.read()?),
            None => request,
        })
    }
}

/// An error with its causes: reqwest's own text names only the outermost.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(base: &str) -> Result<Control, NoControl> {
        Control::new(base.parse().unwrap(), None, &Tls::with_roots([]), &[])
    }

    #[test]
    fn the_path_is_appended_to_whatever_path_the_aggregator_has() {
        for (base, full) in [
            ("http://agg:8080", "http://agg:8080/v1/plan"),
            ("http://agg/parallax/", "http://agg/parallax/v1/plan"),
        ] {
            assert_eq!(control(base).unwrap().url(["v1", "plan"]).as_str(), full);
        }
    }

    #[test]
    fn an_address_that_is_no_http_url_is_refused() {
        assert!(matches!(control("unix:/run/agg"), Err(NoControl::Url)));
    }

    #[test]
    fn a_token_is_never_printed() {
        assert_eq!(format!("{:?}", Token::Fixed("secret".into())), "Fixed(…)");
    }

    #[test]
    fn a_token_file_is_read_at_each_use() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let token = Token::File(file.path().to_owned());
        fs::write(file.path(), "one\n").unwrap();
        assert_eq!(token.read().unwrap(), "one");
        fs::write(file.path(), "two\n").unwrap();
        assert_eq!(token.read().unwrap(), "two");
    }
}
