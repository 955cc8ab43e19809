//! Messages that are small and expensive to decode.

use hickory_proto::{
    op::{MessageType, OpCode, Query},
    rr::{
        Name, RData, Record,
        rdata::{A, CNAME, SOA},
    },
};

use super::*;

/// A response to a question for the root, with `records` answers in `body`.
fn message(records: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 7, 0x80, 0, 0, 1];
    bytes.extend(records.to_be_bytes());
    bytes.extend([0, 0, 0, 0]);
    bytes.extend([0, 0, 1, 0, 1]);
    bytes.extend(body);
    bytes
}

/// A record without data whose name is a pointer.
fn record(pointer: u16) -> Vec<u8> {
    let mut bytes = (0xC000 | pointer).to_be_bytes().to_vec();
    bytes.extend([0, 16, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

#[test]
fn an_ordinary_response_costs_a_step_a_label() {
    let mut response = Message::new(7, MessageType::Response, OpCode::Query);
    response.add_query(Query::query(name("shop.example.test."), RecordType::A));
    let alias = RData::CNAME(CNAME(name("lb.example.test.")));
    let soa = SOA::new(
        name("ns.example.test."),
        name("admin.example.test."),
        1,
        2,
        3,
        4,
        5,
    );
    response.add_answers([
        Record::from_rdata(name("shop.example.test."), 5, alias),
        Record::from_rdata(name("lb.example.test."), 5, RData::A(A([203, 0, 113, 10].into()))),
    ]);
    response.add_authority(Record::from_rdata(name("example.test."), 5, RData::SOA(soa)));
    let bytes = response.to_vec().unwrap();
    let steps = measure(&bytes).unwrap();
    assert!((20..40).contains(&steps), "{steps}");
    assert_eq!(decode_message(&bytes).unwrap().answers, response.answers);
}

#[test]
fn three_thousand_aliases_in_reverse_order_are_refused_before_they_are_decoded() {
    let mut body = Vec::new();
    for _ in 0..3001 {
        body.extend(record(12));
    }
    assert_eq!(
        measure(&message(3001, &body)),
        Err(UnreadableMessage::TooManyRecords)
    );
}

/// Each name is a chain of 8 000 pointers, which hold no label at all: 1 000 records would take eight million steps.
#[test]
fn chains_of_pointers_are_refused_after_a_few_names() {
    let mut body = vec![0, 0, 16, 0, 1, 0, 0, 0, 0];
    let first = 17 + body.len() + 2;
    let pointers = 8000_usize;
    body.extend(u16::try_from(2 * pointers).unwrap().to_be_bytes());
    let mut target = 12;
    for n in 0..pointers {
        body.extend((0xC000 | u16::try_from(target).unwrap()).to_be_bytes());
        target = first + 2 * n;
    }
    for _ in 0..1000 {
        body.extend(record(u16::try_from(target).unwrap()));
    }
    let bytes = message(1001, &body);
    assert_eq!(measure(&bytes), Err(UnreadableMessage::NamesTooLong));
    assert_eq!(
        decode_message(&bytes).unwrap_err(),
        UnreadableMessage::NamesTooLong
    );
}

#[test]
fn long_names_in_the_data_of_records_count_too() {
    // A name of 127 labels in the first record, and aliases that point to it.
    let mut body = vec![0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 255];
    let long = 17 + body.len();
    body.extend([1, b'a'].repeat(127));
    body.push(0);
    for _ in 0..300 {
        body.extend([0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 2]);
        body.extend((0xC000 | u16::try_from(long).unwrap()).to_be_bytes());
    }
    assert_eq!(
        measure(&message(301, &body)),
        Err(UnreadableMessage::NamesTooLong)
    );
    assert!(measure(&message(200, &body)).unwrap() > 200 * 127);
}

#[test]
fn whatever_ends_early_is_malformed() {
    let whole = message(1, &[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 203, 0, 113, 10]);
    assert!(decode_message(&whole).is_ok());
    for length in 0..whole.len() {
        assert_eq!(
            decode_message(&whole[..length]).unwrap_err(),
            UnreadableMessage::Malformed
        );
    }
}
