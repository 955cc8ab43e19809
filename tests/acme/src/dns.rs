//! The name server of a test: every name is a separate zone, and unknown names do not exist.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, thread, time::Duration};

use anyhow::Context;
use hickory_proto::{
    op::{Message, OpCode, ResponseCode},
    rr::{
        RData, Record, RecordType,
        rdata::{A, AAAA},
    },
};
use parking_lot::Mutex;
use tokio::{net::UdpSocket, task::JoinSet, time};
use tokio_util::sync::CancellationToken;

/// Listen address.
pub(crate) const ADDRESS: &str = "127.0.0.1:53";

/// Answer for one address family of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ZoneAnswer {
    Addresses(Vec<IpAddr>),
    Code(ResponseCode),
    Nothing,
    Late(Duration, Vec<IpAddr>),
}

/// Both families.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ZoneAnswers {
    pub(crate) a: ZoneAnswer,
    pub(crate) aaaa: ZoneAnswer,
}

/// All names, in lower case.
#[derive(Debug, Clone, Default)]
pub(crate) struct ZoneTable(Arc<Mutex<BTreeMap<String, ZoneAnswers>>>);

impl ZoneTable {
    pub(crate) fn set(&self, name: String, zone: ZoneAnswers) {
        self.0.lock().insert(name, zone);
    }

    fn say(&self, name: &str, record: RecordType) -> ZoneAnswer {
        match (self.0.lock().get(name), record) {
            (Some(zone), RecordType::A) => zone.a.clone(),
            (Some(zone), RecordType::AAAA) => zone.aaaa.clone(),
            (Some(_), _) => ZoneAnswer::Code(ResponseCode::NoError),
            (None, _) => ZoneAnswer::Code(ResponseCode::NXDomain),
        }
    }

    async fn answer_all(self, socket: UdpSocket) -> anyhow::Result<()> {
        let socket = Arc::new(socket);
        let mut answers = JoinSet::new();
        let mut buffer = [0; 1500];
        loop {
            let (length, peer) = socket
                .recv_from(&mut buffer)
                .await
                .context("receiving a DNS query")?;
            let query = Message::from_vec(&buffer[..length]).context("parsing a DNS query")?;
            let question = query
                .queries
                .first()
                .context("a DNS message without a question")?;
            let name = question.name().to_lowercase().to_ascii();
            let zone_answer = self.say(name.trim_end_matches('.'), question.query_type());
            let wait = match zone_answer {
                ZoneAnswer::Nothing => continue,
                ZoneAnswer::Late(wait, _) => wait,
                ZoneAnswer::Addresses(_) | ZoneAnswer::Code(_) => Duration::ZERO,
            };
            let answer = answer(&query, &zone_answer)
                .to_vec()
                .context("serializing a DNS response")?;
            let socket = Arc::clone(&socket);
            while answers.try_join_next().is_some() {}
            answers.spawn(async move {
                time::sleep(wait).await;
                // The client may be gone.
                let _ = socket.send_to(&answer, peer).await;
            });
        }
    }
}

/// The name server on its own thread, so that other work of the test does not slow it down. Stops on drop.
#[derive(Debug)]
pub(crate) struct NameServer {
    stop: CancellationToken,
    thread: Option<thread::JoinHandle<anyhow::Result<()>>>,
}

impl NameServer {
    pub(crate) fn serve(zones: ZoneTable) -> anyhow::Result<Self> {
        let socket = std::net::UdpSocket::bind(ADDRESS).context("listening for DNS queries")?;
        socket
            .set_nonblocking(true)
            .context("setting up the DNS socket")?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting the name server's runtime")?;
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let socket = UdpSocket::from_std(socket).context("setting up the DNS socket")?;
                tokio::select! {
                    () = stopped.cancelled() => Ok(()),
                    ended = zones.answer_all(socket) => ended,
                }
            })
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.cancel();
        match self.thread.take().map(thread::JoinHandle::join) {
            Some(Ok(Err(error))) => eprintln!("the name server: {error:#}"),
            Some(Err(_)) => eprintln!("the name server panicked"),
            _ => {}
        }
    }
}

fn answer(query: &Message, zone_answer: &ZoneAnswer) -> Message {
    let mut answer = Message::response(query.metadata.id, OpCode::Query);
    answer.metadata.recursion_available = true;
    answer.metadata.recursion_desired = true;
    let question = query.queries[0].clone();
    let addresses = match zone_answer {
        ZoneAnswer::Addresses(addresses) | ZoneAnswer::Late(_, addresses) => addresses.as_slice(),
        ZoneAnswer::Code(code) => {
            answer.metadata.response_code = *code;
            &[]
        }
        ZoneAnswer::Nothing => &[],
    };
    for address in addresses {
        let data = match address {
            IpAddr::V4(v4) => RData::A(A(*v4)),
            IpAddr::V6(v6) => RData::AAAA(AAAA(*v6)),
        };
        answer.add_answer(Record::from_rdata(question.name().clone(), 5, data));
    }
    answer.add_query(question);
    answer
}
