//! Destinations of the client.

use std::str::FromStr;

use anyhow::{Context, ensure};

/// A URL with a short name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Name in logs and steps.
    pub name: String,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whether it uses TLS.
    pub tls: bool,
    /// Path and query.
    pub path: String,
}

impl FromStr for Destination {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, url) = text.split_once('=').context("expected NAME=URL")?;
        let url = url::Url::parse(url).with_context(|| format!("{url} is not a URL"))?;
        ensure!(matches!(url.scheme(), "http" | "https"), "expected http or https");
        Ok(Self {
            name: name.to_owned(),
            host: url.host_str().context("a URL with a host")?.to_owned(),
            port: url.port_or_known_default().context("a URL with a port")?,
            tls: url.scheme() == "https",
            path: url.path().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_name_and_a_url() {
        let parsed: Destination = "headless=http://shop-headless.shop.svc:8088/".parse().unwrap();
        let expected = Destination {
            name: "headless".to_owned(),
            host: "shop-headless.shop.svc".to_owned(),
            port: 8088,
            tls: false,
            path: "/".to_owned(),
        };
        assert_eq!(parsed, expected);
        assert!("https://shop.example.com/".parse::<Destination>().is_err());
        assert!("ftp=ftp://shop.example.com/".parse::<Destination>().is_err());
    }
}
