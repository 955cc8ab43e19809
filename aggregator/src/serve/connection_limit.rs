//! Limits the connections of one address, so that one client cannot take those of all.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

/// Maximum number of connections from one address. A proxy in front of the page may need hundreds, a prober two.
const MAX_PER_ADDRESS: usize = 1024;

/// The address of a request's connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);

/// The open connections by address.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionLimit(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A counted connection.
#[derive(Debug)]
pub(super) struct CountedConnection {
    limit: ConnectionLimit,
    address: IpAddr,
}

impl ConnectionLimit {
    /// Counts a connection; `None` if the address has too many.
    pub(super) fn admit(&self, address: IpAddr) -> Option<CountedConnection> {
        let mut open = self.0.lock();
        let count = open.entry(address).or_default();
        if *count >= MAX_PER_ADDRESS {
            return None;
        }
        *count += 1;
        drop(open);
        Some(CountedConnection {
            limit: self.clone(),
            address,
        })
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut open = self.limit.0.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_too_many_connections_is_refused_until_one_ends_and_others_are_not() {
        let limit = ConnectionLimit::default();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let mut open: Vec<CountedConnection> =
            (0..MAX_PER_ADDRESS).map(|_| limit.admit(one).unwrap()).collect();
        assert!(limit.admit(one).is_none());
        assert!(limit.admit(other).is_some());
        open.pop();
        assert!(limit.admit(one).is_some());
        drop(open);
        assert!(limit.0.lock().is_empty());
    }
}
