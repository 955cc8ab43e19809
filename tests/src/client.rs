//! An ordinary client: the view of a user with curl and ping in a Pod. It shares no code with the prober, so that the
//! lab's ground truth does not depend on the code under test.

use std::{
    io::{BufRead, ErrorKind, Read, Write, stdin, stdout},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream},
    time::{Duration, Instant},
};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    incident::{ClientSight, ServiceApproach},
    origin::POD_HEADER,
};

/// Maximum length of a line, in bytes: an incident with a thousand hosts has about 40 KiB.
pub const MAX_LINE_BYTES: u64 = 1 << 20;

/// Timeout for a response that must not arrive; dropped packets stay dropped.
const EXPECTED_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout for a response that must arrive. Linux retransmits a SYN after 1, 3, 7 and 15 s (RFC 6298): SYNs lost while the
/// machine is starved of CPU say nothing about forwarding.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// `ping` sends an echo request each second.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of response bytes to read.
const MAX_RESPONSE_BYTES: u64 = 4096;

/// A single request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// `GET /` over a new connection.
    Http {
        /// Where to connect to.
        to: SocketAddr,
        /// The `Host` header.
        host: String,
    },
    /// One ICMP echo request.
    Ping {
        /// The address.
        to: Ipv4Addr,
    },
}

/// A request and its timeout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedRequest {
    /// The request.
    #[serde(flatten)]
    pub request: Request,
    /// Timeout of the connection, and of each part of the response.
    #[serde(default = "silence")]
    pub timeout: Duration,
}

fn silence() -> Duration {
    EXPECTED_TIMEOUT
}

