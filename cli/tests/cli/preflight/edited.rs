//! `--edit-in-place`: one more path in an Ingress that serves others, and no trace of it afterwards.

use std::{process::Stdio, time::Duration};

use super::*;

/// Creates the Ingress of a shop, and an issuer that edits it in place.
fn shop(api: &Api, host: &str) -> Value {
    api.put(
        "clusterissuers",
        issuer(&json!([{"http01": {"ingress": {"name": "web"}}}])),
    );
    api.put(
        "ingresses",
        json!({"metadata": {"namespace": "shop", "name": "web", "labels": {"app": "shop"}, "annotations": {"a": "b"}},
               "spec": {"ingressClassName": "nginx", "rules": [{"host": host, "http": {"paths": [
                   {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}}),
    );
    kept(api)
}

/// Returns the parts that must stay unchanged.
fn kept(api: &Api) -> Value {
    let object = api.object("ingresses", "shop", "web");
    json!({"spec": object["spec"], "labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"],
           "owners": object["metadata"]["ownerReferences"]})
}

const FLAGS: [&str; 4] = [HOST, "--cluster-issuer", "letsencrypt", "--edit-in-place"];

#[test]
fn the_path_is_there_while_it_is_asked_for_and_the_ingress_is_then_as_it_was() {
    for host in [HOST, "other.example.test"] {
        let bench = Bench::start();
        let before = shop(&bench.api, host);
        let (code, out, err) = said(&bench.preflight(&FLAGS));
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.contains("an additional path in Ingress web"), "{out}");
        assert!(out.contains("✓ self check: passes on 1 of 1 vantages"), "{out}");
        assert_eq!(kept(&bench.api), before);
        assert_eq!(bench.api.leftovers(), Vec::<String>::new());
        assert!(
            bench.api.created("ingresses").is_empty(),
            "no separate Ingress is created"
        );
        bench.stop();
    }
}

#[test]
fn without_the_flag_it_is_never_touched_and_without_the_right_the_rule_is_named() {
    let bench = Bench::start();
    let before = shop(&bench.api, HOST);
    let (code, _, err) = said(&bench.preflight(&FLAGS[..3]));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("only with --edit-in-place"), "{err}");
    bench
        .api
        .reject("patch", "ingresses", 403, "ingresses is forbidden");
    let (code, _, err) = said(&bench.preflight(&FLAGS));
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("{apiGroups: [\"networking.k8s.io\"], resources: [ingresses], verbs: [patch]}"),
        "{err}"
    );
    bench.api.reject(
        "patch",
        "ingresses",
        400,
        "admission webhook \"validate.example.test\" denied the request: no such path",
    );
    let (code, _, err) = said(&bench.preflight(&FLAGS));
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("\"validate.example.test\" denied the request: no such path"),
        "{err}"
    );
    assert_eq!((kept(&bench.api), bench.api.leftovers()), (before, Vec::new()));
    bench.stop();
}

#[test]
fn what_others_write_at_the_same_time_is_neither_lost_nor_in_the_way() {
    let bench = Bench::start();
    shop(&bench.api, HOST);
    bench.api.held().concurrent_writes = 4;
    let (code, out, err) = said(&bench.preflight(&FLAGS));
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(
        bench.api.held().concurrent_writes,
        0,
        "the concurrent write happened"
    );
    let object = bench.api.object("ingresses", "shop", "web");
    let paths = object["spec"]["rules"][0]["http"]["paths"].as_array().unwrap();
    let names: Vec<&str> = paths.iter().map(|path| path["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["/0", "/1", "/2", "/3", "/"]);
    bench.stop();
}

/// Starts a preflight whose responder never becomes ready, and waits until the path exists.
fn held_up(bench: &Bench) -> std::process::Child {
    bench.api.held().pods_stay_pending = true;
    let child = bench
        .command(&["preflight", "-n", "shop", "--image", "i", "--lifetime", "1"])
        .args(FLAGS)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(|| kept(&bench.api).to_string().contains("parallax-preflight-"));
    child
}

#[test]
fn an_interrupt_takes_the_path_out_again() {
    let bench = Bench::start();
    let before = shop(&bench.api, HOST);
    let mut child = held_up(&bench);
    let told = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(told.success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!((kept(&bench.api), bench.api.leftovers()), (before, Vec::new()));
    bench.stop();
}

#[test]
fn the_path_of_one_that_was_killed_is_taken_out_by_the_next_after_its_deadline_and_one_under_way_keeps_its_own()
 {
    let bench = Bench::start();
    let before = shop(&bench.api, HOST);
    let mut child = held_up(&bench);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ne!(kept(&bench.api), before);
    bench.api.held().pods_stay_pending = false;
    // Wait until its deadline has passed.
    std::thread::sleep(Duration::from_millis(1_100));
    // The path of a running preflight: its Service carries the deadline.
    bench.api.put("services", json!({"metadata": {"namespace": "shop", "name": "parallax-preflight-running",
        "labels": {"parallax.dev/preflight": "parallax-preflight-running"}, "annotations": {"parallax.dev/deadline": "2999-01-01T00:00:00Z"}}}));
    let mut object = bench.api.object("ingresses", "shop", "web");
    let running = json!({"path": "/.well-known/acme-challenge/r", "backend": {"service": {"name": "parallax-preflight-running"}}});
    object["spec"]["rules"][0]["http"]["paths"]
        .as_array_mut()
        .unwrap()
        .push(running.clone());
    bench.api.put("ingresses", object);
    let (code, out, err) = said(&bench.preflight(&FLAGS));
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
    assert_eq!(kept(&bench.api), expected);
    assert_eq!(bench.api.leftovers(), ["services/parallax-preflight-running"]);
    bench.stop();
}
