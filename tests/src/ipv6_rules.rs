//! Converts IPv4 rules into equivalent IPv6 rules. Every address of the lab has a counterpart ([`addresses::six`])
//! with the same last four bytes, so a prefix grows by 96 bits and nothing else changes.

use std::net::Ipv4Addr;

use crate::cluster::addresses;

/// Number of bits before the IPv4 address in its counterpart.
const PREFIX_OFFSET: u8 = 96;

/// Converts rules to the counterparts of all their addresses.
pub(crate) fn rules(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| rule(line)).collect()
}

/// Converts one line of `iptables-restore`, `ipvsadm -R` or `ip -batch`.
pub(crate) fn rule(line: &str) -> String {
    let words: Vec<String> = line.split(' ').map(word).collect();
    words.join(" ")
}

/// Converts one line of `nft`, in which the names of the family change too.
pub(crate) fn nft(line: &str) -> String {
    let words: Vec<String> = line
        .split(' ')
        .map(|part| match part {
            "ip" => "ip6".to_owned(),
            "ipv4_addr" => "ipv6_addr".to_owned(),
            _ => word(part),
        })
        .collect();
    words.join(" ")
}

fn word(word: &str) -> String {
    if let Ok(address) = word.parse::<Ipv4Addr>() {
        return addresses::ipv6_counterpart(address).to_string();
    }
    if let Some((address, length)) = word.split_once('/')
        && let (Ok(address), Ok(length)) = (address.parse::<Ipv4Addr>(), length.parse::<u8>())
    {
        return format!(
            "{}/{}",
            addresses::ipv6_counterpart(address),
            length.saturating_add(PREFIX_OFFSET)
        );
    }
    if let Some((address, port)) = word.split_once(':')
        && let Ok(address) = address.parse::<Ipv4Addr>()
    {
        return format!("[{}]:{port}", addresses::ipv6_counterpart(address));
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_nft_changes_its_family_and_keeps_the_names_of_its_chains() {
        assert_eq!(
            nft(
                "add rule ip kube-proxy endpoint-a/b/tcp/http__10.244.1.10/8080 meta l4proto tcp dnat to 10.244.1.10:8080"
            ),
            "add rule ip6 kube-proxy endpoint-a/b/tcp/http__10.244.1.10/8080 meta l4proto tcp dnat to [fd00::af4:10a]:8080"
        );
        assert_eq!(
            nft(
                "add element ip kube-proxy service-ips { 10.96.0.50 . tcp . 80 : goto service-a/b/tcp/http }"
            ),
            "add element ip6 kube-proxy service-ips { fd00::a60:32 . tcp . 80 : goto service-a/b/tcp/http }"
        );
    }

    #[test]
    fn addresses_networks_and_sockets_have_a_counterpart_and_every_other_word_stays() {
        for (four, six) in [
            (
                "-A PREROUTING ! -s 10.244.0.0/16 -d 10.96.0.50/32 -p tcp --dport 80 -j MARK --set-xmark 0x4000/0x4000",
                "-A PREROUTING ! -s fd00::af4:0/112 -d fd00::a60:32/128 -p tcp --dport 80 -j MARK --set-xmark 0x4000/0x4000",
            ),
            (
                "-a -t 203.0.113.10:80 -r 10.244.1.10:8080 -m -w 1",
                "-a -t [2001:db8::cb00:710a]:80 -r [fd00::af4:10a]:8080 -m -w 1",
            ),
            (
                "-A SVC-1 -p tcp -j DNAT --to-destination 10.244.2.10:8080",
                "-A SVC-1 -p tcp -j DNAT --to-destination [fd00::af4:20a]:8080",
            ),
            (
                "route add 10.244.2.0/24 via 192.168.0.2",
                "route add fd00::af4:200/120 via fd00::c0a8:2",
            ),
            (":SVC-1 - [0:0]", ":SVC-1 - [0:0]"),
        ] {
            assert_eq!(rule(four), six);
        }
    }
}
