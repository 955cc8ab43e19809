//! The PROXY protocol, version 1: one line before the first byte (haproxy's `proxy-protocol.txt`, §2.1).

use std::net::{IpAddr, SocketAddr};

use parallax_model::ProxyHeader;

/// Returns the line that a balancer would send for a connection between these addresses.
pub(crate) fn v1(header: ProxyHeader, client: SocketAddr, server: SocketAddr) -> String {
    let family = match (header, client.ip().to_canonical(), server.ip().to_canonical()) {
        (ProxyHeader::Tcp, IpAddr::V4(client), IpAddr::V4(server)) => {
            Some(("TCP4", IpAddr::V4(client), IpAddr::V4(server)))
        }
        (ProxyHeader::Tcp, IpAddr::V6(client), IpAddr::V6(server)) => {
            Some(("TCP6", IpAddr::V6(client), IpAddr::V6(server)))
        }
        _ => None,
    };
    match family {
        Some((family, from, to)) => {
            format!(
                "PROXY {family} {from} {to} {} {}\r\n",
                client.port(),
                server.port()
            )
        }
        None => "PROXY UNKNOWN\r\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_what_a_balancer_would_send() {
        let line =
            |header, client: &str, server: &str| v1(header, client.parse().unwrap(), server.parse().unwrap());
        for (client, server, expected) in [
            (
                "192.0.2.1:4711",
                "203.0.113.10:80",
                "PROXY TCP4 192.0.2.1 203.0.113.10 4711 80\r\n",
            ),
            (
                "[2001:db8::1]:4711",
                "[2001:db8::2]:443",
                "PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\n",
            ),
            (
                "[::ffff:192.0.2.1]:1",
                "203.0.113.10:80",
                "PROXY TCP4 192.0.2.1 203.0.113.10 1 80\r\n",
            ),
            ("[2001:db8::1]:1", "203.0.113.10:80", "PROXY UNKNOWN\r\n"),
        ] {
            assert_eq!(line(ProxyHeader::Tcp, client, server), expected);
        }
        assert_eq!(
            line(ProxyHeader::Unknown, "192.0.2.1:1", "192.0.2.2:2"),
            "PROXY UNKNOWN\r\n"
        );
    }
}
