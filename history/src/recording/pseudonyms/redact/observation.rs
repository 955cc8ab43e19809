//! Replaces names in observations.

use std::borrow::Cow;

use parallax_model::{
    DnsAnswer, EchoIdentity, FailureKind, Observation, Outcome, Recorded, ServerProduct, TtlEvidence,
};

use crate::recording::pseudonyms::Pseudonymizer;

impl Pseudonymizer {
    /// Pseudonymizes an observation.
    pub(in crate::recording) fn recorded_observation(&mut self, recorded: &Recorded) -> Recorded {
        let Recorded {
            vantage,
            incarnation,
            observation,
        } = recorded;
        Recorded {
            vantage: self.vantage(vantage),
            incarnation: self.typed_name(incarnation.clone()),
            observation: self.observation(observation.clone()),
        }
    }

    fn observation(&mut self, observation: Observation) -> Observation {
        let Observation {
            seq,
            started: at,
            assignment: _,
            target,
            channel,
            front,
            entry,
            dst_node,
            outcome,
            times,
            dns,
            echo,
            ttl,
            server,
            // The fingerprint of a page or certificate identifies its owner.
            fingerprint: _,
            // Only observations of runs have these, and runs are not recorded.
            challenge: _,
            names: _,
        } = observation;
        Observation {
            seq,
            started: at,
            assignment: None,
            target: self.target(&target),
            channel,
            front: front.map(|front| self.front(front)),
            entry: entry.map(|pod| self.typed_name(pod)),
            dst_node: dst_node.map(|node| self.typed_name(node)),
            outcome: self.outcome(outcome),
            times,
            dns: dns.map(|answer| self.dns(answer)),
            echo: echo.map(|echo| self.echo(echo)),
            ttl: ttl.map(|ttl| self.ttl(ttl)),
            server: server.map(|server| ServerProduct::from(self.word(server.as_str()))),
            fingerprint: None,
            challenge: None,
            names: None,
        }
    }

    fn outcome(&self, outcome: Outcome) -> Outcome {
        match outcome {
            // A kind from a newer prober; its meaning is unknown, so it may contain a name.
            Outcome::Failed {
                phase,
                kind: FailureKind::Other(word),
                status,
            } => Outcome::Failed {
                phase,
                kind: FailureKind::from(Cow::Owned(self.word(&word))),
                status,
            },
            known => known,
        }
    }

    fn dns(&mut self, answer: DnsAnswer) -> DnsAnswer {
        let DnsAnswer {
            resolver,
            name,
            addresses,
            ttl_s,
            tcp,
            unanswered,
        } = answer;
        let mut addresses: Vec<_> = addresses.into_iter().map(|address| self.ip(address)).collect();
        addresses.sort();
        DnsAnswer {
            resolver: self.socket(resolver),
            name: self.name(&name),
            addresses,
            ttl_s,
            tcp,
            unanswered,
        }
    }

    fn echo(&mut self, echo: EchoIdentity) -> EchoIdentity {
        let EchoIdentity {
            pod,
            node,
            instance,
            peer,
        } = echo;
        EchoIdentity {
            pod: self.typed_name(pod),
            node: self.typed_name(node),
            instance: self.name_part(&instance),
            peer: self.socket(peer),
        }
    }

    fn ttl(&mut self, evidence: TtlEvidence) -> TtlEvidence {
        let TtlEvidence {
            address,
            sender: from,
            ttl,
            rtt,
        } = evidence;
        TtlEvidence {
            address: self.ip(address),
            sender: from.map(|from| self.ip(from)),
            ttl,
            rtt,
        }
    }
}
