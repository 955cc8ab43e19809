//! The certificates as text.

use parallax_prober::TlsFacts;
use parallax_terminal::escape;

use super::{
    super::{dates, facts::certificate_names_text, round::AddressResult},
    write_line,
};

/// Returns the distinct certificates, each with the addresses that presented it.
pub(super) fn distinct_certificates(reached: &[AddressResult]) -> Vec<(&TlsFacts, Vec<String>)> {
    let mut all: Vec<(&TlsFacts, Vec<String>)> = Vec::new();
    for one in reached {
        let Some(tls) = one
            .requests
            .iter()
            .rev()
            .find_map(|leg| leg.result.tls.as_ref().filter(|tls| !tls.chain.is_empty()))
        else {
            continue;
        };
        match all.iter_mut().find(|(known, _)| *known == tls) {
            Some((_, addresses)) => addresses.push(one.address.to_string()),
            None => all.push((tls, vec![one.address.to_string()])),
        }
    }
    all
}

/// Writes one certificate, with the addresses that presented it if `at` is not empty.
pub(super) fn write_certificate(tls: &TlsFacts, at: &[String], now: i64, text: &mut String) {
    let only = if at.is_empty() {
        String::new()
    } else {
        format!("; presented by {}", at.join(", "))
    };
    let Some(leaf) = tls.chain.first() else {
        return;
    };
    let name = leaf.name_for(&tls.server_name).map_or_else(
        || format!("for {}", certificate_names_text(&leaf.names, leaf.names_left_out)),
        |name| {
            let others = leaf.names.len() - 1 + leaf.names_left_out;
            let others = if others == 0 {
                String::new()
            } else {
                format!(" and {others} more")
            };
            format!("for {}{others}", escape(name))
        },
    );
    let left = dates::days(leaf.not_after - now);
    let until = dates::date(leaf.not_after);
    let until = if leaf.not_after < now {
        format!("expired on {until}")
    } else {
        format!("valid until {until}, {left} days left")
    };
    let subject = if leaf.subject.is_empty() {
        String::new()
    } else {
        format!("{}, ", escape(&leaf.subject))
    };
    write_line(text, "certificate", &format!("{subject}{name}; {until}{only}"));
    let by = if leaf.self_signed {
        "itself".to_owned()
    } else {
        escape(&leaf.issuer)
    };
    let mut facts = vec![
        format!("signed by {by}"),
        format!("chain of {}", tls.chain.len() + tls.left_out),
        escape(&leaf.key),
    ];
    facts.extend(tls.version.map(|version| format!("TLS {version}")));
    facts.extend(tls.alpn.as_deref().map(|alpn| format!("ALPN {}", escape(alpn))));
    write_line(text, "", &facts.join(", "));
}
