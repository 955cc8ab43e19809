//! Wherever a preflight or its controller is interrupted, there is never more than one set of objects, and finally
//! none.

use super::{
    controller::{Controller, condition, simple},
    *,
};

/// Starts a preflight whose responder never runs, so that it stays unfinished.
fn in_the_middle(api: &Api) {
    api.held().pods_stay_pending = true;
    api.apply("web", &simple(HOST));
}

#[test]
fn deleting_it_in_the_middle_removes_everything() {
    let api = Api::start();
    let folder = tempfile::tempdir().unwrap();
    in_the_middle(&api);
    let controller = Controller::with_passing_aggregator(&api, folder.path(), &[]);
    controller.until("everything is made", || !api.created("ingresses").is_empty());
    api.delete_preflight("web");
    controller.until("nothing is left", || api.leftovers().is_empty());
    assert_eq!(controller.terminate(), Some(0));
    assert_eq!(api.created("pods").len(), 1);
}

#[test]
fn changing_it_in_the_middle_makes_the_new_one_once_the_old_one_is_gone() {
    let api = Api::start();
    let folder = tempfile::tempdir().unwrap();
    in_the_middle(&api);
    let controller = Controller::with_passing_aggregator(&api, folder.path(), &[]);
    controller.until("everything is made", || !api.created("ingresses").is_empty());
    api.held().pods_stay_pending = false;
    let other = "other.example.test";
    api.apply("web", &simple(other));
    controller.until("the new one is over", || {
        let status = api.status_in("shop", "web");
        status["observedGeneration"] == 2 && condition(&status, "Complete")["status"] == "True"
    });
    let status = api.status_in("shop", "web");
    assert_eq!(condition(&status, "Ready")["status"], "True", "{status}");
    assert_eq!(status["hosts"][0]["host"], other);
    assert_eq!(api.held().most_pods, 1);
    assert_eq!(api.leftovers(), Vec::<String>::new());
    drop(controller);
}

#[test]
fn a_responder_that_somebody_removes_in_the_middle_proves_nothing() {
    let bench = Bench::start();
    // The route is never adopted, so every run fails, but only as long as a response was possible.
    bench.api.held().routes_ignored = true;
    let mut spec = simple(HOST);
    spec["readySeconds"] = 3.into();
    bench.api.apply("web", &spec);
    let controller = Controller::with_bench(&bench, &["--backoff-ms", "600000"]);
    controller.until("everything is made", || {
        !bench.api.created("ingresses").is_empty()
    });
    bench.api.delete_pods();
    controller.until("the attempt is over", || {
        bench.api.status_in("shop", "web")["attempts"] == 1
    });
    let status = bench.api.status_in("shop", "web");
    let ready = condition(&status, "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("Unknown"), &json!("Replaced")),
        "{status}"
    );
    assert_eq!(bench.api.leftovers(), Vec::<String>::new());
    drop(controller);
    bench.stop();
}

#[test]
fn a_controller_that_is_told_to_end_leaves_nothing_and_the_next_one_begins_anew() {
    let api = Api::start();
    let folder = tempfile::tempdir().unwrap();
    in_the_middle(&api);
    let controller = Controller::with_passing_aggregator(&api, folder.path(), &[]);
    controller.until("everything is made", || !api.created("ingresses").is_empty());
    assert_eq!(controller.terminate(), Some(0));
    assert_eq!(api.leftovers(), Vec::<String>::new());
    let status = api.status_in("shop", "web");
    assert_eq!(condition(&status, "Ready")["reason"], "Running", "{status}");
    assert!(
        status["attempts"].is_null(),
        "the interruption does not count as a failed attempt: {status}"
    );
    api.held().pods_stay_pending = false;
    let next = Controller::with_passing_aggregator(&api, folder.path(), &[]);
    let status = next.wait_finished(&api, "web");
    assert_eq!(condition(&status, "Ready")["status"], "True", "{status}");
    assert_eq!(api.leftovers(), Vec::<String>::new());
    drop(next);
}

#[test]
fn what_is_over_goes_after_its_time() {
    let api = Api::start();
    let folder = tempfile::tempdir().unwrap();
    let mut spec = simple(HOST);
    spec["ttlSecondsAfterFinished"] = 0.into();
    api.apply("gone", &spec);
    api.apply("kept", &simple(HOST));
    let controller = Controller::with_passing_aggregator(&api, folder.path(), &[]);
    controller.wait_finished(&api, "kept");
    controller.until("it is gone", || !api.has_preflight("gone"));
    assert!(api.has_preflight("kept"));
    drop(controller);
}

#[test]
fn after_a_hundred_controllers_that_are_killed_at_any_point_there_is_nothing_left_and_never_were_two_sets() {
    let api = Api::start();
    let folder = tempfile::tempdir().unwrap();
    let start = || Controller::with_passing_aggregator(&api, folder.path(), &[]);
    // The number of requests of a complete preflight; the kills cover twice that, because leftovers are handled too.
    api.apply("whole", &simple(HOST));
    let first = start();
    first.wait_finished(&api, "whole");
    first.kill();
    let whole = api.held().requests;
    let mut left = 0;
    for n in 0..100 {
        api.apply(&format!("killed-{n}"), &simple(&format!("h{n}.example.test")));
        let last = api.held().requests + n % (2 * whole);
        // The next request takes effect but gets no response; the client is killed there.
        api.held().max_answered_requests = Some(last);
        let controller = start();
        controller.until("it has asked so often", || api.held().requests > last);
        controller.kill();
        api.held().max_answered_requests = None;
        left += usize::from(!api.leftovers().is_empty());
    }
    assert!(
        left > 10,
        "{left} of 100 left something, too few to prove anything; a whole one asks {whole} times"
    );
    let last = start();
    for n in 0..100 {
        let status = last.wait_finished(&api, &format!("killed-{n}"));
        assert_eq!(condition(&status, "Ready")["status"], "True", "{n}: {status}");
    }
    assert_eq!(last.terminate(), Some(0));
    assert_eq!(api.leftovers(), Vec::<String>::new());
    assert_eq!(api.held().most_pods, 1);
}
