//! The part of HTTP that a client of the API server uses: one request per connection.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use serde_json::json;

use super::ApiState;

/// Status and body.
pub(super) type Response = (u16, String);

/// One request.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) body: Vec<u8>,
}

pub(super) fn serve(
    listener: TcpListener,
    held: Arc<Mutex<ApiState>>,
    answer: fn(&Request, &Mutex<ApiState>) -> Response,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        // A watch keeps its connection open while others send requests.
        let mut asked = Vec::new();
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            // A client that is killed during a request is not a failure of the server.
            let Some(request) = request(&mut reader) else {
                continue;
            };
            if request.method == "STOP" {
                break;
            }
            let held = Arc::clone(&held);
            asked.retain(|thread: &JoinHandle<()>| !thread.is_finished());
            asked.push(std::thread::spawn(move || {
                let (status, body) = answer(&request, &held);
                let start = format!(
                    "HTTP/1.1 {status} said\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let _ = reader.get_mut().write_all((start + &body).as_bytes());
            }));
        }
        for thread in asked {
            thread.join().unwrap();
        }
    })
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).ok()? <= 2 {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    std::io::Read::read_exact(reader, &mut body).ok()?;
    Some(Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        body,
    })
}

pub(super) fn status(code: u16, words: &str) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": words, "reason": "Test"});
    (code, body.to_string())
}

impl Request {
    /// Resource, namespace and name.
    pub(super) fn place(&self) -> (String, String, Option<String>) {
        let parts: Vec<&str> = self.path.trim_matches('/').split('/').collect();
        // /api/v1/… or /apis/GROUP/VERSION/…
        let rest = if parts[0] == "api" {
            &parts[2..]
        } else {
            &parts[3..]
        };
        match rest {
            ["namespaces", namespace, resource, name, ..] => (
                (*resource).to_owned(),
                (*namespace).to_owned(),
                Some((*name).to_owned()),
            ),
            ["namespaces", namespace, resource] => ((*resource).to_owned(), (*namespace).to_owned(), None),
            [resource, name] => ((*resource).to_owned(), String::new(), Some((*name).to_owned())),
            [resource] => ((*resource).to_owned(), String::new(), None),
            _ => panic!("{}", self.path),
        }
    }

    /// Parses `a=b,c` of the query's `labelSelector`.
    pub(super) fn labels(&self) -> Vec<(String, Option<String>)> {
        let pairs = url::form_urlencoded::parse(self.query.as_bytes());
        let selector = pairs.into_iter().find(|(name, _)| name == "labelSelector");
        let selector = selector.map_or_else(String::new, |(_, value)| value.into_owned());
        let labels = selector.split(',').filter(|label| !label.is_empty());
        labels
            .map(|label| match label.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (label.to_owned(), None),
            })
            .collect()
    }
}