impl TimedRequest {
    /// Sets the timeout that the expected result requires.
    #[must_use]
    pub fn expecting(ask: Request, sight: ClientSight) -> Self {
        let timeout = match sight {
            ClientSight::Mixed | ClientSight::TimedOut | ClientSight::NotConnected => EXPECTED_TIMEOUT,
            ClientSight::Answered
            | ClientSight::CutOff
            | ClientSight::NotFound
            | ClientSight::Unavailable
            | ClientSight::GatewayTimeout
            | ClientSight::Refused
            | ClientSight::OwnNode => RESPONSE_TIMEOUT,
        };
        Self {
            request: ask,
            timeout,
        }
    }
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientResult {
    /// An HTTP answer.
    Http {
        /// Its status.
        status: u16,
        /// The Pod that answered, if the response names it.
        pod: Option<String>,
    },
    /// The connection was refused.
    Refused,
    /// No response.
    TimedOut,
    /// An echo reply.
    Echo {
        /// TTL on arrival.
        ttl: u8,
    },
    /// Any other result.
    Other {
        /// The system's error message.
        what: String,
    },
}

impl ClientResult {
    /// Reports whether this is the result that an incident file expects.
    #[must_use]
    pub fn matches(&self, sight: ClientSight, way: ServiceApproach) -> bool {
        match sight {
            ClientSight::Answered if way == ServiceApproach::Ping => matches!(self, Self::Echo { .. }),
            ClientSight::Answered => matches!(
                self,
                Self::Http {
                    status: 200,
                    pod: Some(_)
                }
            ),
            ClientSight::Mixed => true,
            ClientSight::CutOff => matches!(self, Self::Other { .. } | Self::Http { status: 400, .. }),
            ClientSight::NotFound => matches!(self, Self::Http { status: 404, .. }),
            ClientSight::Unavailable => matches!(self, Self::Http { status: 503, .. }),
            ClientSight::GatewayTimeout => matches!(self, Self::Http { status: 504, .. }),
            ClientSight::Refused => *self == Self::Refused,
            ClientSight::TimedOut => *self == Self::TimedOut,
            ClientSight::NotConnected => matches!(self, Self::Refused | Self::TimedOut),
            // Linux starts at 64; every router decrements it.
            ClientSight::OwnNode => *self == Self::Echo { ttl: 64 },
        }
    }
}

/// Concurrent requests, so that timeouts of dropped packets overlap.
const MAX_CONCURRENT_REQUESTS: usize = 16;

/// Reads requests and writes results, as JSON lines.
pub fn serve_requests() -> anyhow::Result<()> {
    let mut asks = Vec::new();
    for line in stdin().lock().take(MAX_LINE_BYTES).lines() {
        let ask: TimedRequest =
            serde_json::from_str(&line.context("reading a request")?).context("parsing a request")?;
        asks.push(ask);
    }
    let mut out = stdout().lock();
    for asks in asks.chunks(MAX_CONCURRENT_REQUESTS) {
        let answers: Vec<ClientResult> = std::thread::scope(|scope| {
            let asking: Vec<_> = asks
                .iter()
                .map(|ask| scope.spawn(move || send_request(ask)))
                .collect();
            let gone = |_| ClientResult::Other {
                what: "the client thread panicked".to_owned(),
            };
            let joined = asking.into_iter();
            joined.map(|asking| asking.join().unwrap_or_else(gone)).collect()
        });
        for answer in answers {
            serde_json::to_writer(&mut out, &answer).context("writing a result")?;
            out.write_all(b"\n").context("writing a result")?;
        }
    }
    Ok(())
}

/// Sends one request.
#[must_use]
pub fn send_request(ask: &TimedRequest) -> ClientResult {
    let tried = match &ask.request {
        Request::Http { to, host } => http(*to, host, ask.timeout),
        Request::Ping { to } => ping(*to, ask.timeout),
    };
    tried.unwrap_or_else(|error| match error.kind() {
        ErrorKind::ConnectionRefused => ClientResult::Refused,
        ErrorKind::TimedOut | ErrorKind::WouldBlock => ClientResult::TimedOut,
        _ => ClientResult::Other {
            what: error.to_string(),
        },
    })
}

fn http(to: SocketAddr, host: &str, timeout: Duration) -> std::io::Result<ClientResult> {
    let mut stream = TcpStream::connect_timeout(&to, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;
    let mut bytes = Vec::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let status = text
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok());
    let Some(status) = status else {
        return Ok(ClientResult::Other {
            what: "not an HTTP response".to_owned(),
        });
    };
    let pod = text.lines().take_while(|line| !line.is_empty()).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(POD_HEADER)
            .then(|| value.trim().to_owned())
    });
    Ok(ClientResult::Http { status, pod })
}

