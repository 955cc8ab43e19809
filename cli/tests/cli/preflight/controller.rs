//! `parallax preflight controller`: objects in, conditions out, and nothing left behind.

use std::process::{Child, Stdio};

use super::*;

/// A running controller, terminated with the test.
pub(super) struct Controller {
    child: Child,
    log: std::path::PathBuf,
}

impl Controller {
    /// Starts a controller with this API server and aggregator.
    pub(super) fn start(api: &Api, folder: &std::path::Path, server: &str, more: &[&str]) -> Self {
        let log = folder.join("controller.log");
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let child = parallax()
            .args(["preflight", "controller", "--server", server])
            .args(["--image", "parallax:test"])
            .args(more)
            .args(
                ["--backoff-ms", "20"]
                    .iter()
                    .filter(|_| !more.contains(&"--backoff-ms")),
            )
            .env("KUBECONFIG", api.kubeconfig(folder))
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// Starts a controller with the bench's real aggregator.
    pub(super) fn with_bench(bench: &Bench, more: &[&str]) -> Self {
        let server = format!("http://{}/", bench.up.page);
        let port = bench.api.entry.port().to_string();
        let more = [more, &["--port", &port]].concat();
        Self::start(&bench.api, bench.folder.path(), &server, &more)
    }

    /// Starts a controller with an aggregator whose runs all pass at once.
    pub(super) fn with_passing_aggregator(api: &Api, folder: &std::path::Path, more: &[&str]) -> Self {
        Self::start(api, folder, &format!("http://{}/", api.aggregator), more)
    }

    /// Waits until an object is finished, and returns its status.
    pub(super) fn wait_finished(&self, api: &Api, name: &str) -> Value {
        self.until(&format!("{name} is over"), || {
            condition(&api.status_in("shop", name), "Complete")["status"] == "True"
        });
        api.status_in("shop", name)
    }

    pub(super) fn until(&self, what: &str, is: impl Fn() -> bool) {
        let since = Instant::now();
        while !is() {
            assert!(
                since.elapsed() < Duration::from_mins(1),
                "{what}: never\n{}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Kills the controller, as a failing node would.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Terminates the controller as the kubelet does, and returns its exit code.
    pub(super) fn terminate(mut self) -> Option<i32> {
        let told = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(told.unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns one condition of a status.
pub(super) fn condition<'a>(status: &'a Value, sort: &str) -> &'a Value {
    let all = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter()
        .find(|condition| condition["type"] == sort)
        .unwrap_or(&Value::Null)
}

/// Returns status and reason of a condition.
pub(super) fn status_and_reason(status: &Value, sort: &str) -> (String, String) {
    let condition = condition(status, sort);
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

pub(super) fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Builds a spec with the default class.
pub(super) fn simple(host: &str) -> Value {
    json!({"hosts": [host], "class": "nginx", "profile": "pebble"})
}

#[test]
fn an_object_is_answered_as_the_command_answers_and_owns_what_is_made_for_it() {
    let bench = Bench::start();
    bench.api.put("clusterissuers", issuer(&nginx()));
    let spec = json!({"hosts": [HOST], "issuerRef": {"name": "letsencrypt", "kind": "ClusterIssuer"}, "profile": "pebble"});
    bench.api.apply("web", &spec);
    let controller = Controller::with_bench(&bench, &[]);
    let status = controller.wait_finished(&bench.api, "web");
    for sort in ["Ready", "SelfCheckPassed", "CAPassed"] {
        assert_eq!(status_and_reason(&status, sort), is("True", "Passed"), "{status}");
    }
    assert_eq!(status_and_reason(&status, "Stalled").0, "False", "{status}");
    assert_eq!(status["observedGeneration"], 1);
    assert!(
        status["startTime"].is_string() && status["completionTime"].is_string(),
        "{status}"
    );
    let host = &status["hosts"][0];
    assert_eq!(host["host"], HOST);
    assert_eq!(
        host["solver"],
        "an Ingress of class nginx (solver 1 of 1 of ClusterIssuer letsencrypt)"
    );
    assert_eq!(host["selfCheck"]["state"], "passed");
    assert_eq!(host["runs"].as_array().unwrap().len(), 2, "{host}");
    let unseen = status["notChecked"].to_string();
    assert!(unseen.contains("secondary validation"), "{unseen}");
    assert_eq!(bench.api.leftovers(), Vec::<String>::new());
    for resource in ["pods", "services", "ingresses"] {
        let made = &bench.api.created(resource)[0];
        let owner = &made["metadata"]["ownerReferences"];
        assert_eq!(owner.as_array().unwrap().len(), 1, "{made}");
        assert_eq!(
            (&owner[0]["kind"], &owner[0]["name"], &owner[0]["controller"]),
            (&json!("Preflight"), &json!("web"), &json!(true))
        );
        assert_eq!(
            owner[0]["uid"],
            made["metadata"]["labels"]["parallax.dev/preflight-uid"]
        );
        assert!(made["metadata"]["annotations"]["parallax.dev/deadline"].is_string());
    }

    // The same spec is no change; a new `rerun` value repeats the preflight.
    bench.api.apply("web", &spec);
    let mut again = spec;
    again["rerun"] = "2".into();
    bench.api.apply("web", &again);
    controller.until("the second generation is over", || {
        let status = bench.api.status_in("shop", "web");
        status["observedGeneration"] == 2 && condition(&status, "Complete")["status"] == "True"
    });
    assert_eq!(bench.api.created("pods").len(), 2);
    assert_eq!(controller.terminate(), Some(0));
    bench.stop();
}

#[test]
fn what_fails_is_false_with_cause_and_remedy_and_what_is_only_looked_at_creates_nothing() {
    let bench = Bench::start();
    bench.api.held().routes_ignored = true;
    let mut spec = simple(HOST);
    spec["readySeconds"] = 1.into();
    bench.api.apply("web", &spec);
    let looked = json!({"hosts": [HOST], "noCreate": true, "profile": "pebble"});
    let controller = Controller::with_bench(&bench, &["--parallel", "1"]);
    let status = controller.wait_finished(&bench.api, "web");
    assert_eq!(status_and_reason(&status, "Ready").0, "False", "{status}");
    assert_eq!(
        status_and_reason(&status, "SelfCheckPassed"),
        is("False", "Failed")
    );
    assert_eq!(status_and_reason(&status, "Stalled").0, "True", "{status}");
    let group = &status["hosts"][0]["selfCheck"]["failureGroups"][0];
    assert_eq!(group["causes"][0]["id"], "F19", "{status}");
    assert!(
        group["clientMessage"]
            .as_str()
            .unwrap()
            .contains("wrong status code '404'"),
        "{group}"
    );
    assert!(
        group["remedies"][0].as_str().unwrap().contains("trade-off:"),
        "{group}"
    );
    let made = bench.api.held().created.len();
    bench.api.apply("looked", &looked);
    let status = controller.wait_finished(&bench.api, "looked");
    assert_eq!(
        status_and_reason(&status, "Ready"),
        is("True", "Passed"),
        "{status}"
    );
    assert!(
        status["notChecked"].to_string().contains("nothing was created"),
        "{status}"
    );
    assert_eq!(bench.api.held().created.len(), made);
    assert_eq!(bench.api.leftovers(), Vec::<String>::new());
    drop(controller);
    bench.stop();
}

#[test]
fn an_aggregator_that_cannot_be_reached_is_asked_again_a_few_times_and_never_passes() {
    let api = Api::start();
    let folder = tempfile::tempdir().unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/", closed.local_addr().unwrap());
    drop(closed);
    api.apply("web", &simple(HOST));
    let controller = Controller::start(&api, folder.path(), &nowhere, &[]);
    let status = controller.wait_finished(&api, "web");
    assert_eq!(
        status_and_reason(&status, "Ready"),
        is("Unknown", "AggregatorUnreachable"),
        "{status}"
    );
    assert_eq!(status["attempts"], 6);
    assert_eq!(api.created("pods").len(), 6);
    assert_eq!(api.leftovers(), Vec::<String>::new());
    controller.kill();

    // Between two attempts, the status gives the reason and the time of the next attempt.
    api.apply("slow", &simple(HOST));
    let controller = Controller::start(&api, folder.path(), &nowhere, &["--backoff-ms", "60000"]);
    controller.until("the first attempt is over", || {
        api.status_in("shop", "slow")["attempts"] == 1
    });
    let status = api.status_in("shop", "slow");
    assert_eq!(
        status_and_reason(&status, "Ready"),
        is("Unknown", "AggregatorUnreachable"),
        "{status}"
    );
    assert_eq!(status_and_reason(&status, "Complete").0, "False", "{status}");
    let message = condition(&status, "Ready")["message"].as_str().unwrap();
    assert!(message.contains("next attempt in 60 s"), "{message}");
    // A change of the spec does not wait for the next attempt.
    let mut changed = simple(HOST);
    changed["hosts"][0] = "*.example.test".into();
    api.apply("slow", &changed);
    let status = controller.wait_finished(&api, "slow");
    assert_eq!(status_and_reason(&status, "Ready").1, "InvalidHost", "{status}");
    assert_eq!(status["attempts"], 1, "counted anew: {status}");
}

#[test]
fn only_the_namespaces_that_are_named_are_followed() {
    let api = Api::start();
    let folder = tempfile::tempdir().unwrap();
    for namespace in ["shop", "pay", "other"] {
        api.apply_in(namespace, "web", &simple(HOST));
    }
    let controller =
        Controller::with_passing_aggregator(&api, folder.path(), &["--watch", "shop", "--watch", "pay"]);
    for namespace in ["shop", "pay"] {
        controller.until(namespace, || {
            condition(&api.status_in(namespace, "web"), "Complete")["status"] == "True"
        });
    }
    assert!(api.status_in("other", "web").is_null());
    let made: Vec<Value> = api.created("pods");
    assert!(made.iter().all(|pod| pod["metadata"]["namespace"] != "other"));
    drop(controller);
}
