//! Wherever a preflight or its controller is interrupted, there is never more than one set of objects, and finally
//! none.

use super::{
    controller::{Controller, condition, simple},
    *,
};

/// Starts a controller and a preflight whose responder never runs, and waits until its objects are created.
fn unfinished_preflight(cluster: &TestCluster, folder: &std::path::Path) -> Controller {
    cluster.state().pods_stay_pending = true;
    cluster.apply_preflight("web", &simple(HOST));
    let controller = Controller::with_passing_aggregator(cluster, folder, &[]);
    controller.until("everything is made", || {
        !cluster.created_of("ingresses").is_empty()
    });
    controller
}

#[test]
fn deleting_it_in_the_middle_removes_everything() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    let controller = unfinished_preflight(&cluster, folder.path());
    cluster.delete("preflights", "shop", "web");
    controller.until("nothing is left", || cluster.leftovers().is_empty());
    assert_eq!(controller.terminate(), Some(0));
    assert_eq!(cluster.created_of("pods").len(), 1);
}

#[test]
fn changing_it_in_the_middle_makes_the_new_one_once_the_old_one_is_gone() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    let controller = unfinished_preflight(&cluster, folder.path());
    cluster.state().pods_stay_pending = false;
    let other = "other.example.test";
    cluster.apply_preflight("web", &simple(other));
    controller.until("the new one is over", || {
        let status = cluster.preflight_status("shop", "web");
        status["observedGeneration"] == 2 && condition(&status, "Complete")["status"] == "True"
    });
    let status = cluster.preflight_status("shop", "web");
    assert_eq!(
        condition(&status, "SelfCheckPassed")["status"],
        "True",
        "{status}"
    );
    assert_eq!(status["hosts"][0]["host"], other);
    assert_eq!(cluster.state().max_pods, 1);
    assert_eq!(cluster.leftovers(), Vec::<String>::new());
    drop(controller);
}

#[test]
fn a_responder_that_somebody_removes_in_the_middle_proves_nothing() {
    let fixture = Fixture::start();
    // The route is never adopted, so every run fails, but only as long as a response was possible.
    fixture.cluster.state().routes_ignored = true;
    let mut spec = simple(HOST);
    spec["readySeconds"] = 3.into();
    fixture.cluster.apply_preflight("web", &spec);
    let controller = Controller::with_fixture(&fixture, &["--backoff-ms", "600000"]);
    controller.until("everything is made", || {
        !fixture.cluster.created_of("ingresses").is_empty()
    });
    fixture.cluster.delete_pods();
    controller.until("the attempt is over", || {
        fixture.cluster.preflight_status("shop", "web")["attempts"] == 1
    });
    let status = fixture.cluster.preflight_status("shop", "web");
    let ready = condition(&status, "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("Unknown"), &json!("Replaced")),
        "{status}"
    );
    assert_eq!(fixture.cluster.leftovers(), Vec::<String>::new());
    drop(controller);
    fixture.stop();
}

#[test]
fn a_controller_that_is_told_to_end_leaves_nothing_and_the_next_one_begins_anew() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    let controller = unfinished_preflight(&cluster, folder.path());
    assert_eq!(controller.terminate(), Some(0));
    assert_eq!(cluster.leftovers(), Vec::<String>::new());
    let status = cluster.preflight_status("shop", "web");
    assert_eq!(condition(&status, "Ready")["reason"], "Running", "{status}");
    assert!(
        status["attempts"].is_null(),
        "the interruption does not count as a failed attempt: {status}"
    );
    cluster.state().pods_stay_pending = false;
    let next = Controller::with_passing_aggregator(&cluster, folder.path(), &[]);
    let status = next.wait_finished("web");
    assert_eq!(
        condition(&status, "SelfCheckPassed")["status"],
        "True",
        "{status}"
    );
    assert_eq!(cluster.leftovers(), Vec::<String>::new());
    drop(next);
}

#[test]
fn what_is_over_goes_after_its_time() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    let mut spec = simple(HOST);
    spec["ttlSecondsAfterFinished"] = 0.into();
    cluster.apply_preflight("gone", &spec);
    cluster.apply_preflight("kept", &simple(HOST));
    let controller = Controller::with_passing_aggregator(&cluster, folder.path(), &[]);
    controller.wait_finished("kept");
    controller.until("it is gone", || !cluster.has_preflight("gone"));
    assert!(cluster.has_preflight("kept"));
    drop(controller);
}

#[test]
fn after_a_hundred_controllers_that_are_killed_at_any_point_there_is_nothing_left_and_never_were_two_sets() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    let start = || Controller::with_passing_aggregator(&cluster, folder.path(), &[]);
    // The number of requests of a complete preflight; the kills cover twice that, because leftovers are handled too.
    cluster.apply_preflight("whole", &simple(HOST));
    let first = start();
    first.wait_finished("whole");
    first.kill();
    let whole = cluster.requests();
    let mut left = 0;
    for n in 0..100 {
        cluster.apply_preflight(&format!("killed-{n}"), &simple(&format!("h{n}.example.test")));
        // The client is killed at the request whose response is lost.
        cluster.lose_responses_after(n % (2 * whole));
        let controller = start();
        controller.until("a response is lost", || cluster.response_lost());
        controller.kill();
        cluster.restore_responses();
        left += usize::from(!cluster.leftovers().is_empty());
    }
    assert!(
        left > 10,
        "{left} of 100 left something, too few to prove anything; a whole one asks {whole} times"
    );
    let last = start();
    for n in 0..100 {
        let status = last.wait_finished(&format!("killed-{n}"));
        assert_eq!(
            condition(&status, "SelfCheckPassed")["status"],
            "True",
            "{n}: {status}"
        );
    }
    assert_eq!(last.terminate(), Some(0));
    assert_eq!(cluster.leftovers(), Vec::<String>::new());
    assert_eq!(cluster.state().max_pods, 1);
}
