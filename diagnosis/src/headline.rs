//! The headline of a verdict: the cause, then the place.

use crate::verdict::{Subject, Verdict};

/// Maximum number of words of a headline, so that it fits on one line of a page, a pager or a chat message.
pub const MAX_HEADLINE_WORDS: usize = 20;

impl Verdict {
    /// Returns the title of the likeliest cause, or what fails if the catalogue has no cause for it.
    #[must_use]
    pub fn title(&self) -> String {
        self.causes
            .first()
            .map_or_else(|| self.region.description(), |cause| cause.title.clone())
    }

    /// Returns the headline: the likeliest cause and where it acts, in at most [`MAX_HEADLINE_WORDS`] words. The
    /// probability and the evidence are elsewhere: a headline is what a person reads first.
    #[must_use]
    pub fn headline(&self) -> String {
        let cause = self.title();
        let tie = if self.class.len() > 1 && self.causes.len() != 1 {
            ", or another cause"
        } else {
            ""
        };
        match self.place() {
            Some(place) => format!("{cause}{tie}: {place}"),
            None => format!("{cause}{tie}"),
        }
    }

    /// The subject, with the members of the region that it does not name.
    fn place(&self) -> Option<String> {
        let subject = match &self.subject {
            Subject::Network => None,
            subject => Some(subject.to_string()),
        };
        let members = self.region.members.as_slice();
        let endpoints = self.class.iter().filter(|region| region.region == "backend");
        let is_one_endpoint = endpoints.count() <= 1;
        match (self.region.region.as_str(), members, subject) {
            ("pair" | "zone", [from, to], _) => Some(format!("{from} to {to}")),
            ("link" | "zone-link", [a, b], _) => Some(format!("{a} and {b}")),
            ("zone-vip", [zone], Some(subject)) => Some(format!("{subject} from zone {zone}")),
            ("client-vip", [node], Some(subject)) => Some(format!("{subject} from node {node}")),
            ("backend", [pod], Some(subject)) if is_one_endpoint => {
                Some(format!("{subject}, endpoint {pod}"))
            }
            (_, _, subject) => subject,
        }
    }
}

#[cfg(test)]
mod tests {
    use parallax_model::{Probability, TargetId};

    use super::*;
    use crate::{
        catalogue,
        verdict::{NamedCause, RegionRef},
    };

    /// A verdict that names `ties` regions, each with its own cause.
    fn verdict(title: &str, subject: Subject, region: &str, members: &[&str], ties: usize) -> Verdict {
        let region = RegionRef {
            region: region.to_owned(),
            members: members.iter().map(ToString::to_string).collect(),
        };
        Verdict {
            subject,
            class: vec![region.clone(); ties],
            region,
            probability: Probability::default(),
            causes: (1..=ties)
                .map(|n| NamedCause {
                    id: format!("F{n}"),
                    title: title.to_owned(),
                    probability: Probability::default(),
                })
                .collect(),
            sentence: String::new(),
            evidence: Vec::new(),
            locality: Vec::new(),
            ruled_out: Vec::new(),
            separating_probes: Vec::new(),
            deciding_probe: None,
            follow_up_results: Vec::new(),
            facts: Vec::new(),
            remedies: Vec::new(),
            not_excluded: Vec::new(),
            targets: Vec::new(),
        }
    }

    fn target() -> Subject {
        Subject::Target(TargetId::new("https://shop.example.test/").unwrap())
    }

    #[test]
    fn every_cause_has_a_headline_of_at_most_twenty_words_that_begins_with_the_cause() {
        let places: [(Subject, &str, &[&str]); 4] = [
            (target(), "client-vip", &["n1"]),
            (target(), "backend", &["shop/web-0"]),
            (Subject::Network, "pair", &["n1", "n2"]),
            (Subject::Name("every name".to_owned()), "dns-all", &[]),
        ];
        for cause in catalogue::all() {
            for (subject, region, members) in &places {
                for ties in [1, 3] {
                    let headline = verdict(cause.title, subject.clone(), region, members, ties).headline();
                    let words = headline.split_whitespace().count();
                    assert!(words <= MAX_HEADLINE_WORDS, "{words} words: {headline}");
                    assert!(headline.starts_with(cause.title), "{headline}");
                }
            }
        }
    }

    #[test]
    fn the_place_completes_the_cause() {
        for (subject, region, members, headline) in [
            (target(), "vip", &[][..], "it fails: https://shop.example.test/"),
            (
                target(),
                "client-vip",
                &["n1"],
                "it fails: https://shop.example.test/ from node n1",
            ),
            (
                target(),
                "backend",
                &["shop/web-0"],
                "it fails: https://shop.example.test/, endpoint shop/web-0",
            ),
            (Subject::Network, "pair", &["n1", "n2"], "it fails: n1 to n2"),
            (Subject::Network, "cross", &[], "it fails"),
        ] {
            assert_eq!(
                verdict("it fails", subject, region, members, 1).headline(),
                headline
            );
        }
        let tie = verdict("it fails", target(), "vip", &[], 2).headline();
        assert_eq!(tie, "it fails, or another cause: https://shop.example.test/");
    }

    /// The pair of two nodes and the pair of their zones, if the nodes are alone there.
    #[test]
    fn regions_with_the_same_cause_are_no_other_cause() {
        let mut same = verdict("it fails", Subject::Network, "link", &["n1", "n3"], 2);
        same.causes.truncate(1);
        assert_eq!(same.headline(), "it fails: n1 and n3");
    }
}
