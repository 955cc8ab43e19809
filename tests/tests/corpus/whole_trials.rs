//! Trials of whole clusters in which something other than the fault was named once. The name of each test says what the
//! engine must know in order not to name it.

use parallax_lab::corpus::whole_cluster::{
    answered_trial,
    score::{TrialScore, score},
    sets::WholeSet,
    trial,
};

use serde_json::Value;

use super::*;

fn judged(set: &str, number: usize) -> TrialScore {
    judged_with_seed(set, 1, number)
}

fn judged_with_seed(set: &str, seed: u64, number: usize) -> TrialScore {
    let trial = trial(WholeSet::named(set).unwrap(), seed, number);
    score(&trial, &run_recording(&mut Replay::default(), &trial.lines))
}

/// The same with the probes that the engine requests.
fn judged_with_requests(set: &str, seed: u64, number: usize) -> TrialScore {
    scored_with_requests(set, seed, number).0
}

/// Returns the output of the engine as well.
fn scored_with_requests(set: &str, seed: u64, number: usize) -> (TrialScore, Vec<String>) {
    let (trial, output) = answered_trial(
        WholeSet::named(set).unwrap(),
        seed,
        number,
        &mut Replay::default(),
    );
    (score(&trial, &output), output)
}

#[track_caller]
fn assert_names_faults_only(score: &TrialScore) {
    assert!(
        score.faults.iter().all(|fault| fault.named_after.is_some()),
        "{score:#?}"
    );
    assert!(score.foreign().next().is_none(), "{score:#?}");
}

#[test]
fn failures_that_a_closed_incident_explained_support_no_other_cause() {
    assert_names_faults_only(&judged("shadow", 34));
}

#[test]
fn an_address_is_not_blamed_for_the_only_origin_that_a_client_could_resolve() {
    assert_names_faults_only(&judged("shadow", 27));
}

#[test]
fn a_cut_off_node_explains_lookups_of_which_only_one_direction_was_reported() {
    assert_names_faults_only(&judged("flapping", 32));
}

/// A node with a resolver Pod dies: the lookups named one of the two Pods in the round in which an address named the node.
#[test]
fn a_node_that_addresses_name_explains_lookups_of_the_same_round() {
    assert_names_faults_only(&judged("search-list", 15));
}

/// A node that loses nearly everything, so that an echo in ten gets through: the others were withheld, and the node was named from
/// the round in which one was answered. Lookups that had failed before had no cause but a resolver Pod.
#[test]
fn a_node_explains_what_failed_since_its_prober_is_silent() {
    assert_names_faults_only(&judged("search-list", 21));
}

/// Only addresses cross the broken link often enough to show it, and one of two resolver Pods is behind it.
#[test]
fn a_cut_that_addresses_show_explains_lookups() {
    assert_names_faults_only(&judged("three-faults-12", 8));
}

/// A broken zone, a broken client and a broken node: the Pod of the entry that fits what they leave for a round had .9465.
#[test]
fn a_region_beside_known_causes_needs_more_probability() {
    assert_names_faults_only(&judged("three-faults-12", 59));
}

/// The client on the entry's node is broken: one host blamed the entry's Pod with .92, another one the client with .82.
#[test]
fn a_host_waits_where_another_one_suspects_a_cause_of_both() {
    assert_names_faults_only(&judged("three-faults-12", 33));
}

/// A Pod broke while two other causes were known: results from before it contradicted it until the end.
#[test]
fn a_fault_that_begins_after_the_known_causes_is_named() {
    assert_names_faults_only(&judged("three-faults-12", 11));
}

/// The first failure between the zones was an accident, four rounds before the cut: the healthy results in between left the
/// failures of a host to one of its Pods.
#[test]
fn a_known_cause_begins_after_the_accidents_before_it() {
    assert_names_faults_only(&judged("two-faults-whole", 9));
}

