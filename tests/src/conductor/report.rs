//! The result of an incident, as text and as JSON.

use std::{
    io::{IsTerminal, Write, stdout},
    time::Duration,
};

use anyhow::Context;
use parallax_terminal::ColorMode;
use serde::{Deserialize, Serialize};

use crate::{
    api_client::Incident as Named,
    incident::{Incident, Outcome},
    judge::OutcomeJudgement,
    packets::sanitize,
    preflight::ReportedPreflight,
    prometheus::{AlertState, LabAlert},
};

/// Result of an incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The incident.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Whether Parallax reported what is expected.
    pub ok: bool,
    /// The difference, if not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Summary of the expectation.
    pub expected: String,
    /// Substitute kernel or rules, with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "instead")]
    pub substitute: Option<String>,
    /// Seconds from the start.
    pub seconds: f64,
    /// Seconds from the last fault to the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_after_fault: Option<f64>,
    /// Seconds from the repair until the incident closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_to_close: Option<f64>,
    /// Region of the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Its likeliest cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Its probability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Sentences of the result.
    #[serde(default)]
    pub sentences: Vec<String>,
    /// The verdict's evidence table: clients, failures, probes.
    #[serde(default)]
    pub evidence: Vec<(String, u64, u64)>,
    /// Alerts pending or firing in Prometheus, if one ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarms: Option<Vec<LabAlert>>,
    /// Seconds from the verdict to the alert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_to_alert: Option<f64>,
    /// Results of `parallax preflight`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preflights: Vec<ReportedPreflight>,
    /// Packets of one client after the faults.
    #[serde(default)]
    pub packets: Vec<String>,
    /// Location of that client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_of: Option<String>,
    #[serde(skip)]
    named: Option<Box<Named>>,
}

impl Report {
    pub(super) fn new(
        incident: &Incident,
        judgement: OutcomeJudgement,
        elapsed: Duration,
        after_fault: Duration,
    ) -> Self {
        let report = Self {
            id: incident.id.clone(),
            title: incident.title.clone(),
            ok: true,
            problem: None,
            expected: expected(incident),
            substitute: None,
            seconds: rounded(elapsed),
            seconds_after_fault: None,
            seconds_to_close: None,
            region: None,
            cause: None,
            probability: None,
            sentences: Vec::new(),
            evidence: Vec::new(),
            alarms: None,
            seconds_to_alert: None,
            preflights: Vec::new(),
            packets: Vec::new(),
            packets_of: None,
            named: None,
        };
        let quiet = matches!(incident.expected.outcome, Outcome::Quiet { .. });
        match judgement {
            OutcomeJudgement::Named(named) => Self {
                seconds_after_fault: Some(rounded(after_fault)),
                region: Some(sanitize(&named.region.region)),
                cause: named.causes.first().map(|cause| sanitize(&cause.id)),
                probability: Some(named.probability),
                sentences: vec![sanitize(&named.sentence)],
                evidence: named
                    .evidence
                    .iter()
                    .map(|row| (sanitize(&row.who), row.failures, row.probes))
                    .collect(),
                named: Some(named),
                ..report
            },
            OutcomeJudgement::Shown(notices) => Self {
                seconds_after_fault: Some(rounded(after_fault)),
                sentences: notices
                    .iter()
                    .map(|notice| format!("{}: {}", sanitize(&notice.kind), sanitize(&notice.sentence)))
                    .collect(),
                ..report
            },
            OutcomeJudgement::Waiting(_) if quiet => report,
            OutcomeJudgement::Waiting(reason) => Self {
                ok: false,
                problem: Some(format!("at the deadline: {reason}")),
                ..report
            },
            OutcomeJudgement::Wrong(reason) => Self {
                ok: false,
                problem: Some(reason),
                ..report
            },
        }
    }

    /// Builds the report of an incident that could not run.
    #[must_use]
    pub fn could_not_run(incident: &Incident, error: &anyhow::Error) -> Self {
        let judgement = OutcomeJudgement::Wrong(format!("could not run: {error:#}"));
        Self::new(incident, judgement, Duration::ZERO, Duration::ZERO)
    }

    /// Returns the id of the named incident.
    pub(super) fn named_id(&self) -> Option<String> {
        self.named.as_ref().map(|named| named.id.clone())
    }

