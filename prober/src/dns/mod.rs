//! One DNS query to one server, on a separate connected socket.

mod exchange;
mod message;
mod question;
mod reply;

pub(crate) use exchange::{DnsTransportKind, query_addresses, query_records};
pub(crate) use question::DnsQuestion;
pub(crate) use reply::DnsReply;
