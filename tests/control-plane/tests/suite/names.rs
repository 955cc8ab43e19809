//! A DNS server for one zone: every name in it has the same address.

use std::net::Ipv4Addr;

use tokio::{net::UdpSocket, task::JoinHandle};

/// Answers until dropped.
pub(crate) struct NameServer {
    pub(crate) port: u16,
    task: JoinHandle<()>,
}

impl NameServer {
    /// Starts a server that answers every name with this address, and no IPv6 address.
    pub(crate) async fn at(address: Ipv4Addr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question).await {
                if let Some(answer) = answer(&question[..length], address) {
                    socket.send_to(&answer, from).await.unwrap();
                }
            }
        });
        Self { port, task }
    }

    /// Renders a `resolv.conf` for it.
    pub(crate) fn resolv_conf(&self) -> String {
        format!("nameserver [127.0.0.1]:{}\n", self.port)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Builds the response to a query for one name (RFC 1035 §4.1).
fn answer(question: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let name = question.get(12..)?;
    let end = 12 + name.iter().position(|byte| *byte == 0)? + 1;
    let asks_for_ipv4 = question.get(end..end + 2)? == [0, 1];
    let mut answer = question[..2].to_vec();
    // A response, recursion desired and available, no error; one question, one answer or none.
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(asks_for_ipv4), 0, 0, 0, 0]);
    answer.extend(&question[12..end + 4]);
    if asks_for_ipv4 {
        // The question's name, type A, class IN, five seconds, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}