/// What leaves the node of one entry Pod gets lost, so its prober is silent. The incident that named both the client and the Pod
/// was taken as an explanation of the silence, which then no longer counted for the client. A stale proxy elsewhere, forced on a
/// host that it does not affect, counted against the client, too.
#[test]
fn a_silence_tells_apart_what_an_incident_cannot() {
    let trial = trial(WholeSet::named("three-faults-12").unwrap(), 2, 39);
    let output = run_recording(&mut Replay::default(), &trial.lines);
    let verdicts = output
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_entry = verdicts.filter(|line| {
        line["type"] == "verdict"
            && line["t"].as_f64().unwrap() < 195.0
            && line["class"].to_string().contains("edge-0")
    });
    let classes: Vec<String> = of_entry.map(|line| line["class"].to_string()).collect();
    assert!(!classes.is_empty());
    assert!(
        classes
            .iter()
            .all(|class| class.contains(r#"["client",["n04"]]"#)),
        "{classes:#?}"
    );
}

/// What leaves a node fails, and the resolver Pod on the node goes on answering its clients: half of the lookups from the node
/// succeeded, so that the known cause and the broken other resolver Pod together fitted worse than "all resolver Pods, half of
/// the time". The region with both directions of the node's network explained the other half.
#[test]
fn a_client_that_fails_to_leave_its_node_still_reaches_the_pods_of_the_node() {
    assert_names_faults_only(&judged("three-faults-12", 30));
}

/// The failures of a broken client shared one vote in each round until the end, like those of a stall, and all resolver Pods were
/// named beside the broken one.
#[test]
fn a_client_that_fails_for_minutes_does_not_stall() {
    assert_names_faults_only(&judged_with_seed("three-faults-12", 2, 34));
}

/// Every resolver Pod loses a few answers: the incident named all of them, without one, and with it again.
#[test]
fn a_region_of_a_tie_stays_until_it_is_improbable() {
    let trial = trial(WholeSet::named("soft-long").unwrap(), 1, 7);
    let output = run_recording(&mut Replay::default(), &trial.lines);
    let verdicts = output.iter().filter(|line| line.contains(r#""type":"verdict""#));
    let open: Vec<&String> = verdicts
        .filter(|line| line.contains(r#""closed_t":null"#))
        .collect();
    assert!(open[0].contains("dns-all") && open.len() == 1, "{open:#?}");
}

/// An entry and one of three origins of a host are on the two nodes: the host saw one request of three fail, and only through this
/// entry, which fits no Pod.
#[test]
fn a_host_knows_the_link_from_its_entry_to_an_origin() {
    assert_names_faults_only(&judged("three-faults-12", 55));
}

/// A node with a resolver Pod dies at the end of a round: lookups have failed in two rounds when addresses and echoes have failed in
/// one.
#[test]
fn names_wait_for_a_node_that_addresses_suspect() {
    assert_names_faults_only(&judged("search-list", 57));
}

/// One of ten connections got through to a node that was broken, so that the echoes to it seemed to fail because of its prober.
#[test]
fn one_connection_that_gets_through_does_not_show_that_a_node_works() {
    assert_names_faults_only(&judged_with_requests("shadow", 1, 18));
}

/// A client recovered while a dead node still failed some of its requests: for two rounds, an entry on the client's node fit better.
#[test]
fn the_end_of_one_fault_beside_another_renames_no_incident() {
    assert_names_faults_only(&judged_with_requests("three-faults-12", 1, 9));
}

/// Three faults: beside each of them, "every connection between nodes" fit what the other two left better than any one of these,
/// and it renamed the incident of the zones.
#[test]
fn three_faults_that_are_named_are_compared_as_a_whole() {
    assert_names_faults_only(&judged_with_seed("three-faults-12", 2, 16));
}

/// A link, a client and a resolver Pod: without the Pod, one direction of the link explained more of the lookups than both, and
/// beside this direction all Pods more than the broken one.
#[test]
fn known_causes_are_selected_beside_the_further_fault() {
    assert_names_faults_only(&judged_with_requests("three-faults-12", 2, 34));
}

/// All connections between nodes lose 4 %. The subjects took these failures for their background, and the names for a broken Pod.
#[test]
fn a_fault_that_lasts_is_not_its_own_background() {
    let score = judged("soft-long", 46);
    assert_names_faults_only(&score);
    assert!(score.faults[0].named_after.unwrap() < 60.0, "{score:#?}");
}

/// Zones and a client are broken when a node dies: what other addresses had seen before contradicted the node, and three of its
/// Pods were named.
#[test]
fn other_subjects_count_from_the_onset_of_a_further_fault() {
    assert_names_faults_only(&judged_with_requests("three-faults-12", 3, 51));
}

/// Zones, a client and a node: only hosts had named the zones, and in the network "every connection between nodes" fit better than
/// each of the three.
#[test]
fn what_any_subject_has_named_is_compared_as_a_whole() {
    assert_names_faults_only(&judged_with_requests("three-faults-12", 3, 57));
}

/// A client, an origin and a resolver Pod: the entry on the client's node lost what it forwarded, for several hosts with different
/// origins, and the address was named. The incident of the client named the entry together with it in every second report.
#[test]
fn a_broken_client_breaks_what_the_entry_on_its_node_forwards() {
    let (score, output) = scored_with_requests("three-faults-12", 3, 20);
    assert_names_faults_only(&score);
    let verdicts = output
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "verdict" && line["region"] == "client");
    let mut classes: Vec<usize> = verdicts
        .map(|verdict| verdict["class"].as_array().unwrap().len())
        .collect();
    classes.dedup();
    assert_eq!(classes, [3, 2, 1]);
}

/// Stale rules of a node, an application and a client: where no rules were stale, those of the node seemed to explain its share of what
/// the client broke, and contradicted the client. The incident of the client was renamed to an entry on its node.
#[test]
fn a_known_cause_that_another_region_covers_does_not_count_against_it() {
    assert_names_faults_only(&judged_with_requests("three-faults-12", 2, 39));
}

/// All Pods of the resolver lose questions: the first verdict named one of them, and the next reports all.
#[test]
fn regions_that_were_never_ruled_out_join_a_verdict_at_once() {
    assert_names_faults_only(&judged_with_requests("soft-long", 1, 19));
}

/// All Pods of the resolver lose a few questions, or one of two loses twice as many. Both explain the results alike, and one Pod was
/// named, because it is more probable beforehand.
#[test]
fn what_only_the_prior_separates_is_named_together() {
    assert_names_faults_only(&judged_with_requests("soft-long", 1, 55));
}

/// A cut between two zones, seen first by requests of clients in the third one, whose entries could not reach the origins: "clients in
/// that zone" was named, although none of their connections failed.
#[test]
fn a_zone_whose_connections_succeed_is_not_barred_from_an_address() {
    assert_names_faults_only(&judged_with_requests("three-faults-12", 3, 27));
}

/// Some connections of the clients in one zone to an address fail, and some stall. The few stalled ones of a host were all through
/// the endpoint on the client's node, and that was named until the address named the zone.
#[test]
fn what_connections_to_an_address_show_counts_for_its_hosts() {
    assert_names_faults_only(&judged_with_requests("soft-long", 1, 23));
}

/// A node with an entry loses a few packets. Each host had few failures of its own, and those of the other hosts counted for the entry,
/// but not for the client that the network suspected.
#[test]
fn what_other_hosts_show_counts_for_a_suspected_cause_as_well() {
    assert_names_faults_only(&judged_with_requests("soft-long", 3, 1));
}

/// The same: the first failure of the node came before four quiet rounds and passed for an accident. What the entry lost meanwhile was
/// a fault of the entry, then.
#[test]
fn a_cause_that_fails_seldom_begins_before_its_quiet_rounds() {
    assert_names_faults_only(&judged_with_requests("soft-long", 3, 37));
}

/// The same: the node and its entry were named together, then the network named the node. That was a second incident, and the first one
/// remained for the entry.
#[test]
fn a_subject_that_decides_a_tie_opens_no_other_incident() {
    assert_names_faults_only(&judged_with_requests("soft-long", 3, 13));
}

/// An application that fails seldom, and all resolver Pods that lose a few questions: one endpoint of three that always fails fits what
/// their clients see as well, and the three were named without "all of them".
#[test]
fn tied_endpoints_are_named_together_with_all_of_them() {
    assert_names_faults_only(&judged_with_requests("soft-long", 5, 29));
    assert_names_faults_only(&judged_with_requests("soft-long", 4, 31));
}

/// An application fails 9 % of its requests, which lies between two rates of the coarse grid.
#[test]
fn a_rate_between_two_points_of_a_grid_is_not_one_endpoint_of_several() {
    assert_names_faults_only(&judged_with_requests("soft-long", 4, 53));
}

/// A client loses a few packets, and an entry runs on its node: to a host, the entry or all origins failed.
#[test]
fn a_host_knows_the_links_of_the_nodes_of_its_entries() {
    assert_names_faults_only(&judged_with_requests("soft-long", 5, 1));
}

/// A node with an origin loses a few packets. Its hosts had three times their share of accidents, and all of the origins were named
/// until the network named the node 20 s later, or until the results of the next 30 s showed the node.
#[test]
fn endpoints_that_fail_seldom_are_named_once_this_has_lasted() {
    assert_names_faults_only(&judged_with_requests("soft-long", 5, 48));
    assert_names_faults_only(&judged_with_requests("soft-long", 5, 0));
}

/// A node loses 19 % of its packets. Failed echoes shared one vote with what failed beside them, so that names failed at twice the rate
/// of the echoes, and a resolver Pod on another node was named for the difference.
#[test]
fn a_failed_control_of_a_named_node_is_no_sign_of_a_stall() {
    assert_names_faults_only(&judged_with_requests("soft-long", 4, 36));
}

/// A Pod, and a link of its node. The Pod and its node were named together; that explained the failed echo of the link, which then counted
/// as more than a stall, and the node was named alone.
#[test]
fn a_cause_that_no_echo_shows_explains_no_failed_echo() {
    assert_names_faults_only(&judged_with_requests("three-faults-12", 1, 47));
}

/// A lossy node, and a few accidents on one node: two minutes after the address had named the node, it named "connections on one node"
/// beside it with a probability of 0.95. Beside a node that another subject had named, that takes 0.99.
#[test]
fn a_further_fault_beside_a_named_one_needs_the_same_evidence_whichever_subject_named_it() {
    assert_names_faults_only(&judged_with_requests("soft-long", 2, 12));
}

/// One Pod of an entry has failed for 20 s when the node of the other one dies: "every endpoint of the address fails" replaced the
/// Pod until the network named the node.
#[test]
fn a_wider_region_replaces_a_named_one_once_further_rounds_confirm_it() {
    assert_names_faults_only(&judged_with_requests("three-faults-12", 4, 35));
}
