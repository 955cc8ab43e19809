//! Verdict of one URL.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{Mutex, mpsc},
};

use super::{CheckOutput, check};
use crate::{
    commands::{parallax, run},
    servers::{RefusingPort, Server, answer, request},
};

fn ok() -> Server {
    Server::http(|_| answer("200 OK", "Server: shop\r\nContent-Type: text/plain\r\n", "hello"))
}

#[test]
fn working_url_shows_the_time_of_each_phase() {
    let server = ok();
    let output = check([server.url("/")]);
    output.assert_output(
        0,
        &[
            "✓ http://127.0.0.1:",
            "answers 200 in",
            "connect",
            "first byte",
            "body",
            "total",
        ],
    );
    output.assert_output(0, &["answer      HTTP/1.1, shop, text/plain, 5 bytes"]);
    assert!(output.err.is_empty(), "{}", output.err);
}

#[test]
fn no_colour_and_no_progress_without_a_terminal() {
    let server = ok();
    let output = check(["--repeat=3", "--interval=0ms", &server.url("/")]);
    assert!(
        !output.out.contains('\u{1b}') && output.err.is_empty(),
        "{}{}",
        output.out,
        output.err
    );
}

#[test]
fn a_refused_connection_is_a_no_with_its_likely_reason() {
    let closed = RefusingPort::new();
    let output = check([format!("tcp://{}", closed.addr)]);
    output.assert_output(
        1,
        &[
            "✗ tcp://127.0.0.1:",
            ": connection refused",
            "likely",
            "nothing listens on port",
        ],
    );
    assert!(output.err.is_empty(), "{}", output.err);
}

#[test]
fn a_plain_port_that_accepts_is_enough_for_tcp() {
    let server = Server::start(drop);
    check([format!("tcp://{}", server.addr)]).assert_output(0, &["✓ tcp://", "accepts connections"]);
}

#[test]
fn every_argument_that_cannot_be_used_is_named_and_nothing_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let good = format!("http://{}/", listener.local_addr().unwrap());
    let output = check([&good, "ftp://files.example.test/", "tcp://db.example.test"]);
    assert_eq!(output.code, Some(2));
    for words in [
        "\"ftp://files.example.test/\": expected http://",
        "\"tcp://db.example.test\": ",
        "needs a port",
    ] {
        assert!(output.err.contains(words), "{}", output.err);
    }
    assert!(output.out.is_empty());
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "no connection was made");
}

#[test]
fn impossible_flags_are_usage_errors_that_name_them() {
    for (args, words) in [
        (&["check"][..], "<URL>"),
        (&["check", "x.test", "--repeat=0"], "--repeat"),
        (&["check", "x.test", "--timeout=1h"], "500ms"),
        (&["check", "x.test", "--resolver=dns.example.test"], "--resolver"),
        (&["check", "x.test", "--connect-to=:80"], "--connect-to"),
        (&["check", "x.test", "--profile=curl"], "cert-manager"),
        (&["check", "x.test", "--expect-status=fine"], "--expect-status"),
        (
            &["check", "tcp://x.test:1", "--contains=x"],
            "--contains: only for http and https",
        ),
        (&["check", "x.test", "--extra-roots=/dev/null"], "PEM"),
    ] {
        let output = CheckOutput::from_output(&run(args));
        assert_eq!(output.code, Some(2), "{args:?}: {}", output.err);
        assert!(output.err.contains(words), "{args:?}: {}", output.err);
    }
}

#[test]
fn an_answer_below_500_is_one_unless_more_is_expected() {
    let server = Server::http(|path| match path {
        "/gone" => answer("404 Not Found", "", ""),
        _ => answer("503 Service Unavailable", "", ""),
    });
    check([server.url("/gone")]).assert_output(
        0,
        &[
            "answers 404 in",
            "--expect-status 200 is stricter",
            "default backend",
        ],
    );
    let strict = check(["--expect-status=2xx", &server.url("/gone")]);
    strict.assert_output(1, &["✗", "answers 404"]);
    strict.assert_lacks("is stricter");
    check([server.url("/")]).assert_output(1, &["answers 503", "no working backend"]);
}

#[test]
fn content_that_is_not_as_expected_is_a_no() {
    let server = ok();
    check(["--contains=ell", &server.url("/")]).assert_output(0, &[]);
    check(["--contains=moon", &server.url("/")])
        .assert_output(1, &["content of the response is not what was expected"]);
    check(["--expect-body=hello", &server.url("/")]).assert_output(0, &[]);
}

