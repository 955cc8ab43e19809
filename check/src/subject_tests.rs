//! Subjects that users type, and the errors of invalid ones.

use clap::Parser;
use proptest::prelude::*;

use super::*;

#[derive(Debug, Parser)]
struct SubjectLine {
    #[command(flatten)]
    args: CheckOptions,
}

fn read(line: &str) -> Result<CheckSubject, String> {
    let args = SubjectLine::try_parse_from(std::iter::once("check").chain(line.split(' ')))
        .unwrap()
        .args;
    CheckSubject::parse(&args.urls[0], &args)
}

#[test]
fn a_host_without_scheme_is_https_but_on_port_80_and_for_challenges() {
    for (line, url) in [
        ("example.org", "https://example.org/"),
        ("example.org:8443", "https://example.org:8443/"),
        ("example.org:80", "http://example.org/"),
        ("example.org/a?b", "https://example.org/a?b"),
        (
            "example.org/?to=http://a.test/",
            "https://example.org/?to=http://a.test/",
        ),
        ("127.0.0.1", "https://127.0.0.1/"),
        ("2001:db8::1", "https://[2001:db8::1]/"),
        ("[2001:db8::1]:8443", "https://[2001:db8::1]:8443/"),
        ("--profile=ca example.org", "http://example.org/"),
    ] {
        let subject = read(line).unwrap();
        assert_eq!(subject.url, url);
        assert!(
            subject.assumptions[0].contains("is assumed"),
            "{:?}",
            subject.assumptions
        );
    }
}

#[test]
fn what_is_given_in_full_is_taken_as_it_is() {
    for (given, url) in [
        ("http://example.org", "http://example.org/"),
        ("HTTPS://Example.org/A", "https://example.org/A"),
        ("tcp://Example.org:80", "tcp://example.org:80"),
        ("tcp://[2001:db8::1]:5432", "tcp://[2001:db8::1]:5432"),
        ("tls://example.org:443/", "tls://example.org:443"),
        ("dns://_sip._tcp.example.org", "dns://_sip._tcp.example.org"),
    ] {
        let subject = read(given).unwrap();
        assert_eq!(
            (subject.url.as_str(), subject.assumptions.len()),
            (url, 0),
            "{given}"
        );
    }
}

#[test]
fn reinterpreted_host_is_reported_for_every_scheme() {
    for (given, host) in [
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("tcp://bücher.example:5432", "xn--bcher-kva.example"),
        ("dns://bücher.example", "xn--bcher-kva.example"),
        ("http://2130706433/", "127.0.0.1"),
    ] {
        let subject = read(given).unwrap();
        assert_eq!(subject.host(), host);
        assert!(
            subject
                .assumptions
                .iter()
                .any(|assumption| assumption.contains(host)),
            "{:?}",
            subject.assumptions
        );
    }
}

#[test]
fn nonsense_is_refused_with_the_argument_and_what_was_expected() {
    for (line, words) in [
        ("ftp://example.org/", "expected http://"),
        ("mailto:somebody", "expected http://"),
        ("https://", "expected http://"),
        ("://example.org", "expected http://"),
        ("https://exa%mple/", "expected http://"),
        ("https://example.org:99999/", "port"),
        ("https://example.org:0/", "port 0"),
        ("tcp://example.org", "needs a port"),
        ("tcp://example.org:1/path", "no path"),
        ("dns://192.0.2.1", "expected a name"),
        ("https://user:secret@example.org/", "user name"),
        ("tcp://user@example.org:1", "user name"),
        ("https://*.example.org/", "wildcard"),
        (
            "--expect-status=200 tcp://example.org:1",
            "--expect-status: only for",
        ),
        ("--http2 http://example.org/", "--http2: "),
        ("--connect-to=192.0.2.1 dns://example.org", "--connect-to: "),
        (
            "--profile=ca https://example.org/",
            "--profile: expected an http://",
        ),
        ("--profile=ca --http2 http://example.org/", "--http2: "),
        (
            "--profile=pebble --ipv6 http://example.org/",
            "--ipv6: not with --profile",
        ),
    ] {
        let error = read(line).unwrap_err();
        let given = line.split(' ').next_back().unwrap();
        assert!(error.contains(given) && error.contains(words), "{line}: {error}");
    }
}

#[test]
fn a_secret_in_a_url_is_not_repeated_beyond_the_argument() {
    let error = read("https://user:secret@example.org/").unwrap_err();
    assert_eq!(error.matches("secret").count(), 1, "{error}");
}

proptest! {
    #[test]
    fn any_argument_is_read_or_refused_without_panic(given in "\\PC{0,60}") {
        let args = SubjectLine::try_parse_from(["check", "x"]).unwrap().args;
        if let Ok(subject) = CheckSubject::parse(&given, &args) {
            prop_assert!(subject.url.is_ascii());
        }
    }

    #[test]
    fn arguments_made_of_the_words_of_urls_are_read_or_refused_without_panic(
        words in proptest::collection::vec("(http|tcp|dns|://|:|/|@|\\[|\\]|80|0|a\\.b|é|\\?|#|%|::1)", 0..9)
    ) {
        let args = SubjectLine::try_parse_from(["check", "x"]).unwrap().args;
        let _ = CheckSubject::parse(&words.concat(), &args);
    }
}
