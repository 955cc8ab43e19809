//! Responses of name servers, byte by byte.

use std::net::Ipv6Addr;

use hickory_proto::{
    op::{OpCode, Query},
    rr::{
        Record, RecordType as WireType,
        rdata::{A, AAAA, CNAME},
    },
};
use proptest::prelude::*;

use super::*;

fn question() -> DnsQuestion {
    DnsQuestion::new("shop.example.test", RecordType::A).unwrap()
}

fn name(text: &str) -> Name {
    let mut name = Name::from_ascii(text).unwrap();
    name.set_fqdn(true);
    name
}

fn reply(code: ResponseCode, answers: Vec<Record>) -> Vec<u8> {
    let mut message = Message::response(7, OpCode::Query);
    message.metadata.response_code = code;
    message.add_query(Query::query(name("shop.example.test"), WireType::A));
    message.add_answers(answers);
    message.to_vec().unwrap()
}

fn a(owner: &str, ttl: u32, address: [u8; 4]) -> Record {
    Record::from_rdata(name(owner), ttl, RData::A(A(address.into())))
}

#[test]
fn addresses_are_followed_over_aliases_in_any_order_with_the_smallest_ttl() {
    let bytes = reply(
        ResponseCode::NoError,
        vec![
            a("lb.example.test", 30, [203, 0, 113, 10]),
            Record::from_rdata(
                name("shop.example.test"),
                20,
                RData::CNAME(CNAME(name("lb.example.test"))),
            ),
            a("stranger.example.test", 1, [6, 6, 6, 6]),
            Record::from_rdata(name("lb.example.test"), 1, RData::AAAA(AAAA(Ipv6Addr::LOCALHOST))),
        ],
    );
    let (reply, truncated) = decode(&bytes, 7, &question()).unwrap();
    assert_eq!(reply.addresses, ["203.0.113.10".parse::<IpAddr>().unwrap()]);
    assert_eq!((reply.ttl, reply.failure, truncated), (Some(20), None, false));
}

#[test]
fn aliases_in_a_circle_end() {
    let bytes = reply(
        ResponseCode::NoError,
        vec![
            alias("shop.example.test", "b.example.test"),
            alias("b.example.test", "shop.example.test"),
        ],
    );
    let (reply, _) = decode(&bytes, 7, &question()).unwrap();
    assert_eq!(reply.failure, Some(FailureKind::NoAddress));
}

#[test]
fn each_response_code_has_its_kind() {
    for (code, kind) in [
        (ResponseCode::NXDomain, FailureKind::NxDomain),
        (ResponseCode::ServFail, FailureKind::ServFail),
        (ResponseCode::Refused, FailureKind::DnsRefused),
        (ResponseCode::NotImp, FailureKind::ServFail),
        (ResponseCode::NoError, FailureKind::NoAddress),
    ] {
        let (reply, _) = decode(&reply(code, vec![]), 7, &question()).unwrap();
        assert_eq!(reply.failure, Some(kind), "{code}");
    }
}

#[test]
fn addresses_behind_a_failure_code_are_none() {
    let bytes = reply(
        ResponseCode::ServFail,
        vec![a("shop.example.test", 5, [1, 2, 3, 4])],
    );
    let (reply, _) = decode(&bytes, 7, &question()).unwrap();
    assert_eq!((reply.addresses, reply.ttl), (vec![], None));
    assert_eq!(reply.failure, Some(FailureKind::ServFail));
}

#[test]
fn another_id_another_question_or_a_query_is_no_reply() {
    let bytes = reply(ResponseCode::NoError, vec![]);
    assert_eq!(decode(&bytes, 8, &question()), Err(NotAReply::Other));
    let other = DnsQuestion::new("other.example.test", RecordType::A).unwrap();
    assert_eq!(decode(&bytes, 7, &other), Err(NotAReply::Other));
    let mut query = Message::query();
    query.add_query(Query::query(name("shop.example.test"), WireType::A));
    let id = query.metadata.id;
    assert_eq!(
        decode(&query.to_vec().unwrap(), id, &question()),
        Err(NotAReply::Other)
    );
}

fn alias(from: &str, to: &str) -> Record {
    Record::from_rdata(name(from), 5, RData::CNAME(CNAME(name(to))))
}

#[test]
fn sixteen_aliases_are_followed_and_seventeen_are_an_error() {
    let chain = |aliases: usize| {
        let owner = |n: usize| match n {
            0 => "shop.example.test".to_owned(),
            n => format!("alias-{n}.example.test"),
        };
        let mut records: Vec<Record> = (0..aliases).map(|n| alias(&owner(n), &owner(n + 1))).collect();
        records.push(a(&owner(aliases), 30, [203, 0, 113, 10]));
        records.reverse();
        decode(&reply(ResponseCode::NoError, records), 7, &question())
    };
    let (whole, _) = chain(16).unwrap();
    assert_eq!(whole.addresses, ["203.0.113.10".parse::<IpAddr>().unwrap()]);
    assert_eq!(chain(17), Err(NotAReply::TooManyAliases));
}

/// The names that belong to a question, by repeated passes over all records: what [`with_aliases`] must agree with.
fn by_passes(message: &Message, first: &Name) -> BTreeSet<Name> {
    let mut names = BTreeSet::from([first.clone()]);
    loop {
        let known = names.len();
        for record in &message.answers {
            if let RData::CNAME(alias) = &record.data
                && names.contains(&record.name)
            {
                names.insert(alias.0.clone());
            }
        }
        if names.len() == known {
            return names;
        }
    }
}

proptest! {
    #[test]
    fn aliases_are_those_that_repeated_passes_find(
        pairs in proptest::collection::vec((0..12_u8, 0..12_u8), 0..24)
    ) {
        let owner = |n: u8| match n {
            0 => "Shop.Example.test".to_owned(),
            n => format!("n{n}.example.test"),
        };
        let records = pairs.iter().map(|(from, to)| alias(&owner(*from), &owner(*to))).collect();
        let message = Message::from_vec(&reply(ResponseCode::NoError, records)).unwrap();
        let question = question();
        let names = with_aliases(&message, &question.name).unwrap();
        let names: BTreeSet<Name> = names.into_iter().cloned().collect();
        prop_assert_eq!(names, by_passes(&message, &question.name));
    }

    #[test]
    fn any_bytes_are_decoded_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = decode(&bytes, 7, &question());
    }

    #[test]
    fn an_answer_with_flipped_bytes_is_decoded_without_panic(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)
    ) {
        let mut bytes = reply(ResponseCode::NoError, vec![a("shop.example.test", 5, [1, 2, 3, 4])]);
        for (place, value) in flips {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Ok((reply, _)) = decode(&bytes, 7, &question()) {
            prop_assert!(reply.failure.is_some() || !reply.addresses.is_empty());
        }
    }
}
