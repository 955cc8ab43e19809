//! A DNS server over UDP with a script instead of zones.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    thread::JoinHandle,
};

use hickory_proto::{
    op::{Message, OpCode, ResponseCode},
    rr::{
        Name, RData, Record, RecordType,
        rdata::{A, AAAA, CAA},
    },
};

/// A scripted response.
pub(crate) enum ScriptedResponse {
    Addresses(&'static [&'static str]),
    /// A CAA record that allows this authority to issue.
    Issue(&'static str),
    NoSuchName,
    Fails,
    Nothing,
}

pub(crate) struct Dns {
    pub(crate) addr: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Dns {
    /// Starts the server. The script gets the name without its trailing dot.
    pub(crate) fn start(script: impl Fn(&str, RecordType) -> ScriptedResponse + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            loop {
                let (len, peer) = socket.recv_from(&mut buffer).unwrap();
                if &buffer[..len] == STOP {
                    return;
                }
                // The port may have belonged to another server a moment ago, and a client may still mean that one.
                let Ok(query) = Message::from_vec(&buffer[..len]) else {
                    continue;
                };
                if let Some(answer) = reply(&query, &script) {
                    socket.send_to(&answer.to_vec().unwrap(), peer).unwrap();
                }
            }
        });
        Self {
            addr,
            thread: Some(thread),
        }
    }

    /// Answers every name with the same addresses; the first list is IPv4, the second IPv6.
    pub(crate) fn always(v4: &'static [&'static str], v6: &'static [&'static str]) -> Self {
        Self::start(move |_, record| {
            ScriptedResponse::Addresses(if record == RecordType::A { v4 } else { v6 })
        })
    }
}

const STOP: &[u8] = b"stop";

impl Drop for Dns {
    fn drop(&mut self) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(STOP, self.addr).unwrap();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

fn reply(query: &Message, script: &impl Fn(&str, RecordType) -> ScriptedResponse) -> Option<Message> {
    let question = &query.queries[0];
    let name = question.name().to_ascii();
    let mut answer = Message::response(query.metadata.id, OpCode::Query);
    answer.add_query(question.clone());
    match script(name.trim_end_matches('.'), question.query_type()) {
        ScriptedResponse::Nothing => return None,
        ScriptedResponse::NoSuchName => answer.metadata.response_code = ResponseCode::NXDomain,
        ScriptedResponse::Fails => answer.metadata.response_code = ResponseCode::ServFail,
        ScriptedResponse::Issue(authority) => {
            let authority = Name::from_ascii(authority).unwrap();
            let caa = RData::CAA(CAA::new_issue(false, Some(authority), Vec::new()));
            answer.add_answer(Record::from_rdata(question.name().clone(), 30, caa));
        }
        ScriptedResponse::Addresses(addresses) => {
            for address in addresses {
                let data = match address.parse().unwrap() {
                    IpAddr::V4(v4) => RData::A(A(v4)),
                    IpAddr::V6(v6) => RData::AAAA(AAAA(v6)),
                };
                answer.add_answer(Record::from_rdata(question.name().clone(), 30, data));
            }
        }
    }
    Some(answer)
}
