use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::Stdio,
};

use super::*;

/// Base64url: one token in 64 starts with a hyphen, like an option.
const TOKEN: &str = "-t0ken";
const KEY: &str = "-t0ken.thumb";

#[test]
fn the_solver_answers_its_token_under_its_name_and_nothing_else() {
    let mut child = parallax()
        .args([
            "solver",
            "--listen-port",
            "0",
            "--listen-address",
            "127.0.0.1",
            "--domain",
            HOST,
        ])
        .args(["--token", TOKEN, "--key", KEY])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    let address = first.trim().rsplit(' ').next().unwrap().to_owned();
    let ask = |host: &str, path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().to_owned();
        (status, answer.split("\r\n\r\n").nth(1).unwrap().to_owned())
    };
    let own = &format!("/.well-known/acme-challenge/{TOKEN}");
    assert_eq!(ask(HOST, own), ("200".to_owned(), KEY.to_owned()));
    assert_eq!(ask("SHOP.example.test:80", own).0, "200");
    assert_eq!(ask("other.example.test", own).0, "404");
    assert_eq!(ask(HOST, "/.well-known/acme-challenge/other").0, "404");
    assert_eq!(ask("anybody", "/healthz"), ("200".to_owned(), String::new()));
    let sent = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