/// Sends an ICMP echo request over a raw socket, which returns the IP header and so the TTL. The lab is root inside.
fn ping(to: Ipv4Addr, timeout: Duration) -> std::io::Result<ClientResult> {
    let begun = Instant::now();
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    socket.set_read_timeout(Some(PING_INTERVAL))?;
    socket.connect(&SocketAddrV4::new(to, 0).into())?;
    let id = std::process::id().to_be_bytes();
    let mut request = [8, 0, 0, 0, id[2], id[3], 0, 1];
    let [high, low] = checksum(&request).to_be_bytes();
    (request[2], request[3]) = (high, low);
    socket.send(&request)?;
    let mut buffer = [0; 1500];
    // A raw socket receives every ICMP packet from that address; skip a bounded number of unrelated ones.
    for _ in 0..64 {
        match (&socket).read(&mut buffer) {
            Ok(length) => {
                if let Some(ttl) = reply_ttl(&buffer[..length], [id[2], id[3]]) {
                    return Ok(ClientResult::Echo { ttl });
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < timeout => {
                socket.send(&request)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(ClientResult::Other {
        what: "only unrelated ICMP packets".to_owned(),
    })
}

/// Returns the TTL if the IPv4 packet is the echo reply with this identifier.
fn reply_ttl(packet: &[u8], id: [u8; 2]) -> Option<u8> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let ttl = *packet.get(8)?;
    let icmp = packet.get(header..)?;
    (icmp.first() == Some(&0) && icmp.get(4..6)? == id).then_some(ttl)
}

/// The internet checksum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits above")]
    let folded = sum as u16;
    !folded
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn get(to: SocketAddr) -> TimedRequest {
        let host = "a.test".into();
        TimedRequest::expecting(Request::Http { to, host }, ClientSight::Answered)
    }

    #[test]
    fn what_must_come_is_waited_for_longer_than_a_syn_that_is_lost_twice() {
        let timeout = |sight| {
            TimedRequest::expecting(
                Request::Ping {
                    to: Ipv4Addr::LOCALHOST,
                },
                sight,
            )
            .timeout
        };
        // RFC 6298: the second retransmission is sent 1 s + 2 s after the first packet.
        let repeated_twice = Duration::from_secs(3);
        for sight in [ClientSight::Answered, ClientSight::Refused, ClientSight::OwnNode] {
            assert!(timeout(sight) > 2 * repeated_twice, "{sight:?}");
        }
        for sight in [
            ClientSight::TimedOut,
            ClientSight::NotConnected,
            ClientSight::Mixed,
        ] {
            assert!(timeout(sight) <= repeated_twice, "{sight:?}");
        }
    }

    #[test]
    fn a_line_without_a_timeout_is_a_question_as_well() {
        let line = r#"{"http":{"to":"203.0.113.10:80","host":"a.test"}}"#;
        let parsed: TimedRequest = serde_json::from_str(line).unwrap();
        assert_eq!(parsed.timeout, EXPECTED_TIMEOUT);
        let timed = get("203.0.113.10:80".parse().unwrap());
        assert_eq!(parsed.request, timed.request);
        let there_and_back = serde_json::to_string(&timed).unwrap();
        assert_eq!(
            serde_json::from_str::<TimedRequest>(&there_and_back).unwrap(),
            timed
        );
    }

    #[test]
    fn a_closed_port_is_refused_and_not_something_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        drop(listener);
        let answer = send_request(&get(to));
        assert_eq!(answer, ClientResult::Refused);
        assert!(answer.matches(ClientSight::Refused, ServiceApproach::Vip));
        assert!(!answer.matches(ClientSight::Answered, ServiceApproach::Vip));
    }

    #[tokio::test]
    async fn the_origin_says_which_pod_it_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        drop(listener);
        let listen = [to];
        let origin = crate::origin::serve(
            &listen,
            "ingress-1",
            "n1",
            crate::origin::OriginBehaviour::default(),
        );
        let client = tokio::task::spawn_blocking(move || {
            loop {
                match send_request(&get(to)) {
                    ClientResult::Refused => std::thread::yield_now(),
                    answer => return answer,
                }
            }
        });
        let answer = tokio::select! {
            answer = client => answer.unwrap(),
            ended = origin => panic!("the origin ended: {ended:?}"),
        };
        assert_eq!(
            answer,
            ClientResult::Http {
                status: 200,
                pod: Some("ingress-1".into())
            }
        );
    }

    #[test]
    fn only_the_reply_with_our_identifier_counts_and_its_ttl_is_read() {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[8] = 64;
        packet[24..26].copy_from_slice(&[7, 9]);
        assert_eq!(reply_ttl(&packet, [7, 9]), Some(64));
        assert_eq!(reply_ttl(&packet, [7, 8]), None);
        packet[20] = 8;
        assert_eq!(reply_ttl(&packet, [7, 9]), None, "a request is no reply");
        assert_eq!(reply_ttl(&packet[..12], [7, 9]), None);
    }

    #[test]
    fn the_checksum_of_a_request_with_its_checksum_is_zero() {
        let mut request = [8, 0, 0, 0, 0x12, 0x34, 0, 1];
        let sum = checksum(&request).to_be_bytes();
        request[2..4].copy_from_slice(&sum);
        assert_eq!(checksum(&request), 0);
    }
}
