//! A DNS message from a resolver, a name server or a stranger. The prober's decoder is private and depends on nothing else of
//! the prober, so its file is included here.

#[path = "../../prober/src/dns/message.rs"]
mod message;

use message::{MAX_NAME_STEPS, MAX_RECORDS, decode_message, measure};

/// Decodes the bytes as a message. A message has at most 65 535 bytes over TCP.
pub fn check(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
    let Ok(message) = decode_message(bytes) else {
        return;
    };
    let steps = measure(bytes).expect("a decoded message is within the limits");
    assert!(steps <= MAX_NAME_STEPS);
    let sections = [&message.answers, &message.authorities, &message.additionals];
    let records = sections.iter().map(|section| section.len()).sum::<usize>();
    assert!(message.queries.len() + records <= MAX_RECORDS);
    // Every label of a decoded name was visited. The names of the other sections are measured alike.
    let owners = message
        .answers
        .iter()
        .map(|record| usize::from(record.name.num_labels()));
    assert!(
        owners.sum::<usize>() <= steps,
        "a name was decoded that was not measured"
    );
}
