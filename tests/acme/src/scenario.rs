//! A name and the servers behind it, as data: written down in `scenarios.yaml`, or generated.
//!
//! Text may hold `{name}` (the name to be certified), `{key}` (the key authorization), `{token}`, `{path}` (the challenge's
//! path), `{long}` (2001 letters) and addresses, as `{own1.4}` or `{lost2.6}`.

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
    /// What it shows.
    pub name: String,
    /// What is said of the name's IPv4 addresses; the first of its own otherwise.
    #[serde(default = "own")]
    pub a: ScriptedAnswer,
    /// What is said of its IPv6 addresses; that there are none otherwise.
    #[serde(default = "none")]
    pub aaaa: ScriptedAnswer,
    /// Names below it that exist too, by their labels.
    #[serde(default)]
    pub names: BTreeMap<String, FamilyAnswers>,
    /// Who listens.
    #[serde(default)]
    pub web: Vec<WebServerSpec>,
    /// What Pebble says; absent where it is generated.
    pub pebble: Option<Verdict>,
    /// What Boulder says, where that is another thing.
    pub boulder: Option<KnownDifference>,
}

/// Another verdict, and which of the known differences explain it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDifference {
    /// Boulder's verdict.
    pub verdict: Verdict,
    /// Differences of the list.
    pub deltas: BTreeSet<String>,
}

/// Both families of a name.
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

/// What is said of one family.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum ScriptedAnswer {
    /// A failure, or nothing.
    Word(LookupFailure),
    /// These addresses, in this order.
    Addresses(Vec<String>),
    /// As much, so long after the question.
    Late {
        /// How long.
        late_ms: u64,
        /// Which.
        addresses: Vec<String>,
    },
}

/// A failure of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LookupFailure {
    /// The name exists, with nothing of this family.
    None,
    /// It does not exist.
    Nxdomain,
    /// The server has failed.
    Servfail,
    /// The server does not want to say.
    Refused,
    /// No answer comes.
    Silent,
}

fn own() -> ScriptedAnswer {
    ScriptedAnswer::Addresses(vec!["own1".to_owned()])
}

const fn none() -> ScriptedAnswer {
    ScriptedAnswer::Word(LookupFailure::None)
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebServerSpec {
    /// Where it listens: `own1.4` and `own1.6` otherwise.
    #[serde(default = "both")]
    pub at: Vec<String>,
    /// On which port.
    #[serde(default = "http")]
    pub port: u16,
    /// What it speaks.
    #[serde(default)]
    pub tls: Tls,
    /// What it does with a request for the challenge.
    #[serde(default)]
    pub challenge: ConnectionAction,
    /// What it does with a request for another path, query included. Others are not found.
    #[serde(default)]
    pub paths: BTreeMap<String, ConnectionAction>,
}

fn both() -> Vec<String> {
    vec!["own1.4".to_owned(), "own1.6".to_owned()]
}

const fn http() -> u16 {
    80
}

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// Plain text.
    #[default]
    No,
    /// TLS with a certificate that nobody trusts, for another name, expired.
    Untrusted,
    /// It ends every handshake with an alert.
    Alert,
}

/// What a server does with a connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ConnectionAction {
    /// An answer in good order.
    Answer(HttpAnswer),
    /// So many redirects on the same server, and then the key authorization.
    Chain(u16),
    /// These bytes and the end of the connection.
    Raw(String),
    /// These bytes, and then nothing more.
    Stall(String),
    /// These bytes and a reset.
    Cut(String),
    /// The connection ends without an answer.
    Close,
    /// It is reset without an answer.
    Reset,
    /// It is reset before anything was asked.
    Slam,
    /// Nothing comes.
    Silence,
}

impl Default for ConnectionAction {
    fn default() -> Self {
        Self::Answer(HttpAnswer::default())
    }
}

/// An answer in good order.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// Its content.
    pub content: String,
    /// Where it leads.
    pub location: Option<String>,
    /// How its content ends.
    pub framing: Framing,
    /// It is compressed.
    pub gzip: bool,
    /// It begins so long after the request.
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
            late_ms: 0,
        }
    }
}

/// How an answer's content ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// Where its announced length says.
    Length,
    /// With its last chunk.
    Chunked,
    /// With the connection.
    Close,
    /// With the connection, ten bytes before the announced length.
    Short,
}

impl Scenario {
    /// All that are written down.
    ///
    /// # Errors
    /// What cannot be read, and a scenario without Pebble's verdict or with a name that another one has.
    pub fn all() -> anyhow::Result<Vec<Self>> {
        let all: Vec<Self> =
            serde_saphyr::from_str(include_str!("../scenarios.yaml")).context("reading scenarios.yaml")?;
        let mut names = BTreeSet::new();
        for one in &all {
            ensure!(names.insert(&one.name), "two scenarios are called {:?}", one.name);
            ensure!(
                one.pebble.is_some(),
                "{:?} does not say what Pebble says",
                one.name
            );
        }
        Ok(all)
    }
}

/// Known differences of Boulder to Pebble, by their names.
///
/// # Errors
/// What cannot be read.
pub fn deltas() -> anyhow::Result<BTreeMap<String, String>> {
    serde_saphyr::from_str(include_str!("../deltas.yaml")).context("reading deltas.yaml")
}

/// What stands for what in one running scenario.
#[derive(Debug, Clone)]
pub struct ScenarioNames {
    /// Its number, which no other one has.
    pub case: u16,
    /// The name to be certified.
    pub name: String,
    /// The challenge's token.
    pub token: String,
    /// The key authorization.
    pub key: String,
}

impl ScenarioNames {
    /// The challenge's path.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/.well-known/acme-challenge/{}", self.token)
    }

    /// An address as `own1.4` names it.
    ///
    /// # Errors
    /// No such address.
    pub fn address(&self, text: &str) -> anyhow::Result<IpAddr> {
        let (named, family) = text
            .split_once('.')
            .with_context(|| format!("{text:?} has no family"))?;
        match family {
            "4" => Ok(self.of_range(named, true)?),
            "6" => Ok(self.of_range(named, false)?),
            _ => bail!("{text:?} is of no family"),
        }
    }

    /// An address as `own1` names it.
    ///
    /// # Errors
    /// No such address.
    pub fn of_range(&self, text: &str, v4: bool) -> anyhow::Result<IpAddr> {
        let number = text.trim_start_matches(char::is_alphabetic);
        let range = match &text[..text.len() - number.len()] {
            "own" => AddressBlock::Own,
            "lost" => AddressBlock::Lost,
            "unreachable" => AddressBlock::Unreachable,
            "reserved" => AddressBlock::Reserved,
            _ => bail!("no address is called {text:?}"),
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

    /// Text with what stands for what.
    ///
    /// # Errors
    /// An address that does not exist.
    pub fn fill(&self, text: &str) -> anyhow::Result<String> {
        let mut filled = text
            .replace("{name}", &self.name)
            .replace("{key}", &self.key)
            .replace("{token}", &self.token)
            .replace("{path}", &self.path())
            .replace("{long}", &"x".repeat(2001));
        for range in ["own", "lost", "unreachable", "reserved"] {
            while let Some(begin) = filled.find(&format!("{{{range}")) {
                let length = filled[begin..].find('}').context("an open brace")?;
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
