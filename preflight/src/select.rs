//! Selects the solver of an issuer for a name as cert-manager does. An unexpected selection is a frequent surprise,
//! so reports name the selected solver.
//!
//! Among the solvers whose selector matches, this order decides: a selector that lists the name, then the longest
//! matching zone (in labels), then the most labels of the Certificate, then the position in the list. A missing
//! selector equals an empty one.

use std::{cmp::Reverse, collections::BTreeMap};

use super::cert_manager::{Selector, Solver};

/// The selected solver, and how close the selection was.
#[derive(Debug, Clone, PartialEq)]
pub struct PickedSolver<'a> {
    /// Its index in the issuer's list, from 0.
    pub index: usize,
    /// The solver.
    pub solver: &'a Solver,
    /// Indexes of other solvers that match equally well: only the order of the list decided.
    pub equally_good: Vec<usize>,
}

/// The rank of a match: whether the name is listed, the labels of the longest zone, the number of labels of the
/// Certificate.
type MatchWeight = (bool, usize, usize);

/// Returns the solver for a name. CAs validate wildcards by DNS-01 only, so HTTP-01 solvers are skipped for them.
#[must_use]
pub fn select_solver<'a>(
    solvers: &'a [Solver],
    name: &str,
    labels: &BTreeMap<String, String>,
) -> Option<PickedSolver<'a>> {
    let wildcard = name.starts_with("*.");
    let matching: Vec<(usize, &Solver, MatchWeight)> = solvers
        .iter()
        .enumerate()
        .filter(|(_, solver)| (solver.http01.is_some() && !wildcard) || solver.dns01.is_some())
        .filter_map(|(place, solver)| {
            Some((
                place,
                solver,
                match_weight(solver.selector.as_ref(), name, labels)?,
            ))
        })
        .collect();
    let (place, solver, best) = *matching
        .iter()
        .max_by_key(|(place, _, weight)| (*weight, Reverse(*place)))?;
    let as_good = matching
        .iter()
        .filter(|(other, _, weight)| *other != place && *weight == best)
        .map(|(other, ..)| *other)
        .collect();
    Some(PickedSolver {
        index: place,
        solver,
        equally_good: as_good,
    })
}

/// Returns `None` if the selector does not match.
fn match_weight(
    selector: Option<&Selector>,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> Option<MatchWeight> {
    let Some(selector) = selector else {
        return Some((false, 0, 0));
    };
    let labelled = selector
        .match_labels
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value));
    let named = selector.dns_names.iter().any(|own| own == name);
    let zone = selector
        .dns_zones
        .iter()
        .filter(|zone| is_in_zone(name, zone))
        .map(|zone| dns_labels(zone).count())
        .max()
        .unwrap_or(0);
    let fits =
        labelled && (selector.dns_names.is_empty() || named) && (selector.dns_zones.is_empty() || zone > 0);
    fits.then_some((named, zone, selector.match_labels.len()))
}

fn dns_labels(name: &str) -> impl DoubleEndedIterator<Item = &str> {
    name.trim_end_matches('.')
        .split('.')
        .filter(|label| !label.is_empty())
}

