//! The addresses of a name from each source.

use std::path::PathBuf;

use hickory_proto::rr::RecordType;

use super::check;
use crate::servers::{
    Server, answer,
    dns::{Dns, ScriptedResponse},
};

/// Creates a file in a new folder.
fn file(content: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, content).unwrap();
    (folder, path)
}

#[test]
fn a_name_is_resolved_and_nothing_more() {
    let dns = Dns::always(&["192.0.2.1", "192.0.2.2"], &[]);
    let output = check([
        format!("--resolver={}", dns.addr),
        "dns://shop.example.test".to_owned(),
    ]);
    output.assert_output(
        0,
        &[
            "resolves to 2 addresses",
            "A 192.0.2.1, 192.0.2.2 (TTL 30 s); no AAAA, via 127.0.0.1:",
        ],
    );
}

#[test]
fn a_name_without_an_address_of_the_only_family_wanted_is_a_no() {
    let dns = Dns::always(&["192.0.2.1"], &[]);
    let resolver = format!("--resolver={}", dns.addr);
    for url in ["dns://shop.example.test", "http://shop.example.test/"] {
        check([&resolver, "-6", url]).assert_output(1, &["the name has no IPv6 address"]);
    }
    check([&resolver, "-4", "dns://shop.example.test"]).assert_output(0, &[]);
}

#[test]
fn a_name_that_does_not_exist_says_what_was_tried_on_the_search_list() {
    let dns = Dns::start(|_, _| ScriptedResponse::NoSuchName);
    let (_folder, conf) = file(&format!(
        "nameserver [127.0.0.1]:{}\nsearch shop.svc.cluster.local\noptions ndots:5\n",
        dns.addr.port()
    ));
    let output = check([
        format!("--resolv-conf={}", conf.display()),
        "http://web.shop/".to_owned(),
    ]);
    output.assert_output(
        1,
        &[
            "web.shop does not exist; tried web.shop.shop.svc.cluster.local, web.shop",
            "likely",
        ],
    );
}

#[test]
fn the_way_through_the_search_list_is_said_also_where_it_ends_well() {
    let server = Server::http(|_| answer("200 OK", "", ""));
    let dns = Dns::start(|name, record| match (name, record) {
        ("web.shop.svc.cluster.local", RecordType::A) => ScriptedResponse::Addresses(&["127.0.0.1"]),
        ("web.shop.svc.cluster.local", _) => ScriptedResponse::Addresses(&[]),
        _ => ScriptedResponse::NoSuchName,
    });
    let (_folder, conf) = file(&format!(
        "nameserver [127.0.0.1]:{}\nsearch absent.test shop.svc.cluster.local\noptions ndots:5\n",
        dns.addr.port()
    ));
    let url = format!("http://web:{}/", server.addr.port());
    let output = check([format!("--resolv-conf={}", conf.display()), url]);
    output.assert_output(
        0,
        &["searched as web.absent.test, then web.shop.svc.cluster.local"],
    );
}

#[test]
fn resolvers_that_disagree_are_a_warning_and_with_every_address_a_no() {
    let server = Server::http(|_| answer("200 OK", "", ""));
    let port = server.addr.port();
    let answering = Dns::always(&["127.0.0.1"], &[]);
    let nxdomain = Dns::start(|_, _| ScriptedResponse::NoSuchName);
    let args = |strict: bool| {
        let mut args = vec![
            format!("--resolver={}", answering.addr),
            format!("--resolver={}", nxdomain.addr),
            format!("http://shop.example.test:{port}/"),
        ];
        args.extend(strict.then(|| "--every-address".to_owned()));
        args
    };
    let words = format!(
        "{} returns no address (the name does not exist), but {} does",
        nxdomain.addr, answering.addr
    );
    check(args(false)).assert_output(0, &[&words, "answers 200"]);
    check(args(true)).assert_output(1, &[&words]);
}

