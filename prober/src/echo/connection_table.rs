//! The open connections of the echo. It is reachable from every Pod, so a new connection is always admitted and takes the place
//! of an older one if there are too many: requests take milliseconds, so mostly idle connections end.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections that have not presented a nonce: scrapers, kubelets and strangers.
const MAX_STRANGERS: usize = 128;

/// Maximum number of these from one address.
const MAX_STRANGERS_PER_ADDRESS: usize = 16;

/// Maximum number of connections of the mesh: mesh neighbours, and probers that were asked to probe this one.
const MAX_OF_MESH: usize = 128;

/// The open connections, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionTable(Arc<Mutex<Connections>>);

#[derive(Debug, Default)]
struct Connections {
    admitted: u64,
    open: BTreeMap<u64, OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    address: IpAddr,
    is_of_mesh: bool,
    displaced: CancellationToken,
}

/// An admitted connection, no longer counted when it is dropped.
#[derive(Debug)]
pub(super) struct AdmittedConnection {
    table: ConnectionTable,
    number: u64,
    displaced: CancellationToken,
}

impl ConnectionTable {
    /// Admits a connection of a stranger.
    pub(super) fn admit(&self, address: IpAddr) -> AdmittedConnection {
        let displaced = CancellationToken::new();
        let mut connections = self.0.lock();
        let of_address = connections.count(|open| !open.is_of_mesh && open.address == address);
        if of_address >= MAX_STRANGERS_PER_ADDRESS {
            connections.displace_oldest(|open| !open.is_of_mesh && open.address == address);
        }
        if connections.count(|open| !open.is_of_mesh) >= MAX_STRANGERS {
            let most = connections.most_connected();
            connections.displace_oldest(|open| !open.is_of_mesh && Some(open.address) == most);
        }
        connections.admitted += 1;
        let number = connections.admitted;
        let connection = OpenConnection {
            address,
            is_of_mesh: false,
            displaced: displaced.clone(),
        };
        connections.open.insert(number, connection);
        drop(connections);
        AdmittedConnection {
            table: self.clone(),
            number,
            displaced,
        }
    }
}

impl Connections {
    fn count(&self, test: impl Fn(&OpenConnection) -> bool) -> usize {
        self.open.values().filter(|open| test(open)).count()
    }

    /// Ends the oldest connection of those that `test` selects.
    fn displace_oldest(&mut self, test: impl Fn(&OpenConnection) -> bool) {
        let oldest = self
            .open
            .iter()
            .find(|(_, open)| test(open))
            .map(|(number, _)| *number);
        if let Some(connection) = oldest.and_then(|number| self.open.remove(&number)) {
            connection.displaced.cancel();
        }
    }

    /// Returns the stranger's address with the most connections; of several, the one with the oldest connection.
    fn most_connected(&self) -> Option<IpAddr> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for open in self.open.values().filter(|open| !open.is_of_mesh) {
            *counts.entry(open.address).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let mut oldest_first = self.open.values().filter(|open| !open.is_of_mesh);
        oldest_first
            .find(|open| counts.get(&open.address) == Some(&most))
            .map(|open| open.address)
    }
}

impl AdmittedConnection {
    /// Completes when a newer connection has taken the place of this one.
    pub(super) async fn displaced(&self) {
        self.displaced.cancelled().await;
    }

    /// Counts the connection as one of the mesh: it has presented the nonce.
    pub(super) fn mark_as_mesh(&self) {
        let mut connections = self.table.0.lock();
        let own = connections.open.get(&self.number);
        if own.is_none_or(|own| own.is_of_mesh) {
            return;
        }
        if connections.count(|open| open.is_of_mesh) >= MAX_OF_MESH {
            connections.displace_oldest(|open| open.is_of_mesh);
        }
        if let Some(own) = connections.open.get_mut(&self.number) {
            own.is_of_mesh = true;
        }
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        self.table.0.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    fn displaced(connections: &[AdmittedConnection]) -> usize {
        let of = |connection: &&AdmittedConnection| connection.displaced.is_cancelled();
        connections.iter().filter(of).count()
    }

    #[test]
    fn an_address_displaces_its_own_connections_first() {
        let table = ConnectionTable::default();
        let kubelet = table.admit(address(1));
        let flood: Vec<_> = (0..1000).map(|_| table.admit(address(2))).collect();
        assert_eq!(displaced(&flood), 1000 - MAX_STRANGERS_PER_ADDRESS);
        assert!(!kubelet.displaced.is_cancelled());
    }

    #[test]
    fn a_flood_from_many_addresses_displaces_its_oldest_and_never_the_mesh() {
        let table = ConnectionTable::default();
        let neighbours: Vec<_> = (0..20).map(|n| table.admit(address(n))).collect();
        for neighbour in &neighbours {
            neighbour.mark_as_mesh();
        }
        let flood: Vec<_> = (100..1100).map(|n| table.admit(address(n))).collect();
        assert_eq!(displaced(&flood), 1000 - MAX_STRANGERS);
        assert!(
            !flood[999].displaced.is_cancelled(),
            "the newest is always admitted"
        );
        assert_eq!(displaced(&neighbours), 0);
        drop((flood, neighbours));
        assert!(table.0.lock().open.is_empty());
    }

    #[test]
    fn the_mesh_has_places_of_its_own_and_no_more() {
        let table = ConnectionTable::default();
        let neighbours: Vec<_> = (0..200)
            .map(|n| {
                let connection = table.admit(address(n));
                connection.mark_as_mesh();
                connection
            })
            .collect();
        assert_eq!(displaced(&neighbours), 200 - MAX_OF_MESH);
    }
}
