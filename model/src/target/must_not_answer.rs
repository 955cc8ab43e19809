//! Addresses at which, and vantages to which, a target must not answer although it must answer all others.

use std::{collections::BTreeSet, fmt, net::SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{
    InvalidTarget, MustNotAnswer, ProbeSpec, Reach, Target, TargetId, TargetSpec, Vantage,
    channel::label_enum,
};

label_enum! {
    /// Kinds of vantage, by location.
    Whence {
        /// Probers of the cluster.
        Nodes = "nodes",
        /// Machines in the same network.
        Vpc = "vpc",
        /// Machines on the internet.
        Internet = "internet",
    }
}

impl Whence {
    /// Returns the kind of a vantage.
    #[must_use]
    pub const fn of(vantage: &Vantage) -> Self {
        match vantage {
            Vantage::Cluster { .. } => Self::Nodes,
            Vantage::Outside {
                reach: Reach::Vpc, ..
            } => Self::Vpc,
            Vantage::Outside {
                reach: Reach::Internet,
                ..
            } => Self::Internet,
        }
    }
}

/// Default for targets without `mustNotAnswer`: failures and statuses that cannot come from the application.
/// 404 comes from a default backend; 421 (RFC 9110 §15.5.20) means that the server is not authoritative for
/// the host.
const DEFAULT_MUST_NOT_ANSWER: &str = "refused,timeout,unreachable,reset,tls,nxdomain,404,421";

/// A probe of a target that must not get an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forbidden {
    /// The target's id, with a suffix after `#` that names the address or the vantages.
    pub id: TargetId,
    /// The target that it belongs to.
    pub target: TargetId,
    /// The probe.
    pub probe: ProbeSpec,
    /// The address to connect to, instead of the one that the name resolves to.
    pub address: Option<SocketAddr>,
    /// Kinds of vantage that make the probe; all if empty.
    pub vantages: BTreeSet<Whence>,
}

impl Forbidden {
    /// Whether a vantage makes the probe.
    #[must_use]
    pub fn applies_to(&self, vantage: &Vantage) -> bool {
        self.vantages.is_empty() || self.vantages.contains(&Whence::of(vantage))
    }
}

impl Target {
    /// Adds the `mustNotAnswer…` fields of another entry for the same target.
    ///
    /// # Errors
    ///
    /// Returns an error if the other entry has none of these fields, or if it also sets how the target is
    /// probed, which only one entry may do.
    pub fn add_forbidden(&mut self, other: &Self) -> Result<(), String> {
        if other.forbidden_probes.is_empty() {
            return Err(format!("the target {} is listed twice", self.id));
        }
        let same = self.probe == other.probe && other.interval.is_none() && other.timeout.is_none();
        if !same {
            return Err(format!(
                "the cluster or another entry already defines how {} is probed; remove from this entry everything but \
                 mustNotAnswerAt, mustNotAnswerFrom and mustNotAnswer",
                self.id
            ));
        }
        let known = |id: &TargetId| self.forbidden_probes.iter().any(|question| question.id == *id);
        let new: Vec<Forbidden> = other
            .forbidden_probes
            .iter()
            .filter(|q| !known(&q.id))
            .cloned()
            .collect();
        self.forbidden_probes.extend(new);
        Ok(())
    }
}

impl TargetSpec {
    /// Whether only some addresses or vantages must not get an answer. `mustNotAnswer` then applies to those.
    pub(super) fn has_partial_must_not_answer(&self) -> bool {
        !self.must_not_answer_at.is_empty() || !self.must_not_answer_from.is_empty()
    }

    /// The probes that must not get an answer.
    pub(super) fn forbidden_probes(
        &self,
        id: &TargetId,
        probe: &ProbeSpec,
    ) -> Result<Vec<Forbidden>, InvalidTarget> {
        if !self.has_partial_must_not_answer() {
            return Ok(Vec::new());
        }
        let silence = match &self.must_not_answer {
            Some(said) => said.clone(),
            None => MustNotAnswer::try_from(DEFAULT_MUST_NOT_ANSWER.to_owned()).map_err(|_| {
                InvalidTarget::Conflict {
                    field: "mustNotAnswer",
                    reason: "list the failures and statuses that are accepted",
                }
            })?,
        };
        let (Some(port), Some(probe)) = (probe.port(), probe.requiring_no_answer(silence)) else {
            return Ok(Vec::new());
        };
        let comma = if id.as_str().contains('#') { ',' } else { '#' };
        let question = |word: String, at, from| {
            Ok(Forbidden {
                id: TargetId::new(format!("{id}{comma}{word}"))?,
                target: id.clone(),
                probe: probe.clone(),
                address: at,
                vantages: from,
            })
        };
        let addresses: BTreeSet<SocketAddr> = self
            .must_not_answer_at
            .iter()
            .map(|address| SocketAddr::new(*address, port))
            .collect();
        let mut all: Vec<Forbidden> = addresses
            .into_iter()
            .map(|at| question(format!("silent-at={at}"), Some(at), BTreeSet::new()))
            .collect::<Result<_, InvalidTarget>>()?;
        if !self.must_not_answer_from.is_empty() {
            let words: Vec<&str> = self
                .must_not_answer_from
                .iter()
                .map(|whence| whence.label())
                .collect();
            let word = format!("silent-from={}", words.join("+"));
            all.push(question(word, None, self.must_not_answer_from.clone())?);
        }
        Ok(all)
    }
}
