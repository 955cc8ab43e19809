//! The JSON output: field names and values are an API.

use serde_json::Value;

use super::check;
use crate::servers::{
    RefusingPort, Server, answer,
    dns::Dns,
    tls::{Ca, VALID},
};

/// Replaces values that differ between runs or machines, so that only their presence is compared.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // Not every kernel reports these.
            for machine in ["kernel_rtt_us", "syn_retransmits"] {
                fields.remove(machine);
            }
            // Whether TTL evidence is available depends on the permissions of the machine.
            if fields
                .remove("ttl")
                .or_else(|| fields.remove("ttl_unknown"))
                .is_some()
            {
                fields.insert("ttl or ttl_unknown".to_owned(), "[evidence]".into());
            }
            for (name, value) in fields {
                if name.ends_with("_us") {
                    *value = "[time]".into();
                }
                normalize(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        _ => {}
    }
}

/// The documents of a run, with the ports replaced by names.
fn documents(args: &[String], ports: &[(u16, &str)]) -> Vec<Value> {
    let mut out = check(args).out;
    for (port, name) in ports {
        for before in [":", "port "] {
            out = out.replace(&format!("{before}{port}"), &format!("{before}{name}"));
        }
    }
    out.lines()
        .map(|line| {
            let mut document = serde_json::from_str(line).unwrap();
            normalize(&mut document);
            document
        })
        .collect()
}

#[test]
fn an_https_url_with_a_redirect_and_a_dead_address_keeps_its_form() {
    let ca = Ca::new();
    let (server, _dead) = RefusingPort::server_and_refusing_port(|| {
        ca.server(&["shop.example.test"], VALID, |path| match path {
            "/" => answer("302 Found", "Server: shop\r\nLocation: /next\r\n", ""),
            _ => answer("200 OK", "Content-Type: text/plain\r\n", "hello"),
        })
    });
    let port = server.addr.port();
    let dns = Dns::always(&["127.0.0.1"], &["::1"]);
    let args = [
        "--json".to_owned(),
        format!("--extra-roots={}", ca.file().display()),
        format!("--resolver={}", dns.addr),
        format!("https://shop.example.test:{port}/"),
    ];
    let documents = documents(&args, &[(port, "PORT"), (dns.addr.port(), "DNS")]);
    insta::assert_json_snapshot!(documents);
}

#[test]
fn a_fetch_as_another_client_keeps_its_form() {
    let server = Server::http(|path| match path {
        "/" => answer("301 Moved Permanently", "Location: /next\r\n", ""),
        _ => answer("404 Not Found", "", ""),
    });
    let port = server.addr.port();
    let args = ["--json", "--profile=pebble", &server.url("/")].map(str::to_owned);
    insta::assert_json_snapshot!(documents(&args, &[(port, "PORT")]));
}

#[test]
fn each_url_is_a_document_on_a_line_of_its_own_in_the_order_of_the_arguments() {
    let server = Server::http(|_| answer("200 OK", "", ""));
    let closed = RefusingPort::new();
    let refused = format!("tcp://{}", closed.addr);
    let output = check(["--json", &refused, &server.url("/a"), &server.url("/b")]);
    assert_eq!(output.code, Some(1));
    let documents: Vec<Value> = output
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let results: Vec<_> = documents
        .iter()
        .map(|one| one["result"].as_str().unwrap())
        .collect();
    assert_eq!(results, ["failed", "ok", "ok"]);
    assert_eq!(documents[0]["addresses"][0]["probe"]["kind"], "refused");
    assert_eq!(documents[0]["findings"][0]["id"], "refused");
    assert!(documents[2]["url"].as_str().unwrap().ends_with("/b"));
}
