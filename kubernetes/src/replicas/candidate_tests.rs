use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);

fn candidate(name: &str) -> LeaseCandidate {
    LeaseCandidate::new(name.to_owned(), LeaseTiming::from_duration(S * 10))
}

fn record(holder: &str, epoch: u64, version: &str) -> LeaseRecord {
    LeaseRecord {
        holder: (!holder.is_empty()).then(|| holder.to_owned()),
        duration: S * 10,
        epoch,
        version: version.to_owned(),
    }
}

#[test]
fn a_missing_or_released_lease_is_taken_immediately_in_a_new_epoch() {
    let mut a = candidate("a");
    assert_eq!(a.decide(S, 1_000, None), LeaseAction::Create { epoch: 1_000 });
    let free = record("", 5_000, "1");
    assert_eq!(
        candidate("a").decide(S, 1_000, Some(&free)),
        LeaseAction::Acquire { epoch: 5_001 },
        "even if the own clock is behind"
    );
}

#[test]
fn a_holder_that_is_silent_for_a_whole_duration_since_we_first_saw_its_last_word_is_replaced() {
    let mut b = candidate("b");
    assert_eq!(
        b.decide(S * 50, 9_000, Some(&record("a", 7, "1"))),
        LeaseAction::Wait
    );
    assert_eq!(
        b.decide(S * 59, 9_000, Some(&record("a", 7, "1"))),
        LeaseAction::Wait
    );
    assert_eq!(
        b.decide(S * 60, 9_000, Some(&record("a", 7, "2"))),
        LeaseAction::Wait,
        "it is alive"
    );
    assert_eq!(
        b.decide(S * 69, 9_000, Some(&record("a", 7, "2"))),
        LeaseAction::Wait
    );
    assert_eq!(
        b.decide(S * 70, 9_000, Some(&record("a", 7, "2"))),
        LeaseAction::Acquire { epoch: 9_000 }
    );
}

#[test]
fn a_holder_that_asks_for_more_patience_gets_it() {
    let mut b = candidate("b");
    let long = LeaseRecord {
        duration: S * 30,
        ..record("a", 7, "1")
    };
    assert_eq!(b.decide(S, 9_000, Some(&long)), LeaseAction::Wait);
    assert_eq!(b.decide(S * 30, 9_000, Some(&long)), LeaseAction::Wait);
    assert_eq!(
        b.decide(S * 31, 9_000, Some(&long)),
        LeaseAction::Acquire { epoch: 9_000 }
    );
}

#[test]
fn who_leads_renews_and_leads_until_the_deadline_after_the_last_write_was_begun() {
    let mut a = candidate("a");
    a.decide(S, 1_000, None);
    a.record_write(S, 1_000, "1".to_owned());
    assert!(a.leadership(S * 7).is_some());
    assert_eq!(
        a.decide(S * 3, 1_002, Some(&record("a", 1_000, "1"))),
        LeaseAction::Renew { epoch: 1_000 }
    );
    a.record_write(S * 3, 1_000, "2".to_owned());
    assert!(a.leadership(Duration::from_millis(9_999)).is_some());
    assert!(a.leadership(S * 10).is_none(), "3 s + 7 s");
}

#[test]
fn who_came_too_late_to_renew_begins_another_epoch() {
    let mut a = candidate("a");
    a.decide(S, 1_000, None);
    a.record_write(S, 1_000, "1".to_owned());
    assert_eq!(
        a.decide(S * 20, 1_019, Some(&record("a", 1_000, "1"))),
        LeaseAction::Acquire { epoch: 1_019 }
    );
}

#[test]
fn a_candidate_that_sees_another_holder_stops_leading() {
    let mut a = candidate("a");
    a.decide(S, 1_000, None);
    a.record_write(S, 1_000, "1".to_owned());
    assert_eq!(
        a.decide(S * 2, 1_001, Some(&record("b", 1_001, "2"))),
        LeaseAction::Wait
    );
    assert!(a.leadership(S * 2).is_none());
}

#[test]
fn a_process_of_the_same_name_that_died_is_followed_without_a_wait_by_another_epoch() {
    let mut again = candidate("a");
    assert_eq!(
        again.decide(S, 1_000, Some(&record("a", 1_000, "9"))),
        LeaseAction::Acquire { epoch: 1_001 }
    );
}

#[test]
fn a_deleted_lease_is_recreated_by_its_holder_at_once_and_by_others_after_a_duration() {
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    a.decide(S, 1_000, None);
    a.record_write(S, 1_000, "1".to_owned());
    assert_eq!(
        b.decide(S * 2, 1_001, Some(&record("a", 1_000, "1"))),
        LeaseAction::Wait
    );
    assert_eq!(b.decide(S * 4, 1_003, None), LeaseAction::Wait);
    assert_eq!(a.decide(S * 4, 1_003, None), LeaseAction::Create { epoch: 1_003 });
    assert_eq!(
        b.decide(S * 14, 1_013, None),
        LeaseAction::Create { epoch: 1_013 }
    );
}

