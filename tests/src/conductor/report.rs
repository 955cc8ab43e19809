//! The result, for people and for programs.

use std::{
    io::{IsTerminal, Write, stdout},
    time::Duration,
};

use anyhow::Context;
use parallax_diagnosis::text::{self, Style};
use serde::{Deserialize, Serialize};

use crate::{api_client::Incident as Named, incident::Incident, judge::Judgement, packets::printable};

/// How an incident ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The incident.
    pub id: String,
    /// Whether Parallax said what it should.
    pub ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Seconds from the start.
    pub seconds: f64,
    /// Seconds from the last fault to the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_after_fault: Option<f64>,
    /// Region of the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Its likeliest cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Its probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Its sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    #[serde(skip)]
    named: Option<Box<Named>>,
}

impl Report {
    fn new(incident: &Incident, problem: Option<String>, elapsed: Duration) -> Self {
        Self {
            id: incident.id.clone(),
            ok: problem.is_none(),
            problem,
            seconds: rounded(elapsed),
            seconds_after_fault: None,
            region: None,
            cause: None,
            probability: None,
            sentence: None,
            named: None,
        }
    }

    pub(super) fn verdict(
        incident: &Incident,
        judgement: Judgement,
        elapsed: Duration,
        after_fault: Duration,
    ) -> Self {
        match judgement {
            Judgement::Named(named) => Self {
                seconds_after_fault: Some(rounded(after_fault)),
                region: Some(printable(&named.region.region)),
                cause: named.causes.first().map(|cause| printable(&cause.id)),
                probability: Some(named.probability),
                sentence: Some(printable(&named.sentence)),
                named: Some(named),
                ..Self::new(incident, None, elapsed)
            },
            Judgement::Waiting(why) => Self::new(incident, Some(format!("at the deadline: {why}")), elapsed),
            Judgement::Wrong(why) => Self::new(incident, Some(why), elapsed),
        }
    }

    pub(super) fn quiet(incident: &Incident, judgement: Judgement, elapsed: Duration) -> Self {
        let problem = match judgement {
            Judgement::Waiting(_) => None,
            Judgement::Named(named) => Some(format!(
                "a verdict where none was expected: {}",
                printable(&named.sentence)
            )),
            Judgement::Wrong(why) => Some(why),
        };
        Self::new(incident, problem, elapsed)
    }

    /// Writes it to the standard output.
    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        let text = if json {
            serde_json::to_string(self)? + "\n"
        } else {
            self.text()
        };
        stdout().write_all(text.as_bytes()).context("writing the result")
    }

    fn text(&self) -> String {
        if let Some(problem) = &self.problem {
            return format!(
                "\n{}: not as expected after {:.1} s: {problem}\n",
                self.id, self.seconds
            );
        }
        let Some(named) = &self.named else {
            return format!(
                "\n{}: as expected, no verdict in {:.1} s\n",
                self.id, self.seconds
            );
        };
        let mut lines = vec![String::new(), whole(named)];
        let after = self
            .seconds_after_fault
            .map_or(String::new(), |after| format!(", {after:.1} s after the fault"));
        lines.push(format!(
            "\n{}: as expected; region {}, probability {:.4}, named {:.1} s after the start{after}\n",
            self.id,
            printable(&named.region.region),
            named.probability,
            self.seconds
        ));
        lines.join("\n")
    }
}

/// The finding in the product's own words and order; what cannot be read that way is shown as it came.
fn whole(named: &Named) -> String {
    let style = if stdout().is_terminal() {
        Style::Coloured
    } else {
        Style::Plain
    };
    match parallax_diagnosis::verdict::Incident::deserialize(&named.whole) {
        Ok(incident) => text::incident(&incident, incident.opened, style),
        Err(_) => format!("{:#}", named.whole),
    }
}

fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
