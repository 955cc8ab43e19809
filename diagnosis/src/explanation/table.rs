//! Builds the contingency table: probes and failures by channel and placement, and whether the named region predicts
//! them.
//!
//! Sentences refer only to this table, so its numbers are the printed ones: whole probes.

use std::collections::BTreeMap;

use parallax_model::{Channel, Placement};

use super::VerdictContext;
use crate::{
    catalogue::table::{ContingencyTable, PredictedFailure, RowKey, TablePart, TableRow},
    evidence::{
        cells::{CellCounts, CellKey, Destination, RoundCells, is_through_front},
        weights::to_whole_probes,
    },
    regions::{Region, share::alpha},
    verdict::EvidenceRow,
};

impl VerdictContext<'_> {
    /// Returns the table of a region: the subject's own cells first, then related cells.
    pub(super) fn table(&self, cells: &RoundCells, region: Region) -> ContingencyTable {
        let mut rows = self.rows(cells, region, TablePart::Own);
        for (front, cells) in &self.sibling_fronts {
            rows.extend(self.rows(cells, region, TablePart::Sibling(*front)));
        }
        if let Some(cells) = &self.all_fronts {
            rows.extend(self.rows(cells, region, TablePart::Everywhere));
        }
        ContingencyTable { rows }
    }

    fn rows(&self, cells: &RoundCells, region: Region, part: TablePart) -> Vec<TableRow> {
        let mut rows: BTreeMap<RowKey, CellCounts> = BTreeMap::new();
        for (key, counts) in cells {
            rows.entry(self.row_key(key, region, part))
                .or_default()
                .add(counts);
        }
        rows.into_iter()
            .filter(|(_, counts)| counts.unweighted_probes > 0)
            .map(|(key, counts)| {
                // Round a fraction of a probe up to one, or its row would read "0 of 0".
                let probes = to_whole_probes(counts.unweighted_probes).max(1);
                let failures = to_whole_probes(counts.unweighted_failures)
                    .max(u64::from(counts.unweighted_failures > 0))
                    .min(probes);
                TableRow {
                    key,
                    probes,
                    failures,
                    kinds: self.kind_list(&counts),
                }
            })
            .collect()
    }

    /// Returns the key of the row that a cell belongs to.
    fn row_key(&self, key: &CellKey, region: Region, part: TablePart) -> RowKey {
        let reach = if matches!(part, TablePart::Sibling(_)) {
            PredictedFailure::Outside
        } else {
            PredictedFailure::from(alpha(&[region], key, self.paths))
        };
        let client = self.paths.node_of_client(key.client);
        let node = self.paths.mesh.destination_node(key.dest);
        let (mut from_member, mut to_member, mut within) = (None, None, None);
        match region {
            Region::Client(member) | Region::ClientVip(member) | Region::DnsClient(member) => {
                from_member = Some(client == Some(member));
            }
            Region::Bnode(member) | Region::BnodeRemote(member) => {
                to_member = node.map(|node| node == member);
                from_member = (to_member == Some(true)).then_some(client == Some(member));
            }
            Region::Backend(member) if key.channel != Channel::Mesh => {
                to_member = match key.dest {
                    Destination::Entry(pod) => Some(pod == member),
                    _ => None,
                };
            }
            Region::DnsName(member) => to_member = Some(key.dest.name() == Some(member)),
            Region::Cross | Region::Same | Region::SameVip => {
                within = client.and_then(|client| Some(node? == client));
            }
            _ => {}
        }
        RowKey {
            part,
            channel: key.channel,
            prediction: reach,
            placement: self.placement(key),
            from_member,
            to_member,
            within_node: within,
        }
    }

    /// Returns the placement, which only matters for probes through an address.
    fn placement(&self, key: &CellKey) -> Option<Placement> {
        if !is_through_front(key.channel) {
            return None;
        }
        let Some(node) = self.paths.node_of_client(key.client) else {
            return Some(Placement::Outside);
        };
        if self.paths.local_nodes.is_empty() {
            return None;
        }
        if !self.paths.local_nodes.contains(&node) {
            return Some(Placement::NoLocal);
        }
        let entry_node = if let Destination::Entry(pod) = key.dest {
            self.paths.mesh.pod_node(pod)
        } else {
            let eligible = self.paths.eligible(key.client);
            let all_local = !eligible.is_empty()
                && eligible
                    .iter()
                    .all(|pod| self.paths.mesh.pod_nodes.get(pod) == Some(&node));
            all_local.then_some(node)
        };
        match entry_node {
            Some(entry) if entry == node => Some(Placement::SameNode),
            Some(_) => Some(Placement::CrossNode),
            None => Some(Placement::Unknown),
        }
    }

    fn kind_list(&self, counts: &CellCounts) -> Vec<(String, u64)> {
        let mut by_label: BTreeMap<String, u64> = BTreeMap::new();
        for ((kind, status), (_, seen)) in &counts.kinds {
            let kind = self.registry.kinds.name(*kind);
            let label = match status {
                Some(status) => format!("{kind} {status}"),
                None => kind.to_string(),
            };
            *by_label.entry(label).or_default() += seen;
        }
        let mut list: Vec<(String, u64)> = by_label
            .into_iter()
            .map(|(label, seen)| (label, to_whole_probes(seen).max(1)))
            .collect();
        list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        list
    }

    /// Formats the table for people.
    pub(super) fn formatted_rows(&self, table: &ContingencyTable, region: Region) -> Vec<EvidenceRow> {
        let row = |row: &TableRow| EvidenceRow {
            clients: self.row_description(&row.key, region),
            channel: row.key.channel,
            placement: row.key.placement,
            probes: row.probes,
            failures: row.failures,
            kinds: row.kinds.clone(),
            predicted: row.key.prediction != PredictedFailure::Outside,
        };
        table.rows.iter().map(row).collect()
    }
}
