//! A DNS server over UDP and TCP on one port, with scripted answers instead of zones.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use hickory_proto::{
    op::{Message, OpCode, Query, ResponseCode},
    rr::{
        Name, RData, Record,
        rdata::{A, AAAA, CAA},
    },
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// The response to one query.
#[derive(Clone, Copy)]
pub(crate) enum DnsScript {
    Code(ResponseCode),
    Addresses(&'static [&'static str]),
    /// One CAA record that allows this authority to issue.
    Issue(&'static str),
    /// A truncated response over UDP, the addresses over TCP.
    Truncated(&'static [&'static str]),
    WrongId,
    /// First a response with a wrong id, then the right one.
    WrongIdFirst(&'static [&'static str]),
    Garbage,
    /// An alias that points to itself.
    Loop,
    Nothing,
}

type Script = dyn Fn(&Query) -> DnsScript + Send + Sync;

pub(crate) struct Dns {
    pub(crate) addr: SocketAddr,
    /// All queries, as `name type`.
    pub(crate) queries: Arc<Mutex<Vec<String>>>,
    cancel: CancellationToken,
    serving: JoinHandle<()>,
}

impl Dns {
    pub(crate) async fn start(script: impl Fn(&Query) -> DnsScript + Send + Sync + 'static) -> Self {
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            // The UDP port with the same number may be in use.
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
                break (tcp, udp);
            }
        };
        let addr = tcp.local_addr().unwrap();
        let queries = Arc::new(Mutex::new(Vec::new()));
        let cancel = CancellationToken::new();
        let serving = tokio::spawn(serve(
            udp,
            tcp,
            Box::new(script),
            Arc::clone(&queries),
            cancel.clone(),
        ));
        Self {
            addr,
            queries,
            cancel,
            serving,
        }
    }

    pub(crate) async fn join(self) {
        self.cancel.cancel();
        self.serving.await.unwrap();
    }
}

async fn serve(
    udp: UdpSocket,
    tcp: TcpListener,
    script: Box<Script>,
    queries: Arc<Mutex<Vec<String>>>,
    cancel: CancellationToken,
) {
    let mut buffer = [0; 1500];
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            got = udp.recv_from(&mut buffer) => {
                let (len, peer) = got.unwrap();
                let query = Message::from_vec(&buffer[..len]).unwrap();
                let question = &query.queries[0];
                queries.lock().push(format!("{} {}", question.name().to_ascii().trim_end_matches('.'), question.query_type()));
                for answer in over_udp(&query, script(question)) {
                    udp.send_to(&answer, peer).await.unwrap();
                }
            }
            got = tcp.accept() => {
                let (mut stream, _) = got.unwrap();
                let len = stream.read_u16().await.unwrap();
                let mut bytes = vec![0; len.into()];
                stream.read_exact(&mut bytes).await.unwrap();
                let query = Message::from_vec(&bytes).unwrap();
                queries.lock().push(format!("{} tcp", query.queries[0].name().to_ascii().trim_end_matches('.')));
                if let DnsScript::Truncated(addresses) | DnsScript::Addresses(addresses) = script(&query.queries[0]) {
                    let answer = with_addresses(&query, addresses).to_vec().unwrap();
                    stream.write_u16(u16::try_from(answer.len()).unwrap()).await.unwrap();
                    stream.write_all(&answer).await.unwrap();
                }
            }
        }
    }
}

fn over_udp(query: &Message, script: DnsScript) -> Vec<Vec<u8>> {
    let wrong_id = || {
        let mut wrong = with_addresses(query, &["6.6.6.6"]);
        wrong.metadata.id ^= 1;
        wrong.to_vec().unwrap()
    };
    match script {
        DnsScript::Nothing => vec![],
        DnsScript::Garbage => vec![b"no dns at all".to_vec()],
        DnsScript::Loop => {
            let mut answer = empty(query).to_vec().unwrap();
            let own = u8::try_from(answer.len()).unwrap();
            answer[7] = 1;
            answer.extend([0xc0, own, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 192, 0, 2, 1]);
            vec![answer]
        }
        DnsScript::WrongId => vec![wrong_id()],
        DnsScript::WrongIdFirst(addresses) => {
            vec![wrong_id(), with_addresses(query, addresses).to_vec().unwrap()]
        }
        DnsScript::Addresses(addresses) => vec![with_addresses(query, addresses).to_vec().unwrap()],
        DnsScript::Issue(authority) => {
            let mut answer = empty(query);
            // Without the trailing dot: the value is text, in which a dot would be part of the name.
            let authority = Name::from_ascii(authority).unwrap();
            let data = RData::CAA(CAA::new_issue(false, Some(authority), Vec::new()));
            answer.add_answer(Record::from_rdata(query.queries[0].name().clone(), 30, data));
            vec![answer.to_vec().unwrap()]
        }
        DnsScript::Code(code) => {
            let mut answer = empty(query);
            answer.metadata.response_code = code;
            vec![answer.to_vec().unwrap()]
        }
        DnsScript::Truncated(_) => {
            let mut answer = empty(query);
            answer.metadata.truncation = true;
            vec![answer.to_vec().unwrap()]
        }
    }
}

fn empty(query: &Message) -> Message {
    let mut answer = Message::response(query.metadata.id, OpCode::Query);
    answer.add_query(query.queries[0].clone());
    answer
}

fn with_addresses(query: &Message, addresses: &[&str]) -> Message {
    let mut answer = empty(query);
    for (i, address) in addresses.iter().enumerate() {
        let data = match address.parse().unwrap() {
            IpAddr::V4(v4) => RData::A(A(v4)),
            IpAddr::V6(v6) => RData::AAAA(AAAA(v6)),
        };
        let ttl = 30 + u32::try_from(i).unwrap();
        answer.add_answer(Record::from_rdata(query.queries[0].name().clone(), ttl, data));
    }
    answer
}
