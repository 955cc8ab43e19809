//! Checks that the expectations of an incident can be observed in it.

use super::check::{CheckResult, invalid};
use crate::{
    incident::{
        AddressFamilies, ClientFamily, ExpectedVerdict, Incident, Outcome, PacketLine, ServiceApproach,
    },
    prometheus,
};

impl Incident {
    pub(super) fn check_expected(&self) -> CheckResult {
        let expected = &self.expected;
        match &expected.outcome {
            Outcome::Verdict(verdict) => {
                if self.faults.is_empty() {
                    return invalid(
                        "expected.outcome.verdict",
                        "expected at least one fault for this outcome",
                    );
                }
                self.check_verdict(verdict)?;
            }
            Outcome::Shown { .. } => {
                if expected.findings.is_empty() && expected.hazards.is_empty() {
                    return invalid(
                        "expected.outcome.shown",
                        "expected at least one of expected.findings and expected.hazards",
                    );
                }
            }
            Outcome::Quiet { seconds } => {
                if *seconds == 0 {
                    return invalid("expected.outcome.quiet.seconds", "expected at least 1");
                }
            }
        }
        if self.repair.is_some() && !matches!(expected.outcome, Outcome::Verdict(_)) {
            return invalid("repair", "expected only with the outcome `verdict`");
        }
        for (i, finding) in expected.findings.iter().enumerate() {
            known(
                &format!("expected.findings[{i}].kind"),
                &finding.kind,
                parallax_diagnosis::findings::FindingKind::ALL
                    .iter()
                    .map(|kind| kind.label()),
            )?;
        }
        for (i, hazard) in expected.hazards.iter().enumerate() {
            known(
                &format!("expected.hazards[{i}].kind"),
                &hazard.kind,
                parallax_diagnosis::findings::HazardKind::ALL
                    .iter()
                    .map(|kind| kind.label()),
            )?;
        }
        for (i, alert) in expected.alerts.iter().enumerate() {
            known(&format!("expected.alerts[{i}]"), alert, prometheus::alert_names())?;
        }
        if !expected.alerts.is_empty() && !matches!(expected.outcome, Outcome::Quiet { .. }) {
            return invalid(
                "expected.alerts",
                "expected only with the outcome `quiet`: if something is wrong, alerts may fire",
            );
        }
        let packets = &expected.packets;
        for (phase, looks) in [("healthy", &packets.healthy), ("faulty", &packets.faulty)] {
            for (i, look) in looks.iter().enumerate() {
                self.check_look(&format!("expected.packets.{phase}[{i}]"), look)?;
            }
        }
        if self.faults.is_empty() && !packets.faulty.is_empty() {
            return invalid(
                "expected.packets.faulty",
                "expected at least one fault for this outcome",
            );
        }
        Ok(())
    }

    fn check_verdict(&self, verdict: &ExpectedVerdict) -> CheckResult {
        let hosts = self.hosts().count();
        if let Some(members) = verdict.members.filter(|members| *members > hosts) {
            return invalid(
                "expected.outcome.verdict.members",
                format!("expected at most the {hosts} hosts of the ingresses, got {members}"),
            );
        }
        let about = [
            verdict.front.is_some(),
            verdict.service.is_some(),
            verdict.subject.is_some(),
        ];
        if about.into_iter().filter(|given| *given).count() != 1 {
            return invalid(
                "expected.outcome.verdict",
                "expected exactly one of front, service and subject: the subject of the verdict",
            );
        }
        if let Some(service) = &verdict.service
            && self.fronts_of(service).next().is_none()
        {
            return invalid(
                "expected.outcome.verdict.service",
                format!("unknown Service {service}"),
            );
        }
        let mut services = self.topology.services.iter();
        match verdict.front {
            Some(front) if !services.any(|s| self.fronts_of(&s.service).any(|known| known == front)) => {
                invalid(
                    "expected.outcome.verdict.front",
                    format!("{front} is not an address and port of a Service"),
                )
            }
            _ => Ok(()),
        }
    }

    fn check_look(&self, field: &str, look: &PacketLine) -> CheckResult {
        let outside = |name: &str| {
            self.topology.vantages.iter().any(|vantage| {
                vantage
                    .to_string()
                    .split_once(':')
                    .is_some_and(|(_, n)| n == name)
            })
        };
        for name in &look.from {
            if !self.topology.nodes.iter().any(|node| node.name == *name) && !outside(name.as_str()) {
                return invalid(format!("{field}.from"), format!("unknown node {name}"));
            }
        }
        let Some(service) = self.topology.services.iter().find(|s| s.service == look.service) else {
            return invalid(
                format!("{field}.service"),
                format!("unknown Service {}", look.service),
            );
        };
        if look.family == ClientFamily::V6 {
            if self.topology.families != AddressFamilies::DualStack {
                return invalid(
                    format!("{field}.family"),
                    "expected v6 only in a dual-stack cluster",
                );
            }
            if look.to == ServiceApproach::Ping {
                return invalid(
                    format!("{field}.to"),
                    "expected another `to` with family v6: ping uses IPv4",
                );
            }
        }
        if let Some(port) = look.port
            && (look.to == ServiceApproach::Ping || !service.ports.iter().any(|known| known.port == port))
        {
            return invalid(
                format!("{field}.port"),
                format!("expected a port of the Service {}, got {port}", look.service),
            );
        }
        if matches!(look.to, ServiceApproach::Vip | ServiceApproach::Ping)
            && service.load_balancer_ip.is_none()
        {
            return invalid(
                format!("{field}.to"),
                format!("the Service {} has no balancer address", look.service),
            );
        }
        Ok(())
    }
}

fn known<'a>(field: &str, kind: &str, all: impl Iterator<Item = &'a str>) -> CheckResult {
    let all: Vec<&str> = all.collect();
    if all.contains(&kind) {
        return Ok(());
    }
    invalid(field, format!("expected one of {}, got {kind:?}", all.join(", ")))
}
