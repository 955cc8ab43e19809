//! Decodes messages of unknown senders for a bounded amount of work.
//!
//! The decoder expands every name, and with compression (RFC 1035 §4.1.4) two bytes of a record stand for a name of 127 labels
//! or for thousands of pointers. A message is therefore measured before it is decoded.

use hickory_proto::{op::Message, rr::RecordType};

/// Maximum number of questions and records of a message. A response over TCP has room for five thousand.
pub(crate) const MAX_RECORDS: usize = 1024;

/// Maximum number of labels and pointers that decoding the names of a message visits.
pub(crate) const MAX_NAME_STEPS: usize = 32_768;

/// Length of a message's header.
const HEADER: usize = 12;

/// Length of the type and class that follow the name of a question.
const QUESTION_FIELDS: usize = 4;

/// Length of type, class, TTL and data length, which follow the name of a record.
const RECORD_FIELDS: usize = 10;

/// A message that is not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreadableMessage {
    /// It cannot be parsed.
    #[error("cannot parse the resolver's response")]
    Malformed,
    /// It has more than [`MAX_RECORDS`] questions and records.
    #[error("the resolver's response has more than {MAX_RECORDS} records")]
    TooManyRecords,
    /// Its names have more than [`MAX_NAME_STEPS`] labels and pointers.
    #[error("the names in the resolver's response have more than {MAX_NAME_STEPS} labels")]
    NamesTooLong,
}

/// Decodes a message within the limits.
pub(crate) fn decode_message(bytes: &[u8]) -> Result<Message, UnreadableMessage> {
    measure(bytes)?;
    Message::from_vec(bytes).map_err(|_| UnreadableMessage::Malformed)
}

/// Returns the number of labels and pointers that decoding the names of a message visits, as far as it can be decoded.
pub(crate) fn measure(bytes: &[u8]) -> Result<usize, UnreadableMessage> {
    let mut walk = MessageWalk {
        bytes,
        at: HEADER,
        steps: 0,
    };
    let count = |at: usize| usize::from(u16_at(bytes, at).unwrap_or(0));
    let questions = count(4);
    let records = count(6) + count(8) + count(10);
    if questions + records > MAX_RECORDS {
        return Err(UnreadableMessage::TooManyRecords);
    }
    for n in 0..questions + records {
        // Where a message ends early or a name is invalid, the decoder stops too.
        let went_on = if n < questions {
            walk.question()
        } else {
            walk.record()
        };
        if walk.steps > MAX_NAME_STEPS {
            return Err(UnreadableMessage::NamesTooLong);
        }
        if went_on.is_none() {
            break;
        }
    }
    Ok(walk.steps)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

/// A position in a message. The methods return `None` where it ends early or a name is invalid.
struct MessageWalk<'a> {
    bytes: &'a [u8],
    at: usize,
    steps: usize,
}

impl MessageWalk<'_> {
    fn question(&mut self) -> Option<()> {
        self.at = self.name(self.at)? + QUESTION_FIELDS;
        Some(())
    }

    fn record(&mut self) -> Option<()> {
        let fields = self.name(self.at)?;
        let kind = RecordType::from(u16_at(self.bytes, fields)?);
        let data = fields + RECORD_FIELDS;
        let length = usize::from(u16_at(self.bytes, data - 2)?);
        if length > 0 {
            // Where a name of the data is invalid, the decoder stops; the walk may go on.
            self.names_of_data(kind, data);
        }
        self.at = data + length;
        Some(())
    }

    /// Counts the steps of the names in the data of a record. The decoder expands names in no other type.
    fn names_of_data(&mut self, kind: RecordType, data: usize) -> Option<()> {
        let first = match kind {
            RecordType::CNAME
            | RecordType::NS
            | RecordType::PTR
            | RecordType::SOA
            | RecordType::ANAME
            | RecordType::TSIG => data,
            RecordType::MX | RecordType::SVCB | RecordType::HTTPS => data + 2,
            RecordType::SRV => data + 6,
            // Two numbers, then three strings, each with its length in front.
            RecordType::NAPTR => {
                let mut at = data + 4;
                for _ in 0..3 {
                    at += 1 + usize::from(*self.bytes.get(at)?);
                }
                at
            }
            _ => return Some(()),
        };
        let second = self.name(first)?;
        if kind == RecordType::SOA {
            self.name(second)?;
        }
        Some(())
    }

    /// Counts the steps of a name and returns where the bytes after it start.
    fn name(&mut self, start: usize) -> Option<usize> {
        // As in the decoder, a pointer must lead to before the labels that it follows, so a walk ends.
        let (mut at, mut run, mut after) = (start, start, None);
        while self.steps <= MAX_NAME_STEPS {
            self.steps += 1;
            match *self.bytes.get(at)? {
                0 => return Some(after.unwrap_or(at + 1)),
                label @ 1..=63 => at += 1 + usize::from(label),
                0xC0.. => {
                    let pointer = u16_at(self.bytes, at)?;
                    after = after.or(Some(at + 2));
                    at = usize::from(pointer & 0x3FFF);
                    if at >= run {
                        return None;
                    }
                    run = at;
                }
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
