//! Regions that no probe can tell apart.

use super::*;

#[test]
fn through_the_virtual_address_alone_target_and_vip_are_one() {
    let found = equivalent(world(4, &[0, 1], VIP_ONLY), vec![dead(Region::Vip)]);
    assert_eq!(found, ["proto-vip", "target", "vip"]);
}

#[test]
fn a_direct_probe_separates_the_target_from_its_virtual_address() {
    assert_eq!(
        equivalent(world(4, &[0, 1], EVERYTHING), vec![dead(Region::Target)]),
        ["target"]
    );
    assert_eq!(
        equivalent(world(4, &[0, 1], EVERYTHING), vec![dead(Region::Vip)]),
        ["proto-vip", "vip"]
    );
}

#[test]
fn without_mesh_an_endpoint_and_its_node_are_one() {
    let found = equivalent(world(4, &[0, 1], NO_MESH), vec![dead(Region::Backend(0))]);
    assert_eq!(found, ["backend shop-0", "bnode node-00"]);
    let with_mesh = equivalent(world(4, &[0, 1], EVERYTHING), vec![dead(Region::Backend(0))]);
    assert_eq!(with_mesh, ["backend shop-0"]);
}

#[test]
fn without_mesh_a_node_with_two_endpoints_is_not_one_of_them() {
    let found = equivalent(world(4, &[0, 0, 1], NO_MESH), vec![dead(Region::Bnode(0))]);
    assert_eq!(found, ["bnode node-00"]);
}

#[test]
fn with_all_endpoints_on_one_node_no_local_cross_and_the_way_into_that_node_are_one() {
    let found = equivalent(world(4, &[2, 2], VIP_ONLY), vec![dead(Region::NoLocal)]);
    assert_eq!(found, ["bnode-remote node-02", "cross", "nolocal"]);
    let mut no_prober_there = world(4, &[2, 2], VIP_ONLY);
    no_prober_there.probers[2] = false;
    let found = equivalent(no_prober_there, vec![dead(Region::NoLocal)]);
    assert_eq!(
        found,
        [
            "bnode node-02",
            "bnode-remote node-02",
            "cross",
            "nolocal",
            "proto-vip",
            "target",
            "vip"
        ]
    );
}

#[test]
fn without_direct_probes_same_node_and_loopback_through_the_balancer_are_one() {
    let found = equivalent(world(5, &[3, 4], NO_DIRECT), vec![dead(Region::Same)]);
    assert_eq!(found, ["same", "same-vip"]);
}

#[test]
fn a_name_fault_on_one_node_is_not_the_node() {
    assert_eq!(
        equivalent(world(4, &[0, 1], EVERYTHING), vec![dead(Region::DnsClient(3))]),
        ["dns-client node-03"]
    );
    let client = equivalent(world(4, &[0, 1], EVERYTHING), vec![dead(Region::Client(3))]);
    assert_eq!(client, ["client node-03"]);
}

#[test]
fn another_hard_fault_hides_what_it_breaks() {
    // Only the probes that start on its node are left as evidence of the endpoint's own fault.
    let both = vec![dead(Region::Backend(0)), dead(Region::BnodeRemote(0))];
    assert_eq!(
        equivalent(world(4, &[0, 1], EVERYTHING), both),
        ["backend shop-0", "bnode node-00"]
    );
}

#[test]
fn only_paths_in_the_region_fail_where_the_background_is_silent() {
    for set in ["hard-12", "mixed", "dns", "many-hosts", "self-echo"] {
        let set = TrialSet {
            theta0: &[0.0],
            stalls: &[0.0],
            ..*TrialSet::named(set).unwrap()
        };
        for number in 0..20 {
            let mut rng = Rng::from_words(&[5, number]);
            let plan = corpus::draw::plan(&set, usize::try_from(number).unwrap(), &mut rng);
            let run = simulate::run(plan, set.form, &mut rng);
            for shot in run
                .probes
                .iter()
                .filter(|shot| shot.failure.is_some() && shot.path.way != ProbeApproach::Proxied)
            {
                let blamed = run
                    .plan
                    .faults
                    .iter()
                    .any(|f| f.active(shot.round) && f.breaks(&shot.path, &run.plan.world));
                assert!(blamed, "{} trial {number}: {shot:?}", set.name);
            }
        }
    }
}
