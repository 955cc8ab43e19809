//! The rules of credentials, without a network.

use std::path::Path;

use super::*;
use crate::failure::FailureOrigin;

fn host(name: &str) -> HostName {
    HostName::new(name).unwrap()
}

fn source(files: CredentialFiles, allow_plaintext: bool) -> CredentialSource {
    CredentialSource {
        name: "shop".parse().unwrap(),
        files,
        header: None,
        hosts: vec!["shop.example.test".parse().unwrap()],
        allow_plaintext,
    }
}

fn obtained(
    files: CredentialFiles,
    to: &str,
    authenticated: bool,
    allow: bool,
) -> Result<HeaderValue, EarlyEnd> {
    let store = CredentialStore::new(vec![source(files, allow)]).unwrap();
    let host = host(to);
    let to = Recipient {
        host: &host,
        authenticated,
    };
    let (header, value) = store.request_header(&"shop".parse().unwrap(), to)?;
    assert_eq!(header, AUTHORIZATION);
    Ok(value)
}

fn mounted(keys: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (key, content) in keys {
        std::fs::write(folder.path().join(key), content).unwrap();
    }
    folder
}

fn directory(path: &Path) -> CredentialFiles {
    CredentialFiles::Directory(path.to_owned())
}

#[test]
fn a_mounted_secret_is_a_token_or_a_user_with_a_password() {
    for (keys, expected) in [
        (&[("token", "s3cret\n")][..], "Bearer s3cret"),
        (&[("username", "u\n"), ("password", "p:w\n")], "Basic dTpwOnc="),
    ] {
        let folder = mounted(keys);
        let value = obtained(directory(folder.path()), "shop.example.test", true, false).unwrap();
        assert_eq!(value.to_str().unwrap(), expected);
        assert_eq!(format!("{value:?}"), "Sensitive");
    }
}

#[test]
fn what_cannot_be_read_is_no_credential_and_the_reason_contains_no_secret() {
    for (keys, expected) in [
        (&[][..], "neither the key token nor"),
        (
            &[("token", "s3cret"), ("username", "s3cret")],
            "both the keys token and username",
        ),
        (&[("token", "")], "one line of printable ASCII"),
        (&[("token", "s3cret\nX-Other: 1")], "one line of printable ASCII"),
        (&[("username", "s3cret")], "password: No such file"),
        (
            &[("username", "s3:cret"), ("password", "s3cret")],
            "without a colon",
        ),
        (
            &[("username", "u"), ("password", "s3cret\r\nX-Other: 1")],
            "without control characters",
        ),
    ] {
        let folder = mounted(keys);
        let end = obtained(directory(folder.path()), "shop.example.test", true, false).unwrap_err();
        assert_eq!(end.origin, FailureOrigin::Own(OwnFault::NoCredential));
        let detail = end.detail.unwrap();
        assert!(detail.contains(expected) && !detail.contains("cret"), "{detail}");
    }
}

#[test]
fn a_credential_with_a_header_is_the_content_of_its_token() {
    let shop = host("shop.example.test");
    let to = Recipient {
        host: &shop,
        authenticated: true,
    };
    let basic: &[_] = &[("username", "s3cret"), ("password", "s3cret")];
    for (keys, expected) in [
        (&[("token", "s3cret\n")][..], Ok("s3cret")),
        (&[("token", "session=s3cret; a=b")], Ok("session=s3cret; a=b")),
        (
            &[("token", "s3cret\r\nX-Other: 1")],
            Err("one line of visible ASCII"),
        ),
        (&[("token", " s3cret")], Err("one line of visible ASCII")),
        (&[("token", "")], Err("one line of visible ASCII")),
        (basic, Err("expected the key token, without username")),
        (&[], Err("expected the key token, without username")),
    ] {
        let folder = mounted(keys);
        let credential = CredentialSource {
            header: "X-Api-Key".parse().ok(),
            ..source(directory(folder.path()), false)
        };
        let store = CredentialStore::new(vec![credential]).unwrap();
        match (store.request_header(&"shop".parse().unwrap(), to), expected) {
            (Ok((header, value)), Ok(expected)) => {
                assert_eq!(
                    (header.as_str(), value.to_str().unwrap()),
                    ("x-api-key", expected)
                );
                assert_eq!(format!("{value:?}"), "Sensitive");
            }
            (Err(end), Err(expected)) => {
                assert_eq!(end.origin, FailureOrigin::Own(OwnFault::NoCredential));
                let detail = end.detail.unwrap();
                assert!(detail.contains(expected) && !detail.contains("cret"), "{detail}");
            }
            (got, _) => panic!("{keys:?}: {got:?}"),
        }
    }
}

