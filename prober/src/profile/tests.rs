//! The rules of each client: redirects, their number, trimming.

use http::Response;

use super::*;
use crate::{
    failure::{EarlyEnd, FailureOrigin},
    redirect::{RedirectTrail, RequestDestination},
};

/// Whether the profile follows a redirect with this status from `http://shop.example.org/` to a location.
fn follows(client: ClientProfile, code: u16, to: &str) -> bool {
    let at = RequestDestination::from_url(
        &"http://shop.example.org/.well-known/acme-challenge/t"
            .parse()
            .unwrap(),
    )
    .unwrap();
    let head = Response::builder()
        .status(code)
        .header("location", to)
        .body(())
        .unwrap()
        .into_parts()
        .0;
    let next = RedirectTrail::new(&at).next(&at, &head, &Profile::for_client(client).rules());
    matches!(next, Ok(Some(_)))
}

#[test]
fn each_client_follows_the_redirects_it_follows_in_its_source() {
    use ClientProfile::{Boulder, CertManager, Pebble};
    let long = format!("https://shop.example.org/{}", "x".repeat(2001));
    // Boulder, cert-manager, Pebble.
    for (code, to, expected) in [
        (301, "https://shop.example.org/", [true, true, true]),
        (302, "https://www.example.org/", [true, true, true]),
        (307, "/elsewhere", [true, true, true]),
        (308, "https://shop.example.org/", [true, true, true]),
        (303, "https://shop.example.org/", [false, true, true]),
        (301, "http://shop.example.org:8080/", [false, true, true]),
        // Both ports are allowed for either scheme.
        (301, "https://shop.example.org:80/", [true, true, true]),
        (301, "ftp://shop.example.org/", [false, false, false]),
        (301, "https://10.0.0.1/", [false, true, true]),
        (301, "https://8.8.8.8/", [true, true, true]),
        (301, "https://shop.example.org.well-known/", [false, true, true]),
        (301, "https://shop/", [false, true, true]),
        (301, &long, [false, true, true]),
        // The same URL again.
        (
            301,
            "http://shop.example.org/.well-known/acme-challenge/t",
            [false, true, true],
        ),
    ] {
        let got = [Boulder, CertManager, Pebble].map(|client| follows(client, code, to));
        assert_eq!(got, expected, "{code} {to}");
    }
}

#[test]
fn each_client_gives_up_after_its_own_number_of_redirects() {
    for (client, most) in [
        (ClientProfile::CertManager, 9),
        (ClientProfile::Boulder, 11),
        (ClientProfile::Pebble, 9),
    ] {
        let mut at = RequestDestination::from_url(&"http://shop.example.org/0".parse().unwrap()).unwrap();
        let mut trail = RedirectTrail::new(&at);
        let rules = Profile::for_client(client).rules();
        let mut followed = 0;
        let ended = loop {
            let to = format!("/{}", followed + 1);
            let head = Response::builder()
                .status(302)
                .header("location", to)
                .body(())
                .unwrap()
                .into_parts()
                .0;
            match trail.next(&at, &head, &rules) {
                Ok(next) => at = next.unwrap(),
                Err(refused) => break EarlyEnd::from(refused).origin,
            }
            followed += 1;
        };
        assert_eq!(followed, most, "{client:?}");
        assert_eq!(
            ended,
            FailureOrigin::Target(parallax_model::FailureKind::RedirectTooMany)
        );
    }
}

#[test]
fn a_body_is_compared_after_each_clients_own_trimming() {
    use ClientProfile::{Boulder, CertManager, Pebble};
    for (body, expected) in [
        ("key", [true, true, true]),
        ("key\n", [true, false, true]),
        ("key\r\n\t", [true, false, true]),
        ("key\r\n  ", [true, false, false]),
        ("key\u{a0}", [true, false, false]),
        ("\nkey", [false, false, false]),
    ] {
        let got = [Boulder, CertManager, Pebble]
            .map(|client| Profile::for_client(client).body.trim.apply(body) == "key");
        assert_eq!(got, expected, "{body:?}");
    }
}