/// Reports whether a name is a zone or below it, ignoring case. A wildcard is inside the zone that it covers.
fn is_in_zone(name: &str, zone: &str) -> bool {
    let mut own = dns_labels(name).rev();
    dns_labels(zone)
        .rev()
        .all(|label| own.next().is_some_and(|own| own.eq_ignore_ascii_case(label)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::from_object;

    fn picked(solvers: Value, name: &str, labels: &[(&str, &str)]) -> Option<(usize, Vec<usize>)> {
        let solvers: Vec<Solver> = from_object(solvers).unwrap();
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        select_solver(&solvers, name, &labels).map(|picked| (picked.index, picked.equally_good))
    }

    type Row = (&'static str, Vec<Value>, Option<usize>, Vec<usize>);

    fn http(selector: &Value) -> Value {
        json!({"selector": selector, "http01": {"ingress": {}}})
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table")]
    fn the_more_specific_solver_wins_and_the_first_of_equal_ones() {
        let shop = "shop.example.test";
        let team = [("team", "a"), ("tier", "b")];
        // (what, selectors in order, expected place, equally good)
        let table: Vec<Row> = vec![
            ("none", vec![], None, vec![]),
            (
                "all match: the first wins",
                vec![json!(null), json!(null)],
                Some(0),
                vec![1],
            ),
            (
                "no selector equals an empty one",
                vec![json!({}), json!(null)],
                Some(0),
                vec![1],
            ),
            (
                "an empty selector equals none",
                vec![json!(null), json!({})],
                Some(0),
                vec![1],
            ),
            (
                "a zone beats no zone",
                vec![json!(null), json!({"dnsZones": ["test"]})],
                Some(1),
                vec![],
            ),
            (
                "the longer zone wins",
                vec![
                    json!({"dnsZones": ["test"]}),
                    json!({"dnsZones": ["example.test"]}),
                ],
                Some(1),
                vec![],
            ),
            (
                "the longest of several zones counts",
                vec![
                    json!({"dnsZones": ["example.test"]}),
                    json!({"dnsZones": ["test", "shop.example.test"]}),
                ],
                Some(1),
                vec![],
            ),
            (
                "a zone ends at a label",
                vec![json!({"dnsZones": ["ple.test"]})],
                None,
                vec![],
            ),
            (
                "a zone in capitals and with a dot",
                vec![json!({"dnsZones": ["Example.TEST."]})],
                Some(0),
                vec![],
            ),
            (
                "the name beats any zone",
                vec![
                    json!({"dnsZones": ["shop.example.test"]}),
                    json!({"dnsNames": [shop]}),
                ],
                Some(1),
                vec![],
            ),
            (
                "labels beat no labels",
                vec![json!(null), json!({"matchLabels": {"team": "a"}})],
                Some(1),
                vec![],
            ),
            (
                "more labels win",
                vec![
                    json!({"matchLabels": {"team": "a"}}),
                    json!({"matchLabels": {"team": "a", "tier": "b"}}),
                ],
                Some(1),
                vec![],
            ),
            (
                "a zone beats any number of labels",
                vec![
                    json!({"matchLabels": {"team": "a", "tier": "b"}}),
                    json!({"dnsZones": ["test"]}),
                ],
                Some(1),
                vec![],
            ),
            (
                "among equal zones the one with labels wins",
                vec![
                    json!({"dnsZones": ["test"]}),
                    json!({"dnsZones": ["test"], "matchLabels": {"team": "a"}}),
                ],
                Some(1),
                vec![],
            ),
            (
                "among equal names the one with the longer zone wins",
                vec![
                    json!({"dnsNames": [shop]}),
                    json!({"dnsNames": [shop], "dnsZones": ["test"]}),
                ],
                Some(1),
                vec![],
            ),
            (
                "several names count once",
                vec![json!({"dnsNames": [shop]}), json!({"dnsNames": ["a.test", shop]})],
                Some(0),
                vec![1],
            ),
            (
                "every criterion that is set must match",
                vec![
                    json!({"dnsNames": [shop], "matchLabels": {"team": "other"}}),
                    json!({"dnsZones": ["other.test"]}),
                ],
                None,
                vec![],
            ),
        ];
        for (case, selectors, place, as_good) in table {
            let solvers: Vec<Value> = selectors.iter().map(http).collect();
            assert_eq!(
                picked(json!(solvers), shop, &team),
                place.map(|place| (place, as_good)),
                "{case}"
            );
        }
    }

    #[test]
    fn a_wildcard_is_for_solvers_by_dns_only_and_matches_its_own_spelling_and_its_zone() {
        let solvers = json!([
            {"http01": {"ingress": {}}},
            {"selector": {"dnsZones": ["example.test"]}, "dns01": {}},
            {"selector": {"dnsNames": ["*.example.test"]}, "dns01": {}},
            {"selector": {"dnsNames": ["example.test"]}, "dns01": {}}]);
        assert_eq!(picked(solvers.clone(), "*.example.test", &[]), Some((2, vec![])));
        assert_eq!(
            picked(json!([{"http01": {"ingress": {}}}]), "*.example.test", &[]),
            None
        );
        assert_eq!(picked(solvers, "a.other.test", &[]), Some((0, vec![])));
    }

    #[test]
    fn a_solver_by_dns_may_win_over_one_by_http() {
        let solvers =
            json!([{"http01": {"ingress": {}}}, {"selector": {"dnsZones": ["test"]}, "dns01": {"a": {}}}]);
        assert_eq!(picked(solvers, "shop.example.test", &[]), Some((1, vec![])));
    }
}