#[test]
fn of_several_resolvers_each_that_differs_is_named() {
    let first = Dns::always(&["192.0.2.1"], &[]);
    let second = Dns::always(&["192.0.2.2"], &[]);
    let third = Dns::always(&["192.0.2.3"], &[]);
    let mut args: Vec<String> = [&first, &second, &third]
        .iter()
        .map(|dns| format!("--resolver={}", dns.addr))
        .collect();
    args.push("dns://shop.example.test".to_owned());
    check(args).assert_output(
        0,
        &[
            &format!(
                "{} returns 192.0.2.2, {} returns 192.0.2.1",
                second.addr, first.addr
            ),
            &format!(
                "{} returns 192.0.2.3, {} returns 192.0.2.1",
                third.addr, first.addr
            ),
        ],
    );
}

#[test]
fn a_family_that_fails_is_said_though_the_other_one_has_addresses() {
    let server = Server::http(|_| answer("200 OK", "", ""));
    let dns = Dns::start(|_, record| match record {
        RecordType::A => ScriptedResponse::Addresses(&["127.0.0.1"]),
        _ => ScriptedResponse::Fails,
    });
    let url = format!("http://shop.example.test:{}/", server.addr.port());
    let output = check([format!("--resolver={}", dns.addr), url]);
    output.assert_output(0, &["the AAAA query fails", "the resolver failed", "musl"]);
}

#[test]
fn what_images_with_musl_make_of_the_same_search_list_is_said_where_it_differs() {
    // After a response without addresses glibc tries the next name of the search list, musl does not.
    let dns = Dns::start(|name, record| match (name, record) {
        ("web.b.test", RecordType::A) => ScriptedResponse::Addresses(&["127.0.0.1"]),
        ("web.a.test" | "web.b.test", _) => ScriptedResponse::Addresses(&[]),
        _ => ScriptedResponse::NoSuchName,
    });
    let (_folder, conf) = file(&format!(
        "nameserver [127.0.0.1]:{}\nsearch a.test b.test\n",
        dns.addr.port()
    ));
    let output = check([
        format!("--resolv-conf={}", conf.display()),
        "dns://web".to_owned(),
    ]);
    output.assert_output(
        0,
        &[
            "resolves to 1 address\n",
            "images with musl (Alpine) get no address",
        ],
    );
}

#[test]
fn a_silent_resolver_is_a_no_that_names_it() {
    let dns = Dns::start(|_, _| ScriptedResponse::Nothing);
    let output = check([
        &format!("--resolver={}", dns.addr),
        "--timeout=200ms",
        "dns://shop.example.test",
    ]);
    output.assert_output(
        1,
        &["the resolver does not answer in time", &dns.addr.to_string()],
    );
}

#[test]
fn hosts_file_takes_precedence_and_differences_are_reported() {
    let server = Server::http(|_| answer("200 OK", "", ""));
    let dns = Dns::start(|_, _| ScriptedResponse::NoSuchName);
    let (_conf_folder, conf) = file(&format!("nameserver [127.0.0.1]:{}\n", dns.addr.port()));
    let (_hosts_folder, hosts) = file("127.0.0.1 shop.example.test\n");
    let output = check([
        format!("--resolv-conf={}", conf.display()),
        format!("--hosts-file={}", hosts.display()),
        format!("http://shop.example.test:{}/", server.addr.port()),
    ]);
    output.assert_output(
        0,
        &["from the hosts file of this machine", "DNS has no address for it"],
    );
}

#[test]
fn without_a_resolver_the_result_is_unknown() {
    let output = check(["--resolv-conf=/dev/null", "https://shop.example.test/"]);
    output.assert_output(
        3,
        &["? https://shop.example.test/ could not be checked: no resolver is configured"],
    );
    assert_eq!(
        output.err.trim(),
        "parallax: the result of 1 of 1 URLs is unknown; see above"
    );
}