    /// Prints it to stdout.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        let text = if json {
            serde_json::to_string(self)? + "\n"
        } else {
            self.text()
        };
        stdout().write_all(text.as_bytes()).context("writing the result")
    }

    fn text(&self) -> String {
        let mut text = self.outcome();
        if let Some(alarms) = self.describe_alerts() {
            text.push_str(&alarms);
            text.push('\n');
        }
        for preflight in &self.preflights {
            text.push_str(&preflight_text(preflight));
        }
        if let Some(instead) = &self.substitute {
            text.push_str(instead);
            text.push('\n');
        }
        text
    }

    /// Describes the alerts, if Prometheus ran.
    #[must_use]
    pub fn describe_alerts(&self) -> Option<String> {
        let alarms = self.alarms.as_ref()?;
        let of = |stage| {
            let in_stage = alarms.iter().filter(|alarm| alarm.stage == stage);
            let words: Vec<_> = in_stage.map(LabAlert::to_string).collect();
            if words.is_empty() {
                "nothing".to_owned()
            } else {
                words.join("; ")
            }
        };
        let after = self.seconds_to_alert.map_or(String::new(), |seconds| {
            format!(", fired {seconds:.1} s after the verdict")
        });
        Some(format!(
            "alerts firing: {}{after}; only pending: {}",
            of(AlertState::Firing),
            of(AlertState::Pending)
        ))
    }

    /// Returns when it closed, as the end of a line.
    #[must_use]
    pub fn closed(&self) -> String {
        self.seconds_to_close.map_or(String::new(), |seconds| {
            format!(", closed {seconds:.1} s after the repair")
        })
    }

    fn outcome(&self) -> String {
        if let Some(problem) = &self.problem {
            return format!(
                "\n{}: not as expected after {:.1} s: {problem}\n",
                self.id, self.seconds
            );
        }
        let Some(named) = &self.named else {
            let text = if self.sentences.is_empty() {
                "no verdict".to_owned()
            } else {
                format!("no verdict, but {}", self.sentences.join("; "))
            };
            return format!("\n{}: as expected, {text} ({:.1} s)\n", self.id, self.seconds);
        };
        let mut lines = vec![String::new(), render_incident(named)];
        let after = self
            .seconds_after_fault
            .map_or(String::new(), |after| format!(", {after:.1} s after the fault"));
        lines.push(format!(
            "\n{}: as expected; region {}, probability {:.4}, named {:.1} s after the start{after}{}\n",
            self.id,
            sanitize(&named.region.region),
            named.probability,
            self.seconds,
            self.closed()
        ));
        lines.join("\n")
    }
}

/// Renders a preflight with its table.
fn preflight_text(shown: &ReportedPreflight) -> String {
    let after = shown.seconds_after_route.map_or(String::new(), |after| {
        format!(", {after:.1} s after the route existed")
    });
    let mut lines = vec![
        format!(
            "\npreflight, {}: exit code {} after {:.1} s{after}",
            shown.name, shown.exit, shown.seconds
        ),
        format!("  {}", shown.command),
    ];
    lines.extend(shown.sentences.iter().map(|sentence| format!("  {sentence}")));
    lines.extend(
        shown
            .table
            .iter()
            .map(|[vantage, placement, own, ca]| format!("    {vantage:<18} {placement:<11} {own:<32} {ca}")),
    );
    let left_out = shown
        .not_checked
        .iter()
        .map(|line| format!("  not checked: {line}"));
    lines.extend(left_out);
    let by_the_lab = shown.not_exercised.iter();
    lines.extend(by_the_lab.map(|line| format!("  not exercised by the lab: {line}")));
    lines.join("\n") + "\n"
}

/// Summarizes the expectation of the file.
fn expected(incident: &Incident) -> String {
    let notices = |kind: &str, all: &[crate::incident::ExpectedNotice]| {
        all.iter()
            .map(|notice| format!("{kind} {}", notice.kind))
            .collect::<Vec<_>>()
    };
    let mut words = match &incident.expected.outcome {
        Outcome::Verdict(verdict) => {
            let mut words = format!("{} ({})", verdict.cause, verdict.region);
            if !verdict.on.is_empty() {
                words = format!(
                    "{} ({} {})",
                    verdict.cause,
                    verdict.region,
                    verdict.on.join(" → ")
                );
            }
            vec![words]
        }
        Outcome::Shown { .. } => Vec::new(),
        Outcome::Quiet { seconds } => vec![format!("nothing for {seconds} s")],
    };
    words.extend(notices("finding", &incident.expected.findings));
    words.extend(notices("hazard", &incident.expected.hazards));
    words.join(", ")
}

/// Renders the incident as the product does; if it cannot be parsed, as JSON.
fn render_incident(named: &Named) -> String {
    let style = if stdout().is_terminal() {
        ColorMode::Colored
    } else {
        ColorMode::Plain
    };
    match parallax_diagnosis::verdict::Incident::deserialize(&named.raw) {
        Ok(incident) => parallax_terminal::incident(&incident, incident.opened, style),
        Err(_) => format!("{:#}", named.raw),
    }
}

pub(super) fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