#[test]
fn redirects_are_followed_each_with_its_own_line_and_the_last_answer_counts() {
    let server = Server::http(|path| match path {
        "/" => answer("301 Moved Permanently", "Location: /next\r\n", ""),
        "/next" => answer("302 Found", "Location: end?a=b\r\n", ""),
        _ => answer("200 OK", "", "end"),
    });
    let output = check(["--expect-status=200", "--contains=end", &server.url("/")]);
    output.assert_output(
        0,
        &[
            "after 2 redirects",
            "/next  302 at 127.0.0.1:",
            "/end?a=b  200 at 127.0.0.1:",
        ],
    );
    let unfollowed = check(["--no-follow", &server.url("/")]);
    unfollowed.assert_output(0, &["answers 301", "Location: /next"]);
}

#[test]
fn redirects_in_a_circle_without_end_or_to_other_schemes_are_a_no() {
    let server = Server::http(|path| {
        let to = match path {
            "/circle" => "/elcric".to_owned(),
            "/elcric" => "/circle".to_owned(),
            "/scheme" => "ftp://files.example.test/".to_owned(),
            deeper => format!("{deeper}/x"),
        };
        answer("302 Found", &format!("Location: {to}\r\n"), "")
    });
    check([server.url("/circle")]).assert_output(1, &["redirects form a loop", "X-Forwarded-Proto"]);
    check([server.url("/endless")]).assert_output(1, &["too many redirects (at most 10 are followed)"]);
    check([server.url("/scheme")]).assert_output(
        1,
        &[
            "redirected to the unsupported scheme ftp",
            "ftp://files.example.test/  not requested",
        ],
    );
}

#[test]
fn a_server_that_waits_for_a_proxy_header_is_found_out() {
    let server = Server::start(|mut stream| {
        let mut begin = [0; 5];
        if stream.read_exact(&mut begin).is_ok() && &begin == b"PROXY" {
            request(&mut stream);
            let _ = stream.write_all(answer("200 OK", "", "").as_bytes());
        }
    });
    let output = check([server.url("/")]);
    output.assert_output(
        1,
        &[
            "before the first byte of a response",
            "expects a PROXY header: it responds if one is sent (tried)",
        ],
    );
    check(["--proxy-header=tcp", &server.url("/")]).assert_output(0, &["PROXY", "answers 200"]);
}

#[test]
fn plain_http_on_a_port_that_was_taken_for_tls_is_found_out() {
    let server = Server::start(|mut stream| {
        let mut begin = [0; 4];
        if stream.read_exact(&mut begin).is_ok() {
            let plain = &begin == b"GET ";
            if plain {
                request(&mut stream);
            }
            let status = if plain { "200 OK" } else { "400 Bad Request" };
            let _ = stream.write_all(answer(status, "", "").as_bytes());
        }
    });
    let output = check([format!("https://{}/", server.addr)]);
    output.assert_output(
        1,
        &[
            "does not speak TLS",
            "it answered 200 to such a request (tried); use http://",
        ],
    );
}

#[test]
fn what_a_server_writes_cannot_act_on_the_terminal() {
    // A C1 control character is allowed in a header. In UTF-8 it starts an escape sequence.
    let server = Server::http(|_| answer("200 OK", "Server: \u{9b}31mred\u{202e}\r\n", ""));
    let output = check([server.url("/")]);
    output.assert_output(0, &["\\u{202e}"]);
    assert!(!output.out.contains(['\u{9b}', '\u{202e}']), "{}", output.out);
    let json = check(["--json", &server.url("/")]);
    assert!(!json.out.contains(['\u{9b}', '\u{202e}']), "{}", json.out);
}

#[test]
fn several_urls_are_checked_concurrently_and_reported_in_order() {
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    // The first server responds only after the second got its request, so sequential checks would hang.
    let first = Server::http(move |_| {
        receiver.lock().unwrap().recv().unwrap();
        answer("200 OK", "", "")
    });
    let second = Server::http(move |_| {
        sender.send(()).unwrap();
        answer("503 Service Unavailable", "", "")
    });
    let urls = [first.url("/first"), second.url("/second")];
    let output = check(&urls);
    output.assert_output(1, &["answers 200", "answers 503"]);
    assert!(
        output.out.find("/first") < output.out.find("/second"),
        "{}",
        output.out
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let server = ok();
    let mut child = parallax()
        .args(["check", "--repeat=2", "--interval=0ms", &server.url("/")])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0));
}
