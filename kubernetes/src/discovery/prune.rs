//! Removes and notes whatever the topology rejects, so that one invalid object never affects the rest.

use parallax_diagnosis::topology::{TopologyProblem, TopologySpec};

use super::notes::{NoteCollector, quote};

/// Removes the items that problems refer to. Returns whether anything was removed.
pub fn prune(spec: &mut TopologySpec, problems: &[TopologyProblem], notes: &mut NoteCollector) -> bool {
    let mut places: Vec<(EndpointPosition, &TopologyProblem)> = problems
        .iter()
        .filter_map(|problem| Some((parse_path(&problem.path)?, problem)))
        .collect();
    // In descending order, so that removing an item does not shift the remaining indexes.
    places.sort_by(|(a, _), (b, _)| b.cmp(a));
    places.dedup_by(|(a, _), (b, _)| a == b);
    let mut pruned = false;
    for (place, problem) in places {
        if let Some(removed) = remove(spec, &place) {
            notes.add(
                removed,
                format_args!("skipped: {}", quote(&problem.message).trim_matches('"')),
            );
            pruned = true;
        }
    }
    pruned
}

/// Name of a list, index in it, and the index of an endpoint in that item.
type EndpointPosition = (String, usize, Option<usize>);

fn parse_path(path: &str) -> Option<EndpointPosition> {
    let (list, rest) = path.split_once('[')?;
    let (index, rest) = rest.split_once(']')?;
    let inner = rest
        .strip_prefix(".endpoints[")
        .and_then(|rest| rest.split_once(']'));
    let inner = inner.and_then(|(index, _)| index.parse().ok());
    Some((list.to_owned(), index.parse().ok()?, inner))
}

fn remove(spec: &mut TopologySpec, (list, index, inner): &EndpointPosition) -> Option<String> {
    fn take<T>(list: &mut Vec<T>, index: usize, name: impl Fn(&T) -> String) -> Option<String> {
        (index < list.len()).then(|| name(&list.remove(index)))
    }
    match (list.as_str(), inner) {
        ("services", Some(inner)) => {
            let service = spec.services.get_mut(*index)?;
            let name = format!("Service {}", service.key());
            take(&mut service.endpoints, *inner, |e| {
                format!("{name}, endpoint {}", e.pod)
            })
        }
        ("services", None) => take(&mut spec.services, *index, |s| format!("Service {}", s.key())),
        ("nodes", _) => take(&mut spec.nodes, *index, |n| format!("Node {}", n.name)),
        ("published", _) => take(&mut spec.published, *index, |p| {
            format!("target {}", p.target.url)
        }),
        ("targets", _) => take(&mut spec.targets, *index, |t| format!("target {}", t.url)),
        ("balancers", _) => take(&mut spec.balancers, *index, |b| format!("balancer {}", b.name)),
        _ => None,
    }
}
