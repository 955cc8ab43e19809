//! `--edit-in-place`: one more path in an Ingress that serves others, and no trace of it afterwards.

use std::process::Stdio;

use jiff::SignedDuration;

use super::*;

/// Creates the Ingress of a shop, and an issuer that edits it in place.
fn shop(cluster: &TestCluster, host: &str) -> Value {
    cluster.put(
        "clusterissuers",
        issuer(&json!([{"http01": {"ingress": {"name": "web"}}}])),
    );
    cluster.put(
        "ingresses",
        json!({"metadata": {"namespace": "shop", "name": "web", "labels": {"app": "shop"}, "annotations": {"a": "b"}},
               "spec": {"ingressClassName": "nginx", "rules": [{"host": host, "http": {"paths": [
                   {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}}),
    );
    kept(cluster)
}

/// Returns the parts that must stay unchanged.
fn kept(cluster: &TestCluster) -> Value {
    let object = cluster.object("ingresses", "shop", "web");
    json!({"spec": object["spec"], "labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"],
           "owners": object["metadata"]["ownerReferences"]})
}

const FLAGS: [&str; 4] = [HOST, "--cluster-issuer", "letsencrypt", "--edit-in-place"];

#[test]
fn the_path_is_there_while_it_is_asked_for_and_the_ingress_is_then_as_it_was() {
    for host in [HOST, "other.example.test"] {
        let fixture = Fixture::start();
        let before = shop(&fixture.cluster, host);
        let (code, out, err) = outcome(&fixture.preflight(&FLAGS));
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.contains("an additional path in Ingress web"), "{out}");
        assert!(out.contains("✓ self check: passes on 1 of 1 vantages"), "{out}");
        assert_eq!(kept(&fixture.cluster), before);
        assert_eq!(fixture.cluster.leftovers(), Vec::<String>::new());
        assert!(
            fixture.cluster.created_of("ingresses").is_empty(),
            "no separate Ingress is created"
        );
        fixture.stop();
    }
}

#[test]
fn without_the_flag_it_is_never_touched_and_without_the_right_the_rule_is_named() {
    let fixture = Fixture::start();
    let before = shop(&fixture.cluster, HOST);
    let (code, _, err) = outcome(&fixture.preflight(&FLAGS[..3]));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("only with --edit-in-place"), "{err}");
    fixture
        .cluster
        .reject("patch", "ingresses", 403, "ingresses is forbidden");
    let (code, _, err) = outcome(&fixture.preflight(&FLAGS));
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("{apiGroups: [\"networking.k8s.io\"], resources: [ingresses], verbs: [patch]}"),
        "{err}"
    );
    fixture.cluster.reject(
        "patch",
        "ingresses",
        400,
        "admission webhook \"validate.example.test\" denied the request: no such path",
    );
    let (code, _, err) = outcome(&fixture.preflight(&FLAGS));
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("\"validate.example.test\" denied the request: no such path"),
        "{err}"
    );
    assert_eq!(
        (kept(&fixture.cluster), fixture.cluster.leftovers()),
        (before, Vec::new())
    );
    fixture.stop();
}

#[test]
fn what_others_write_at_the_same_time_is_neither_lost_nor_in_the_way() {
    let fixture = Fixture::start();
    shop(&fixture.cluster, HOST);
    fixture.cluster.state().concurrent_writes = 4;
    let (code, out, err) = outcome(&fixture.preflight(&FLAGS));
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(
        fixture.cluster.state().concurrent_writes,
        0,
        "the concurrent write happened"
    );
    let object = fixture.cluster.object("ingresses", "shop", "web");
    let paths = object["spec"]["rules"][0]["http"]["paths"].as_array().unwrap();
    let names: Vec<&str> = paths.iter().map(|path| path["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["/0", "/1", "/2", "/3", "/"]);
    fixture.stop();
}

/// Starts a preflight whose responder never becomes ready, and waits until the path exists.
fn held_up(fixture: &Fixture) -> std::process::Child {
    fixture.cluster.state().pods_stay_pending = true;
    let child = fixture
        .command(&["preflight", "-n", "shop", "--image", "i", "--lifetime", "1"])
        .args(FLAGS)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    fixture.cluster.wait_until("the path exists", || {
        kept(&fixture.cluster).to_string().contains("parallax-preflight-")
    });
    child
}

#[test]
fn an_interrupt_takes_the_path_out_again() {
    let fixture = Fixture::start();
    let before = shop(&fixture.cluster, HOST);
    let mut child = held_up(&fixture);
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(
        (kept(&fixture.cluster), fixture.cluster.leftovers()),
        (before, Vec::new())
    );
    fixture.stop();
}

#[test]
fn the_path_of_one_that_was_killed_is_taken_out_by_the_next_after_its_deadline_and_one_under_way_keeps_its_own()
 {
    let fixture = Fixture::start();
    let before = shop(&fixture.cluster, HOST);
    let mut child = held_up(&fixture);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ne!(kept(&fixture.cluster), before);
    fixture.cluster.state().pods_stay_pending = false;
    fixture.cluster.pass_deadlines(SignedDuration::from_secs(1));
    // The path of a running preflight: its Service carries the deadline.
    fixture.cluster.put("services", json!({"metadata": {"namespace": "shop", "name": "parallax-preflight-running",
        "labels": {"parallax.dev/preflight": "parallax-preflight-running"}, "annotations": {"parallax.dev/deadline": "2999-01-01T00:00:00Z"}}}));
    let mut object = fixture.cluster.object("ingresses", "shop", "web");
    let running = json!({"path": "/.well-known/acme-challenge/r", "backend": {"service": {"name": "parallax-preflight-running"}}});
    object["spec"]["rules"][0]["http"]["paths"]
        .as_array_mut()
        .unwrap()
        .push(running.clone());
    fixture.cluster.put("ingresses", object);
    let (code, out, err) = outcome(&fixture.preflight(&FLAGS));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        err.contains("removed the path of parallax-preflight-") && err.contains("from Ingress shop/web"),
        "{err}"
    );
    let mut expected = before;
    expected["spec"]["rules"][0]["http"]["paths"]
        .as_array_mut()
        .unwrap()
        .push(running);
    assert_eq!(kept(&fixture.cluster), expected);
    assert_eq!(
        fixture.cluster.leftovers(),
        ["services/parallax-preflight-running"]
    );
    fixture.stop();
}
