//! A name and the servers behind it, as data: hand-written in `scenarios.yaml`, or generated.
//!
//! Text may contain `{name}` (the name to be certified), `{key}` (the key authorization), `{token}`, `{path}` (the
//! challenge's path), `{long}` (2001 letters) and addresses such as `{own1.4}` or `{lost2.6}`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::{namespace::AddressBlock, verdict::Verdict};

/// One scenario.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its description.
    pub name: String,
    /// DNS answer for IPv4 addresses [default: the first local one].
    #[serde(default = "own")]
    pub a: ScriptedAnswer,
    /// DNS answer for IPv6 addresses [default: none].
    #[serde(default = "none")]
    pub aaaa: ScriptedAnswer,
    /// Further names below it, by their labels.
    #[serde(default)]
    pub names: BTreeMap<String, FamilyAnswers>,
    /// Its web servers.
    #[serde(default)]
    pub web: Vec<WebServerSpec>,
    /// Pebble's verdict; absent if generated.
    pub pebble: Option<Verdict>,
    /// Boulder's verdict, if it differs.
    pub boulder: Option<KnownDifference>,
}

/// A different verdict, and the known differences that explain it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDifference {
    /// Boulder's verdict.
    pub verdict: Verdict,
    /// Names of the differences.
    pub deltas: BTreeSet<String>,
}

/// Answers for both families of a name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyAnswers {
    /// As [`Scenario::a`].
    #[serde(default = "own")]
    pub a: ScriptedAnswer,
    /// As [`Scenario::aaaa`].
    #[serde(default = "none")]
    pub aaaa: ScriptedAnswer,
}

/// DNS answer for one family.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum ScriptedAnswer {
    /// A failure, or no addresses.
    Failure(LookupFailure),
    /// These addresses, in this order.
    Addresses(Vec<String>),
    /// Addresses, after a delay.
    Late {
        /// The delay.
        late_ms: u64,
        /// The addresses.
        addresses: Vec<String>,
    },
}

/// A failed lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LookupFailure {
    /// The name exists, without addresses of this family.
    None,
    /// It does not exist.
    Nxdomain,
    /// The server has failed.
    Servfail,
    /// The server refuses the query.
    Refused,
    /// No response.
    Silent,
}

fn own() -> ScriptedAnswer {
    ScriptedAnswer::Addresses(vec!["own1".to_owned()])
}

const fn none() -> ScriptedAnswer {
    ScriptedAnswer::Failure(LookupFailure::None)
}

/// One web server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebServerSpec {
    /// Listen addresses [default: `own1.4` and `own1.6`].
    #[serde(default = "both")]
    pub at: Vec<String>,
    /// Port.
    #[serde(default = "http")]
    pub port: u16,
    /// Protocol.
    #[serde(default)]
    pub tls: Tls,
    /// Response to the challenge request.
    #[serde(default)]
    pub challenge: ConnectionAction,
    /// Responses to other paths, including the query. All others get a 404.
    #[serde(default)]
    pub paths: BTreeMap<String, ConnectionAction>,
}

fn both() -> Vec<String> {
    vec!["own1.4".to_owned(), "own1.6".to_owned()]
}

const fn http() -> u16 {
    80
}

/// Protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// Plain text.
    #[default]
    No,
    /// TLS with a certificate that is untrusted, for another name, and expired.
    Untrusted,
    /// TLS that ends every handshake with an alert.
    Alert,
}

/// What a server does with a connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ConnectionAction {
    /// A well-formed response.
    Answer(HttpAnswer),
    /// This number of redirects on the same server, then the key authorization.
    Chain(u16),
    /// These bytes, then closes the connection.
    Raw(String),
    /// These bytes, then nothing more.
    Stall(String),
    /// These bytes, then a reset.
    #[serde(rename = "cut")]
    ResetAfter(String),
    /// Closes the connection without a response.
    Close,
    /// Resets it without a response.
    Reset,
    /// Resets it before it reads a request.
    #[serde(rename = "slam")]
    ResetOnAccept,
    /// Sends nothing.
    Silence,
}

impl Default for ConnectionAction {
    fn default() -> Self {
        Self::Answer(HttpAnswer::default())
    }
}

