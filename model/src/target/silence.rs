//! Where, and to whom, a target must not answer although it answers everybody else.

use std::{collections::BTreeSet, fmt, net::SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{
    InvalidTarget, MustNotAnswer, ProbeSpec, Reach, Target, TargetId, TargetSpec, Vantage,
    channel::label_enum,
};

label_enum! {
    /// Kinds of vantage, by how far out they are.
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
    /// The kind of a vantage.
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

/// Silence, where a target does not say what counts as such: nothing that looks like the application. 404 is a default
/// backend's, 421 (RFC 9110 §15.5.20) says that the request came to the wrong door.
const USUAL: &str = "refused,timeout,unreachable,reset,tls,nxdomain,404,421";

/// A question that must stay without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forbidden {
    /// The target's id, and behind `#` where or to whom it must be silent.
    pub id: TargetId,
    /// The target that it belongs to.
    pub of: TargetId,
    /// What is asked.
    pub probe: ProbeSpec,
    /// Where, instead of what the name resolves to.
    pub at: Option<SocketAddr>,
    /// Who asks; everybody where empty.
    pub from: BTreeSet<Whence>,
}

impl Forbidden {
    /// Whether a vantage is among those that ask.
    #[must_use]
    pub fn is_asked_from(&self, vantage: &Vantage) -> bool {
        self.from.is_empty() || self.from.contains(&Whence::of(vantage))
    }
}

impl Target {
    /// Adds what another entry for the same target says of where it must not answer.
    ///
    /// # Errors
    ///
    /// The other one says nothing of the kind, or says something else as well: how a target is probed is said once.
    pub fn forbid(&mut self, other: &Self) -> Result<(), String> {
        if other.forbidden.is_empty() {
            return Err(format!("the target {} is listed twice", self.id));
        }
        let same = self.probe == other.probe && other.interval.is_none() && other.timeout.is_none();
        if !same {
            return Err(format!(
                "{} is probed already, as the cluster or another entry says; leave out here everything but \
                 mustNotAnswerAt, mustNotAnswerFrom and mustNotAnswer",
                self.id
            ));
        }
        let known = |id: &TargetId| self.forbidden.iter().any(|question| question.id == *id);
        let new: Vec<Forbidden> = other
            .forbidden
            .iter()
            .filter(|q| !known(&q.id))
            .cloned()
            .collect();
        self.forbidden.extend(new);
        Ok(())
    }
}

impl TargetSpec {
    /// Whether it is to answer some and not others: `mustNotAnswer` then says what counts as silence there.
    pub(super) fn is_forbidden_somewhere(&self) -> bool {
        !self.must_not_answer_at.is_empty() || !self.must_not_answer_from.is_empty()
    }

    /// The questions that must stay without an answer.
    pub(super) fn forbidden(
        &self,
        id: &TargetId,
        probe: &ProbeSpec,
    ) -> Result<Vec<Forbidden>, InvalidTarget> {
        if !self.is_forbidden_somewhere() {
            return Ok(Vec::new());
        }
        let silence = match &self.must_not_answer {
            Some(said) => said.clone(),
            None => MustNotAnswer::try_from(USUAL.to_owned()).map_err(|_| InvalidTarget::Conflict {
                field: "mustNotAnswer",
                why: "say what counts as silence",
            })?,
        };
        let (Some(port), Some(probe)) = (probe.port(), probe.expecting_silence(silence)) else {
            return Ok(Vec::new());
        };
        let comma = if id.as_str().contains('#') { ',' } else { '#' };
        let question = |word: String, at, from| {
            Ok(Forbidden {
                id: TargetId::new(format!("{id}{comma}{word}"))?,
                of: id.clone(),
                probe: probe.clone(),
                at,
                from,
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