/// A Lease as the API server stores it: serialized writes, rejected if they are based on an old version.
#[derive(Debug, Default)]
struct FakeLease {
    record: Option<LeaseRecord>,
    writes: u64,
}

impl FakeLease {
    fn write(&mut self, name: &str, epoch: u64, rests_on: Option<&str>) -> Option<String> {
        let current = self.record.as_ref().map(|record| record.version.as_str());
        if current != rests_on {
            return None;
        }
        self.writes += 1;
        let version = self.writes.to_string();
        self.record = Some(record(name, epoch, &version));
        Some(version)
    }
}

/// One turn of one candidate, in true time.
#[derive(Debug, Clone)]
struct CandidateTurn {
    who: usize,
    /// Time since the last turn of any candidate, in milliseconds.
    after: u64,
    /// Durations in milliseconds: from the read to the write, and from the write to its response.
    way: (u64, u64),
    /// Whether the response is lost.
    lost: bool,
}

fn turns() -> impl Strategy<Value = Vec<CandidateTurn>> {
    let turn = (
        0_usize..3,
        0_u64..6_000,
        (0_u64..9_000, 0_u64..9_000),
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(
        turn.prop_map(|(who, after, way, lost)| CandidateTurn {
            who,
            after,
            way,
            lost,
        }),
        1..120,
    )
}

/// A pending call of a candidate, in milliseconds of true time.
enum CallInFlight {
    Write {
        at: u64,
        action: LeaseAction,
        begun: Duration,
        rests_on: Option<String>,
        then: u64,
        lost: bool,
    },
    Word {
        at: u64,
        epoch: u64,
        version: String,
        begun: Duration,
    },
}

impl CallInFlight {
    const fn at(&self) -> u64 {
        match self {
            Self::Write { at, .. } | Self::Word { at, .. } => *at,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// However slow, lost or paused calls are, two replicas never lead at the same time, and epochs only
    /// grow.
    #[test]
    fn there_are_never_two_leaders(turns in turns(), speeds in prop::array::uniform3(90_u64..=110)) {
        let names = ["a", "b", "c"];
        let mut candidates = names.map(candidate);
        let mut ways: [Option<CallInFlight>; 3] = [None, None, None];
        let mut server = FakeLease::default();
        let (mut now, mut last) = (0_u64, 0_u64);
        // Each candidate has its own clock, up to a tenth slow or fast, with its own origin.
        let own = |replica: usize, now: u64| Duration::from_millis((now * speeds[replica]) / 100 + 1_000 * replica as u64);
        for turn in turns {
            let until = now + turn.after;
            // Pending calls complete in order in the meantime.
            loop {
                let next = (0..3).filter_map(|replica| Some((ways[replica].as_ref()?.at(), replica))).min();
                let Some((at, replica)) = next.filter(|(at, _)| *at <= until) else { break };
                match ways[replica].take() {
                    Some(CallInFlight::Write { action, begun, rests_on, then, lost, .. }) => {
                        let (LeaseAction::Create { epoch } | LeaseAction::Acquire { epoch } | LeaseAction::Renew { epoch }) = action
                        else { continue };
                        if let Some(version) = server.write(names[replica], epoch, rests_on.as_deref()) {
                            prop_assert!(epoch >= last);
                            last = epoch;
                            if !lost {
                                ways[replica] = Some(CallInFlight::Word { at: at + then, epoch, version, begun });
                            }
                        }
                    }
                    Some(CallInFlight::Word { epoch, version, begun, .. }) => candidates[replica].record_write(begun, epoch, version),
                    None => {}
                }
                let leaders = (0..3).filter(|replica| candidates[*replica].leadership(own(*replica, at)).is_some()).count();
                prop_assert!(leaders <= 1, "{leaders} lead at {at}");
            }
            now = until;
            if ways[turn.who].is_none() {
                let begun = own(turn.who, now);
                let read = server.record.clone();
                let action = candidates[turn.who].decide(begun, 1_000 + now / 1_000, read.as_ref());
                if action != LeaseAction::Wait {
                    let rests_on = read.map(|record| record.version);
                    ways[turn.who] = Some(CallInFlight::Write {
                        at: now + turn.way.0, action, begun, rests_on, then: turn.way.1, lost: turn.lost,
                    });
                }
            }
            let leaders = (0..3).filter(|replica| candidates[*replica].leadership(own(*replica, now)).is_some()).count();
            prop_assert!(leaders <= 1, "{leaders} lead at {now}");
        }
    }
}
