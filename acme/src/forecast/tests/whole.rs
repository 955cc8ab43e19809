//! From Certificates of an API server to the published list, with a mesh that the test simulates.

use parallax_api::forecasts::{RenewalForecastList, RenewalOutlook};
use parallax_kubernetes::watch::{ApiServerAccess, KubernetesSettings};

use super::*;

/// The whole path from an API server to the published list, with a mesh that the test simulates.
struct Whole {
    server: ApiServer,
    desk: Arc<RunManager>,
    out: watch::Receiver<Arc<RenewalForecastList>>,
    cancelled: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    _folder: tempfile::TempDir,
    _senders: (
        watch::Sender<TopologyState>,
        parallax_runtime::SnapshotWriter<View>,
    ),
}

impl Whole {
    async fn start(every: Option<Micros>) -> Self {
        let server = ApiServer::start(&["challenges"]).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).unwrap();
        let access = ApiServerAccess::File {
            path: folder.path().join("kubeconfig"),
            context: None,
        };
        let kubernetes = cert_manager::cluster_to_watch(Some(&KubernetesSettings::new(access))).unwrap();
        let clock = Clock::system();
        let cancelled = CancellationToken::new();
        let (cert_manager, picture_out) =
            watch::channel(CertManagerState::missing(&UnavailableReason::NotListedYet));
        let (watches, _) = watch::channel(WatchHealth::<CertManagerKind>::default());
        let following =
            cert_manager::watch_objects(kubernetes, cert_manager, watches, clock, cancelled.clone());
        let topology = Arc::new(topology());
        let replica = ReplicaState::standalone(1, "nonce");
        let plan = PlanConfig {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
            echo_nonce: String::new(),
        };
        let run_manager = Arc::new(RunManager::new(
            clock,
            RunOptions::default(),
            plan,
            replica.clone(),
            (StoreHandle::off(), RunMetrics::new()),
        ));
        let settings = parallax_diagnosis::Settings {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
        };
        let mut view = parallax_diagnosis::Engine::new(settings, topology.clone()).view(clock.now());
        for vantage in &mut view.vantages {
            vantage.state = VantageState::Reporting;
        }
        let (topology, topology_out) = watch::channel(TopologyState::new(topology));
        let (views, views_out) = parallax_runtime::snapshot_channel(view);
        let (out, out_out) = watch::channel(Arc::new(RenewalForecastList::unavailable("not yet")));
        let forecaster = ForecastTask {
            clock,
            runs: run_manager.clone(),
            replica,
            cert_manager: picture_out,
            topology: topology_out,
            views: views_out,
            interval: every,
            forecasts: out,
        };
        let tasks = vec![
            tokio::spawn(following),
            tokio::spawn(forecaster.run(cancelled.clone())),
            tokio::spawn(mesh(run_manager.clone(), cancelled.clone())),
        ];
        Self {
            server,
            desk: run_manager,
            out: out_out,
            cancelled,
            tasks,
            _folder: folder,
            _senders: (topology, views),
        }
    }

    async fn until(&mut self, holds: impl FnMut(&Arc<RenewalForecastList>) -> bool) -> RenewalForecastList {
        let found = tokio::time::timeout(Duration::from_mins(1), self.out.wait_for(holds)).await;
        let found = found.map(|found| RenewalForecastList::clone(&found.unwrap()));
        found.unwrap_or_else(|_| panic!("timed out: {:?}", self.out.borrow()))
    }

    async fn stop(self) {
        self.cancelled.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// Reports a result for every assignment in the plan streams: a healthy host, and a zone that forbids
/// `forbidden.…`.
async fn mesh(run_manager: Arc<RunManager>, cancelled: CancellationToken) {
    let mut orders = run_manager.orders();
    let mut last_number = 0;
    loop {
        let new: Vec<_> = orders
            .borrow_and_update()
            .iter()
            .filter(|order| order.number > last_number)
            .cloned()
            .collect();
        for order in new {
            last_number = order.number;
            for vantage in ["n1/pod", "internet:laptop"] {
                let vantage: Vantage = vantage.parse().unwrap();
                let Some(part) = order.for_vantage(&vantage, parallax_model::EventTime(0)) else {
                    continue;
                };
                for (seq, assignment) in part.assignments.iter().enumerate() {
                    run_manager.record(&answered(&vantage, assignment, last_number * 10 + seq as u64));
                }
            }
        }
        tokio::select! {
            () = cancelled.cancelled() => return,
            changed = orders.changed() => if changed.is_err() { return },
        }
    }
}

fn answered(vantage: &Vantage, assignment: &parallax_model::Assignment, seq: u64) -> Recorded {
    let mut line = json!({"seq": seq, "t_us": 1, "target": assignment.target, "channel": assignment.channel,
        "assignment": assignment.id, "result": "ok", "times": {"total_us": 900}});
    match &assignment.probe {
        ProbeSpec::Names(probe) => {
            let caa = if probe.name.as_str().starts_with("forbidden") {
                "pki.goog"
            } else {
                ""
            };
            let mut facts = names(&here(), caa);
            facts["caa"][0]["name"] = json!(probe.name);
            // No public resolver is configured.
            facts["views"].as_array_mut().unwrap().pop();
            line["names"] = facts;
        }
        ProbeSpec::Challenge(probe) => {
            assert!(probe.expected.is_none() && probe.port == 80, "{probe:?}");
            assert!(probe.scope.is_some(), "a check is limited to the scope of runs");
            line["status"] = json!(404);
            line["front"] = json!(format!("{RIGHT}:80"));
            line["challenge"] =
                json!({"passes": 1, "addresses": [RIGHT], "dials": [{"address": format!("{RIGHT}:80")}]});
        }
        other => panic!("unexpected probe: {other:?}"),
    }
    Recorded {
        vantage: vantage.clone(),
        incarnation: "life-1".parse().unwrap(),
        observation: serde_json::from_value(line).unwrap(),
    }
}

#[tokio::test]
async fn certificates_of_an_api_server_are_foreseen_and_forgotten_with_them() {
    let mut whole = Whole::start(Some(Micros::from_secs(10))).await;
    whole.server.put("clusterissuers", issuer(LE, &nginx()));
    whole.server.put("certificates", certificate("web", &[HOST]));
    whole
        .server
        .put("certificates", certificate("stranger", &["nobody.example.test"]));
    let known = whole
        .until(|out| {
            out.forecasts.len() == 2
                && out
                    .forecasts
                    .iter()
                    .all(|forecast| forecast.evaluated_at.is_some())
        })
        .await;
    assert_eq!(known.unavailable_because, None);
    let of = |certificate: &str| {
        let found = known
            .forecasts
            .iter()
            .find(|forecast| forecast.certificate == certificate);
        found.unwrap().clone()
    };
    assert_eq!(of("web").outlook, RenewalOutlook::WouldPass, "{:?}", of("web"));
    assert_eq!(of("web").solver, "an Ingress of class nginx");
    // Only hosts of a target are checked.
    assert_eq!(of("stranger").outlook, RenewalOutlook::Unknown);
    assert!(
        of("stranger").sentence.contains("no host of a known target"),
        "{:?}",
        of("stranger")
    );
    assert_eq!(whole.desk.list(), [], "a check is not a run");
    whole.server.delete("certificates", "shop", "web");
    let without = whole.until(|out| out.forecasts.len() == 1).await;
    assert_eq!(without.certificates.len(), 1);
    whole.stop().await;
}

#[tokio::test]
async fn switched_off_nobody_looks_and_the_certificates_times_are_known_all_the_same() {
    let mut whole = Whole::start(None).await;
    whole.server.put("certificates", certificate("web", &[HOST]));
    let known = whole.until(|out| !out.certificates.is_empty()).await;
    assert!(
        known
            .unavailable_because
            .unwrap()
            .contains("forecast.interval is off")
    );
    assert_eq!(known.forecasts, []);
    assert!(whole.desk.orders().borrow().is_empty(), "no probe was requested");
    whole.stop().await;
}
