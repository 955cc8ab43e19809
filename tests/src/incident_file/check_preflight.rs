//! Checks of an incident's preflights.

use parallax_model::{FailureKind, NodeName};

use super::check::{CheckResult, invalid};
use crate::incident::{
    ExpectedCheck, Incident, Node, PreflightRun, PreflightTime, PublishedBy, ServerSoftware,
};

impl Incident {
    pub(super) fn check_preflights(&self) -> CheckResult {
        for (i, step) in self.preflight.iter().enumerate() {
            let field = format!("preflight[{i}]");
            self.check_setting(&field, step)?;
            for (name, check) in [
                ("selfCheck", &step.expected.self_check),
                ("ca", &step.expected.ca),
            ] {
                self.check_from(&format!("{field}.expected.{name}"), check)?;
            }
            let outside = |from: &&String| self.node_of(from).is_none();
            if let Some(from) = step.expected.self_check.from.keys().find(outside) {
                return invalid(
                    format!("{field}.expected.selfCheck.from.{from}"),
                    "expected a node: vantages outside do not run cert-manager's self check",
                );
            }
            let code = step.expected.expected_exit_code(step.strict);
            if step.expected.exit != code {
                return invalid(
                    format!("{field}.expected.exit"),
                    format!(
                        "expected {code}, which follows from these two verdicts, got {}",
                        step.expected.exit
                    ),
                );
            }
        }
        Ok(())
    }

    fn check_setting(&self, field: &str, step: &PreflightRun) -> CheckResult {
        let known = |node: &NodeName| self.topology.nodes.iter().any(|known| known.name == *node);
        if step.hosts.is_empty() {
            return invalid(format!("{field}.hosts"), "expected at least one host");
        }
        if let Some((i, host)) =
            (step.hosts.iter().enumerate()).find(|(_, host)| !self.hosts().any(|listed| listed == *host))
        {
            return invalid(
                format!("{field}.hosts[{i}]"),
                format!("expected a host of an Ingress, which {host} is not"),
            );
        }
        if step.when == PreflightTime::Faulty && self.faults.is_empty() {
            return invalid(
                format!("{field}.when"),
                "the incident has no faults: expected when: healthy",
            );
        }
        let needs_objects = step.class.is_some() || step.cert_manager_on.is_some();
        if needs_objects && self.topology.published_by == PublishedBy::File {
            return invalid(
                field,
                "expected topology.publishedBy: api-server with class or certManagerOn, because these need objects of the API",
            );
        }
        if let Some(class) = &step.class {
            let serves = self.topology.services.iter().any(|service| {
                service.class.as_ref() == Some(class) && service.server.software == ServerSoftware::Nginx
            });
            if !serves {
                return invalid(
                    format!("{field}.class"),
                    format!("expected the class of a Service with software nginx, which {class} is not"),
                );
            }
        }
        if step.solver_on.is_some() && step.class.is_none() {
            return invalid(format!("{field}.solverOn"), "expected only with a class");
        }
        for (name, node) in [
            ("solverOn", &step.solver_on),
            ("certManagerOn", &step.cert_manager_on),
        ] {
            if let Some(node) = node.as_ref().filter(|node| !known(node)) {
                return invalid(format!("{field}.{name}"), format!("unknown node {node}"));
            }
        }
        Ok(())
    }

    fn check_from(&self, field: &str, check: &ExpectedCheck) -> CheckResult {
        if check.from.is_empty() {
            return invalid(format!("{field}.from"), "expected the result of each vantage");
        }
        for (from, sees) in &check.from {
            let field = format!("{field}.from.{from}");
            if self.node_of(from).is_none() && self.outside_of(from).is_none() {
                return invalid(field, format!("unknown node or client outside {from}"));
            }
            if sees.words().is_empty() {
                return invalid(field, "expected passes, or kinds of failure");
            }
            let known = |word: &&String| {
                let kind = FailureKind::from(std::borrow::Cow::Borrowed(word.as_str()));
                *word == PASSES || !matches!(kind, FailureKind::Other(_))
            };
            if let Some(word) = sees.words().iter().find(|word| !known(word)) {
                return invalid(
                    field,
                    format!("expected passes or a kind of failure such as refused, got {word:?}"),
                );
            }
        }
        Ok(())
    }

    /// Returns the node of a vantage in an expectation.
    fn node_of(&self, from: &str) -> Option<&Node> {
        let (name, host) = match from.strip_suffix("/host") {
            Some(name) => (name, true),
            None => (from, false),
        };
        let node = self
            .topology
            .nodes
            .iter()
            .find(|node| node.name.as_str() == name)?;
        (!host || node.host_prober).then_some(node)
    }

    fn outside_of(&self, from: &str) -> Option<&parallax_model::Vantage> {
        self.topology.vantages.iter().find(|vantage| {
            let written = vantage.to_string();
            written.split_once(':').is_some_and(|(_, name)| name == from)
        })
    }
}

/// Result of a vantage whose check passes.
pub const PASSES: &str = "passes";

#[cfg(test)]
#[path = "check_preflight_tests.rs"]
mod tests;