#[test]
fn a_credential_with_a_header_is_not_sent_to_a_proxy() {
    let folder = mounted(&[("token", "s3cret")]);
    let credential = CredentialSource {
        header: "X-Api-Key".parse().ok(),
        ..source(directory(folder.path()), true)
    };
    let store = CredentialStore::new(vec![credential]).unwrap();
    let shop = host("shop.example.test");
    let to = Recipient {
        host: &shop,
        authenticated: false,
    };
    let end = store
        .proxy_authorization(&"shop".parse().unwrap(), to)
        .unwrap_err();
    assert_eq!(end.origin, FailureOrigin::Own(OwnFault::CredentialRefused));
    assert!(end.detail.unwrap().contains("expects Proxy-Authorization"));
}

#[test]
fn a_credential_is_for_its_hosts_and_for_tls_only() {
    let folder = mounted(&[("token", "s3cret")]);
    let files = || directory(folder.path());
    for (to, authenticated, allow, expected) in [
        ("shop.example.test", true, false, None),
        ("shop.example.test", false, true, None),
        ("shop.example.test", false, false, Some("allowPlaintext")),
        ("other.example.test", true, true, Some("list the host")),
    ] {
        let got = obtained(files(), to, authenticated, allow).map_err(|end| {
            assert_eq!(end.origin, FailureOrigin::Own(OwnFault::CredentialRefused));
            end.detail.unwrap()
        });
        match (got, expected) {
            (Ok(_), None) => {}
            (Err(detail), Some(expected)) => assert!(detail.contains(expected), "{detail}"),
            (got, _) => panic!("{to}: {got:?}"),
        }
    }
}

#[test]
fn a_use_that_works_does_not_end_the_problem_of_another_use() {
    let folder = mounted(&[("token", "s3cret")]);
    let store = CredentialStore::new(vec![source(directory(folder.path()), false)]).unwrap();
    let (name, host) = ("shop".parse().unwrap(), host("shop.example.test"));
    let obtain = |authenticated| {
        let to = Recipient {
            host: &host,
            authenticated,
        };
        store.request_header(&name, to).is_ok()
    };
    assert!(!obtain(false) && obtain(true));
    assert_eq!(
        store.logged.lock().len(),
        1,
        "the problem over plain http is not logged again"
    );
}

#[test]
fn an_unknown_credential_and_one_of_the_other_kind_are_no_credential() {
    let folder = mounted(&[("token", "s3cret")]);
    let store = CredentialStore::new(vec![source(directory(folder.path()), false)]).unwrap();
    let shop = host("shop.example.test");
    let to = Recipient {
        host: &shop,
        authenticated: true,
    };
    let unknown = store.request_header(&"other".parse().unwrap(), to).unwrap_err();
    assert_eq!(unknown.origin, FailureOrigin::Own(OwnFault::NoCredential));
    assert!(unknown.detail.unwrap().contains("no credential other"));
    let certificate = store
        .client_certificate(&"shop".parse().unwrap(), &shop)
        .unwrap_err();
    assert!(certificate.detail.unwrap().contains("tls.crt"));
}

#[test]
fn a_key_that_is_not_of_the_certificate_is_no_credential() {
    let pem = |key: &rcgen::KeyPair| {
        let params = rcgen::CertificateParams::new(vec!["client.example.test".to_owned()]).unwrap();
        params.self_signed(key).unwrap().pem()
    };
    let [own, other] = [(); 2].map(|()| rcgen::KeyPair::generate().unwrap());
    for (key, expected) in [
        (own.serialize_pem(), None),
        (other.serialize_pem(), Some("belongs to the certificate")),
        ("s3cret".to_owned(), Some("a private key in PEM form")),
    ] {
        let folder = mounted(&[("tls.crt", &pem(&own)), ("tls.key", &key)]);
        let got = directory(folder.path()).client_certificate();
        match (got, expected) {
            (Ok(certificate), None) => assert_eq!(format!("{certificate:?}"), "ClientCertificate(redacted)"),
            (Err(detail), Some(expected)) => {
                assert!(
                    detail.contains(expected) && !detail.contains("s3cret"),
                    "{detail}"
                );
            }
            (got, _) => panic!("{got:?}"),
        }
    }
}

#[test]
fn credentials_have_distinct_names_and_hosts() {
    let files = || CredentialFiles::BearerToken("/token".into());
    let twice = CredentialStore::new(vec![source(files(), false), source(files(), false)]);
    assert!(matches!(twice, Err(InvalidCredentials::Duplicate(_))));
    let nowhere = CredentialSource {
        hosts: Vec::new(),
        ..source(files(), false)
    };
    assert!(matches!(
        CredentialStore::new(vec![nowhere]),
        Err(InvalidCredentials::NoHosts(_))
    ));
}
