//! Credentials, roots and addresses of the client.

use super::*;

fn control(base: &str) -> Result<AggregatorClient, ClientError> {
    AggregatorClient::new(
        base.parse().unwrap(),
        None,
        &TlsConfigs::with_roots([]),
        &AggregatorRoots::SameAsProbes,
    )
}

#[test]
fn the_path_is_appended_to_whatever_path_the_aggregator_has() {
    for (base, full) in [
        ("http://agg:8080", "http://agg:8080/v1/plan"),
        ("http://agg/parallax/", "http://agg/parallax/v1/plan"),
    ] {
        assert_eq!(control(base).unwrap().url(["v1", "plan"]).as_str(), full);
    }
}

#[tokio::test]
async fn one_of_several_addresses_of_a_name_is_asked_by_the_name() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let base = format!("http://aggregator.example.test:{}", address.port());
    let pinned = control(&base).unwrap().pinned_to(address).unwrap();
    let request = pinned.get(["v1", "plan"], &[]).unwrap().send();
    let answering = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 1_024];
        let read = stream.read(&mut head).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        String::from_utf8_lossy(&head[..read]).to_lowercase()
    };
    let (answer, head) = tokio::join!(request, answering);
    assert_eq!(answer.unwrap().status(), 204);
    assert!(head.contains("host: aggregator.example.test"), "{head}");
}

#[test]
fn an_address_that_is_no_http_url_is_refused() {
    assert!(matches!(control("unix:/run/agg"), Err(ClientError::Url)));
}

#[test]
fn the_trusted_ca_may_arrive_later_and_change_and_is_never_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    let roots = AggregatorRoots::Files(vec![file.clone()]);
    let base = "https://agg:8443".parse().unwrap();
    let control = AggregatorClient::new(base, None, &TlsConfigs::with_roots([]), &roots).unwrap();
    let known = |control: &AggregatorClient| match &control.endpoint {
        AggregatorEndpoint::Reloaded { current, .. } => {
            current.lock().as_ref().map(|current| current.pem.clone())
        }
        AggregatorEndpoint::Fixed { .. } => None,
    };
    let error = control.http().unwrap_err().to_string();
    assert!(error.contains("ca.crt"), "{error}");
    fs::write(&file, "").unwrap();
    assert!(
        control
            .http()
            .unwrap_err()
            .to_string()
            .contains("contain no certificate")
    );
    let pem = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.self_signed(&key).unwrap().pem()
    };
    fs::write(&file, pem()).unwrap();
    control.http().unwrap();
    let first = known(&control).unwrap();
    fs::write(&file, pem()).unwrap();
    control.http().unwrap();
    let second = known(&control).unwrap();
    assert_ne!(first, second);
    for lost in [true, false] {
        if lost {
            fs::remove_file(&file).unwrap();
        } else {
            fs::write(&file, "half a certif").unwrap();
        }
        control.http().unwrap();
        assert_eq!(known(&control).unwrap(), second);
    }
}

#[test]
fn a_token_is_never_printed() {
    assert_eq!(
        format!("{:?}", ProberCredential::Fixed("secret".into())),
        "Fixed(…)"
    );
}

#[test]
fn a_token_file_is_read_at_each_use() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let token = ProberCredential::File(file.path().to_owned());
    fs::write(file.path(), "one\n").unwrap();
    assert_eq!(token.read().unwrap(), "one");
    fs::write(file.path(), "two\n").unwrap();
    assert_eq!(token.read().unwrap(), "two");
}
