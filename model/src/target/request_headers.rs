//! The request headers that a target may set.

use std::collections::{BTreeMap, BTreeSet};

use super::InvalidTarget;

/// Maximum number of headers.
const MAX_HEADERS: usize = 16;

/// Maximum size of all names and values in bytes.
const MAX_BYTES: usize = 4096;

/// Headers whose values are secrets, with what to do instead.
const SECRET: &[(&[&str], &str)] = &[
    (
        &["authorization"],
        "a header's value appears in plans, recordings and the API; use credential",
    ),
    (
        &["cookie"],
        "a cookie usually carries a session, and a header's value appears in plans, recordings and the API; use credential",
    ),
];

/// Headers that the prober sets itself, with what to do instead.
const RESERVED: &[(&[&str], &str)] = &[
    (&["host"], "the host of the url is sent; remove the header"),
    (
        &["content-length", "transfer-encoding"],
        "the prober frames the body itself; remove the header",
    ),
    (&["content-type"], "use contentType"),
    (
        &[
            "connection",
            "keep-alive",
            "te",
            "trailer",
            "upgrade",
            "http2-settings",
        ],
        "it applies to one connection, which the prober controls; remove the header (for a kept connection, use keepAlive)",
    ),
    (
        &["user-agent"],
        "it identifies the probes in the server's log; remove the header",
    ),
    (
        &["accept-encoding"],
        "the prober compares the content as it is; remove the header",
    ),
    (
        &["expect"],
        "the prober does not wait for an interim response; remove the header",
    ),
];

/// Names that start with this belong to the hop to a proxy (RFC 9110 §11.7), and `Proxy-Connection` to old clients.
const PROXY_PREFIX: &str = "proxy-";

/// Checks names and values, individually and together. No message contains a value: it may be a secret by mistake.
pub(super) fn check(headers: &BTreeMap<String, String>) -> Result<(), InvalidTarget> {
    let refused = |name: &str, reason| {
        Err(InvalidTarget::Header {
            name: name.chars().take(64).collect(),
            reason,
        })
    };
    let out_of_range = |max: usize, unit, value: usize| {
        Err(InvalidTarget::OutOfRange {
            field: "requestHeaders",
            min: 0,
            max: max as u64,
            unit,
            value: value as u64,
        })
    };
    if headers.len() > MAX_HEADERS {
        return out_of_range(MAX_HEADERS, "headers", headers.len());
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_BYTES {
        return out_of_range(MAX_BYTES, "bytes of names and values", bytes);
    }
    let mut names = BTreeSet::new();
    for (name, value) in headers {
        if name.is_empty() || !name.bytes().all(is_token) {
            return refused(
                name,
                "expected a header name (RFC 9110 §5.1) of letters, digits and -",
            );
        }
        let lower = name.to_ascii_lowercase();
        if let Some(reason) = reserved_header_reason(&lower).or_else(|| reason_in(SECRET, &lower)) {
            return refused(name, reason);
        }
        if !is_value(value) {
            return refused(
                name,
                "expected a value of visible ASCII characters and spaces (RFC 9110 §5.5), without a space at either end",
            );
        }
        if !names.insert(lower) {
            return refused(
                name,
                "the header is set twice, in different case; remove one of them",
            );
        }
    }
    Ok(())
}

/// Why neither a target nor a credential may set this header, with what to do instead; `name` is in lower case.
#[must_use]
pub fn reserved_header_reason(name: &str) -> Option<&'static str> {
    if name.starts_with(PROXY_PREFIX) {
        return Some("it is for the proxy only; use httpProxy and proxyCredential");
    }
    reason_in(RESERVED, name)
}

/// The names for which [`reserved_header_reason`] has a reason of their own, in lower case.
pub fn reserved_headers() -> impl Iterator<Item = &'static str> {
    RESERVED.iter().flat_map(|(names, _)| *names).copied()
}

fn reason_in(list: &[(&[&str], &'static str)], name: &str) -> Option<&'static str> {
    let (_, reason) = list.iter().find(|(names, _)| names.contains(&name))?;
    Some(reason)
}

/// `tchar` of RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// `field-value` of RFC 9110 §5.5, without obsolete bytes above 127.
fn is_value(value: &str) -> bool {
    let inside = |byte: u8| byte == b' ' || byte == b'\t' || byte.is_ascii_graphic();
    value.bytes().all(inside) && value.trim() == value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, value: &str) -> String {
        let headers = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        check(&headers).map_or_else(|refused| refused.to_string(), |()| String::new())
    }

    #[test]
    fn each_refused_header_says_what_to_do_instead() {
        for (name, expected) in [
            ("Host", "the host of the url is sent"),
            ("Authorization", "use credential"),
            ("cookie", "use credential"),
            ("Proxy-Authorization", "use httpProxy and proxyCredential"),
            ("proxy-connection", "use httpProxy and proxyCredential"),
            ("Content-Length", "the prober frames the body itself"),
            ("Transfer-Encoding", "the prober frames the body itself"),
            ("Content-Type", "use contentType"),
            ("Connection", "use keepAlive"),
            ("Keep-Alive", "use keepAlive"),
            ("TE", "applies to one connection"),
            ("Trailer", "applies to one connection"),
            ("Upgrade", "applies to one connection"),
            ("HTTP2-Settings", "applies to one connection"),
            ("User-Agent", "identifies the probes"),
            ("Accept-Encoding", "compares the content as it is"),
            ("Expect", "does not wait for an interim response"),
            ("X Team", "expected a header name"),
            ("X-Team:", "expected a header name"),
            ("", "expected a header name"),
            ("Überschrift", "expected a header name"),
        ] {
            let message = message(name, "v");
            assert!(
                message.starts_with(&format!("requestHeaders: {name:?}: ")) && message.contains(expected),
                "{name}: {message}"
            );
        }
    }

    #[test]
    fn a_value_that_would_end_the_header_is_refused_and_not_repeated() {
        for value in [
            "s3cret\r\nX-Other: 1",
            "s3cret\n",
            " s3cret",
            "s3cret ",
            "s3crét",
            "\0s3cret",
        ] {
            let message = message("X-Team", value);
            assert!(
                message.contains("visible ASCII") && !message.contains("s3c"),
                "{message}"
            );
        }
        for value in ["", "a b", "a\tb", "text/plain; q=0.5, */*"] {
            assert_eq!(message("X-Team", value), "", "{value:?}");
        }
        assert_eq!(message("Accept", "application/json"), "");
    }

    #[test]
    fn number_and_size_are_bounded_and_a_name_is_set_once() {
        let many: BTreeMap<_, _> = (0..17).map(|n| (format!("x-{n}"), String::new())).collect();
        assert!(
            check(&many)
                .unwrap_err()
                .to_string()
                .contains("0 to 16 headers, got 17")
        );
        let large = BTreeMap::from([("x-a".to_owned(), "v".repeat(4094))]);
        assert!(check(&large).unwrap_err().to_string().contains("got 4097"));
        let twice = BTreeMap::from(["X-A", "x-a"].map(|name| (name.to_owned(), String::new())));
        assert!(check(&twice).unwrap_err().to_string().contains("set twice"));
    }
}
