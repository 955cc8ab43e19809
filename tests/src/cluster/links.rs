//! The links between nodes: cut and restored, invisibly to the API server.

use parallax_model::NodeName;

use super::{ChangeEffect, Cluster, OpError, addresses};

/// A MAC address of no interface: the underlay's switch floods frames to it, and every node ignores them.
const UNASSIGNED_MAC: &str = "02:70:78:00:00:ff";

impl Cluster {
    /// Loses every packet that one of two nodes sends to the other, whatever connection it belongs to. What they send to
    /// each other through the router arrives.
    pub(super) fn cut_link(&mut self, between: &[NodeName; 2]) -> Result<ChangeEffect, OpError> {
        let [first, second] = self.link(between)?;
        if !self.cut_links.insert((first.clone(), second.clone())) {
            return Err(OpError::Link(first, second, "cut already"));
        }
        self.neighbours(&first, &second, |address| {
            format!("replace {address} lladdr {UNASSIGNED_MAC} nud permanent")
        })
    }

    /// Restores a link: the two nodes look each other's MAC address up again.
    pub(super) fn restore_link(&mut self, between: &[NodeName; 2]) -> Result<ChangeEffect, OpError> {
        let [first, second] = self.link(between)?;
        if !self.cut_links.remove(&(first.clone(), second.clone())) {
            return Err(OpError::Link(first, second, "not cut"));
        }
        self.neighbours(&first, &second, |address| format!("del {address}"))
    }

    /// Returns two nodes in the order of the file.
    fn link(&self, between: &[NodeName; 2]) -> Result<[NodeName; 2], OpError> {
        let [first, second] = between;
        let [from, to] = [self.known(first)?, self.known(second)?];
        if from.number == to.number {
            return Err(OpError::Link(first.clone(), second.clone(), "no link"));
        }
        let mut ends = between.clone();
        if from.number > to.number {
            ends.reverse();
        }
        Ok(ends)
    }

    /// Changes what each of two nodes takes for the MAC address of the other.
    fn neighbours(
        &self,
        first: &NodeName,
        second: &NodeName,
        change: impl Fn(std::net::Ipv4Addr) -> String,
    ) -> Result<ChangeEffect, OpError> {
        let at = |node: &NodeName, other: &NodeName| {
            let address = addresses::underlay_address(self.known(other)?.number);
            Ok(format!("ip -n {node} neigh {} dev eth0", change(address)))
        };
        let script = format!("{} && {}", at(first, second)?, at(second, first)?);
        Ok(ChangeEffect::Run(None, script))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn apply(cluster: &mut Cluster, yaml: &str) -> Result<ChangeEffect, OpError> {
        cluster.apply(&serde_saphyr::from_str(yaml).unwrap())
    }

    #[test]
    fn a_link_is_cut_at_both_ends_once_and_restored_once() {
        let text = include_str!("../../incidents/bad-pair.yaml");
        let incident = crate::incident_file::parse(Path::new("bad-pair.yaml"), text).unwrap();
        let mut cluster = Cluster::derive(&incident).unwrap();
        assert_eq!(
            apply(&mut cluster, "restore-link: {between: [n1, n3]}")
                .unwrap_err()
                .to_string(),
            "the link between n1 and n3 is not cut"
        );
        let cut = apply(&mut cluster, "cut-link: {between: [n3, n1]}");
        assert_eq!(
            cut,
            Ok(ChangeEffect::Run(
                None,
                "ip -n n1 neigh replace 192.168.0.3 lladdr 02:70:78:00:00:ff nud permanent dev eth0 && \
                 ip -n n3 neigh replace 192.168.0.1 lladdr 02:70:78:00:00:ff nud permanent dev eth0"
                    .to_owned()
            ))
        );
        assert_eq!(
            apply(&mut cluster, "cut-link: {between: [n1, n3]}")
                .unwrap_err()
                .to_string(),
            "the link between n1 and n3 is cut already"
        );
        assert!(apply(&mut cluster, "cut-link: {between: [n2, n2]}").is_err());
        let restored = apply(&mut cluster, "restore-link: {between: [n1, n3]}");
        assert_eq!(
            restored,
            Ok(ChangeEffect::Run(
                None,
                "ip -n n1 neigh del 192.168.0.3 dev eth0 && ip -n n3 neigh del 192.168.0.1 dev eth0"
                    .to_owned()
            ))
        );
    }
}
