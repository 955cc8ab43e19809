//! `parallax preflight controller`: objects in, conditions out, and nothing left behind.

use std::process::{Child, Stdio};

use super::{cluster::ServerHandle, *};

/// A running controller, terminated with the test.
pub(super) struct Controller {
    child: Child,
    server: ServerHandle,
    log: std::path::PathBuf,
}

impl Controller {
    /// Starts a controller with this API server and aggregator.
    pub(super) fn start(
        cluster: &TestCluster,
        folder: &std::path::Path,
        server: &str,
        more: &[&str],
    ) -> Self {
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
            .env("KUBECONFIG", cluster.write_kubeconfig(folder))
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        Self {
            child,
            server: cluster.handle(),
            log,
        }
    }

    /// Starts a controller with the fixture's real aggregator.
    pub(super) fn with_fixture(fixture: &Fixture, more: &[&str]) -> Self {
        let server = format!("http://{}/", fixture.up.page);
        let port = fixture.cluster.entry.port().to_string();
        let more = [more, &["--port", &port]].concat();
        Self::start(&fixture.cluster, fixture.folder.path(), &server, &more)
    }

    /// Starts a controller with an aggregator whose runs all pass at once.
    pub(super) fn with_passing_aggregator(
        cluster: &TestCluster,
        folder: &std::path::Path,
        more: &[&str],
    ) -> Self {
        Self::start(cluster, folder, &format!("http://{}/", cluster.aggregator), more)
    }

    /// Waits until an object is finished, and returns its status.
    pub(super) fn wait_finished(&self, name: &str) -> Value {
        self.until(&format!("{name} is finished"), || {
            condition(&self.server.preflight_status("shop", name), "Complete")["status"] == "True"
        });
        self.server.preflight_status("shop", name)
    }

    /// Waits for an effect of the controller. Only a failing test reaches the limit, and then prints the log.
    pub(super) fn until(&self, effect: &str, condition: impl Fn() -> bool) {
        let log = || std::fs::read_to_string(&self.log).unwrap();
        assert!(self.server.reaches(condition), "never: {effect}\n{}", log());
    }

    /// Kills the controller, as a failing node would.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Terminates the controller as the kubelet does, and returns its exit code.
    pub(super) fn terminate(mut self) -> Option<i32> {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
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
    let fixture = Fixture::start();
    fixture.cluster.put("clusterissuers", issuer(&nginx()));
    let spec = json!({"hosts": [HOST], "issuerRef": {"name": "letsencrypt", "kind": "ClusterIssuer"}, "profile": "pebble"});
    fixture.cluster.apply_preflight("web", &spec);
    let controller = Controller::with_fixture(&fixture, &[]);
    let status = controller.wait_finished("web");
    assert_eq!(
        status_and_reason(&status, "SelfCheckPassed"),
        is("True", "Passed"),
        "{status}"
    );
    for sort in ["Ready", "CAPassed"] {
        assert_eq!(
            status_and_reason(&status, sort),
            is("Unknown", "NoOutsideVantage"),
            "{status}"
        );
    }
    assert_eq!(status_and_reason(&status, "Stalled").0, "True", "{status}");
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
    assert_eq!(fixture.cluster.leftovers(), Vec::<String>::new());
    for resource in ["pods", "services", "ingresses"] {
        let made = &fixture.cluster.created_of(resource)[0];
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
    fixture.cluster.apply_preflight("web", &spec);
    let mut again = spec;
    again["rerun"] = "2".into();
    fixture.cluster.apply_preflight("web", &again);
    controller.until("the second generation is over", || {
        let status = fixture.cluster.preflight_status("shop", "web");
        status["observedGeneration"] == 2 && condition(&status, "Complete")["status"] == "True"
    });
    assert_eq!(fixture.cluster.created_of("pods").len(), 2);
    assert_eq!(controller.terminate(), Some(0));
    fixture.stop();
}

#[test]
fn what_fails_is_false_with_cause_and_remedy_and_what_is_only_looked_at_creates_nothing() {
    let fixture = Fixture::start();
    fixture.cluster.state().routes_ignored = true;
    let mut spec = simple(HOST);
    spec["readySeconds"] = 1.into();
    fixture.cluster.apply_preflight("web", &spec);
    let looked = json!({"hosts": [HOST], "noCreate": true, "profile": "pebble"});
    let controller = Controller::with_fixture(&fixture, &["--parallel", "1"]);
    let status = controller.wait_finished("web");
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
    let made = fixture.cluster.created().len();
    fixture.cluster.apply_preflight("looked", &looked);
    let status = controller.wait_finished("looked");
    assert_eq!(
        status_and_reason(&status, "Ready"),
        is("Unknown", "NoOutsideVantage"),
        "{status}"
    );
    assert!(
        status["notChecked"].to_string().contains("nothing was created"),
        "{status}"
    );
    assert_eq!(fixture.cluster.created().len(), made);
    assert_eq!(fixture.cluster.leftovers(), Vec::<String>::new());
    drop(controller);
    fixture.stop();
}

#[test]
fn an_aggregator_that_cannot_be_reached_is_asked_again_a_few_times_and_never_passes() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/", closed.local_addr().unwrap());
    drop(closed);
    cluster.apply_preflight("web", &simple(HOST));
    let controller = Controller::start(&cluster, folder.path(), &nowhere, &[]);
    let status = controller.wait_finished("web");
    assert_eq!(
        status_and_reason(&status, "Ready"),
        is("Unknown", "AggregatorUnreachable"),
        "{status}"
    );
    assert_eq!(status["attempts"], 6);
    assert_eq!(cluster.created_of("pods").len(), 6);
    assert_eq!(cluster.leftovers(), Vec::<String>::new());
    controller.kill();

    // Between two attempts, the status gives the reason and the time of the next attempt.
    cluster.apply_preflight("slow", &simple(HOST));
    let controller = Controller::start(&cluster, folder.path(), &nowhere, &["--backoff-ms", "60000"]);
    controller.until("the first attempt is over", || {
        cluster.preflight_status("shop", "slow")["attempts"] == 1
    });
    let status = cluster.preflight_status("shop", "slow");
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
    cluster.apply_preflight("slow", &changed);
    let status = controller.wait_finished("slow");
    assert_eq!(status_and_reason(&status, "Ready").1, "InvalidHost", "{status}");
    assert_eq!(status["attempts"], 1, "counted anew: {status}");
}

#[test]
fn only_the_namespaces_that_are_named_are_followed() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    for namespace in ["shop", "pay", "other"] {
        cluster.apply_preflight_in(namespace, "web", &simple(HOST));
    }
    let controller =
        Controller::with_passing_aggregator(&cluster, folder.path(), &["--watch", "shop", "--watch", "pay"]);
    for namespace in ["shop", "pay"] {
        controller.until(namespace, || {
            condition(&cluster.preflight_status(namespace, "web"), "Complete")["status"] == "True"
        });
    }
    assert!(cluster.preflight_status("other", "web").is_null());
    let made: Vec<Value> = cluster.created_of("pods");
    assert!(made.iter().all(|pod| pod["metadata"]["namespace"] != "other"));
    drop(controller);
}