/// A well-formed response.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub content: String,
    /// Its `Location` header.
    pub location: Option<String>,
    /// How its body ends.
    pub framing: Framing,
    /// Whether it is compressed.
    pub gzip: bool,
    /// The content of a second member of the gzip stream, if it is compressed.
    pub second_member: Option<String>,
    /// Delay after the request in milliseconds.
    pub late_ms: u64,
}

impl Default for HttpAnswer {
    fn default() -> Self {
        Self {
            status: 200,
            content: "{key}".to_owned(),
            location: None,
            framing: Framing::Length,
            gzip: false,
            second_member: None,
            late_ms: 0,
        }
    }
}

/// How a response's body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// At the announced length.
    Length,
    /// With its last chunk.
    Chunked,
    /// With the connection.
    Close,
    /// With the connection, ten bytes short of the announced length.
    Short,
}

impl Scenario {
    /// Loads all hand-written scenarios.
    ///
    /// # Errors
    /// Invalid YAML, a scenario without Pebble's verdict, or a duplicate name.
    pub fn all() -> anyhow::Result<Vec<Self>> {
        let all: Vec<Self> =
            serde_saphyr::from_str(include_str!("../scenarios.yaml")).context("reading scenarios.yaml")?;
        let mut names = BTreeSet::new();
        for one in &all {
            ensure!(
                names.insert(&one.name),
                "two scenarios have the name {:?}",
                one.name
            );
            ensure!(one.pebble.is_some(), "{:?} lacks Pebble's verdict", one.name);
        }
        Ok(all)
    }
}

/// Loads the known differences between Boulder and Pebble, by name.
///
/// # Errors
/// Invalid YAML.
pub fn deltas() -> anyhow::Result<BTreeMap<String, String>> {
    serde_saphyr::from_str(include_str!("../deltas.yaml")).context("reading deltas.yaml")
}

/// Values of the placeholders in one running scenario.
#[derive(Debug, Clone)]
pub struct ScenarioNames {
    /// Its unique number.
    pub case: u16,
    /// The name to be certified.
    pub name: String,
    /// The challenge's token.
    pub token: String,
    /// The key authorization.
    pub key: String,
}

impl ScenarioNames {
    /// Returns the challenge's path.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/.well-known/acme-challenge/{}", self.token)
    }

    /// Returns the address with a name like `own1.4`.
    ///
    /// # Errors
    /// Unknown address.
    pub fn address(&self, text: &str) -> anyhow::Result<IpAddr> {
        let (named, family) = text
            .split_once('.')
            .with_context(|| format!("{text:?} has no family"))?;
        match family {
            "4" => Ok(self.of_range(named, true)?),
            "6" => Ok(self.of_range(named, false)?),
            _ => bail!("{text:?} has an unknown family"),
        }
    }

    /// Returns the address with a name like `own1`.
    ///
    /// # Errors
    /// Unknown address.
    pub fn of_range(&self, text: &str, v4: bool) -> anyhow::Result<IpAddr> {
        let number = text.trim_start_matches(char::is_alphabetic);
        let range = match &text[..text.len() - number.len()] {
            "own" => AddressBlock::Local,
            "lost" => AddressBlock::Dropped,
            "unreachable" => AddressBlock::Unreachable,
            "reserved" => AddressBlock::Reserved,
            _ => bail!("unknown address {text:?}"),
        };
        let number = number
            .parse()
            .with_context(|| format!("{text:?} has no number"))?;
        Ok(if v4 {
            range.v4(self.case, number)
        } else {
            range.v6(self.case, number)
        })
    }

    /// Replaces the placeholders in a text.
    ///
    /// # Errors
    /// Unknown address.
    pub fn replace_placeholders(&self, text: &str) -> anyhow::Result<String> {
        let mut filled = text
            .replace("{name}", &self.name)
            .replace("{key}", &self.key)
            .replace("{token}", &self.token)
            .replace("{path}", &self.path())
            .replace("{long}", &"x".repeat(2001));
        for range in ["own", "lost", "unreachable", "reserved"] {
            while let Some(begin) = filled.find(&format!("{{{range}")) {
                let length = filled[begin..].find('}').context("unclosed brace")?;
                let address = self.address(&filled[begin + 1..begin + length])?;
                let written = match address {
                    IpAddr::V4(v4) => v4.to_string(),
                    IpAddr::V6(v6) => format!("[{v6}]"),
                };
                filled.replace_range(begin..=begin + length, &written);
            }
        }
        Ok(filled)
    }
}
