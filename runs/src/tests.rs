mod challenges;
mod host_checks;
mod name_facts;
mod outcomes;
mod requests;

use parallax_api::runs::{RunEvent, RunOutcome, RunState, RunVantages};
use parallax_diagnosis::{Settings, topology::TopologySpec, view::VantageState};
use parallax_model::{Assignment, Channel, Micros, Observation, Vantage};
use serde_json::{Value, json};

use super::*;
use crate::planning::MAX_CONCURRENT_RUNS;

/// Three nodes, an ingress Pod on the first, externalTrafficPolicy: Local.
const TOPOLOGY: &str = r#"
nodes:
  - {name: n1, zone: a, prober: {pod: prober-n1, address: "10.244.1.5:9095"}}
  - {name: n2, zone: a, prober: {pod: prober-n2, address: "10.244.2.5:9095"}}
  - {name: n3, zone: b, prober: {pod: prober-n3, address: "10.244.3.5:9095"}}
services:
  - namespace: default
    name: kubernetes
    type: ClusterIP
    clusterIPs: [10.96.0.1]
    ports: [{name: https, port: 443, targetPort: 6443}]
    endpoints: [{pod: api-1, address: 192.0.2.7}]
  - namespace: ingress
    name: nginx
    type: LoadBalancer
    clusterIPs: [10.96.0.50]
    loadBalancer: [{ip: 203.0.113.10}]
    externalTrafficPolicy: Local
    ports: [{name: http, port: 80, targetPort: 8080}]
    endpoints: [{pod: ingress-1, address: 10.244.1.10, node: n1}]
ingresses:
  - {namespace: shop, name: shop, service: ingress/nginx, hosts: [a.example.test]}
targets:
  - {url: "https://kubernetes.default.svc/"}
"#;

struct Bench {
    manager: Arc<RunManager>,
    topology: Arc<Topology>,
    view: View,
    cancelled: CancellationToken,
    judging: tokio::task::JoinHandle<()>,
}

impl Bench {
    fn new(options: RunOptions) -> Self {
        Self::of(serde_saphyr::from_str(TOPOLOGY).unwrap(), options)
    }

    fn of(spec: TopologySpec, options: RunOptions) -> Self {
        let topology = Arc::new(
            Topology::try_from(spec)
                .unwrap()
                .with_vantage("internet:laptop".parse().unwrap()),
        );
        let clock = Clock::system();
        let config = PlanConfig {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
            echo_nonce: String::new(),
        };
        let run_manager = Arc::new(RunManager::new(
            clock,
            options,
            config,
            ReplicaState::standalone(1, "nonce"),
            (StoreHandle::off(), RunMetrics::new()),
        ));
        let settings = Settings {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
        };
        let view = parallax_diagnosis::Engine::new(settings, topology.clone()).view(clock.now());
        let cancelled = CancellationToken::new();
        let judging = tokio::spawn(run_manager.clone().run(cancelled.clone()));
        let mut bench = Self {
            manager: run_manager,
            topology,
            view,
            cancelled,
            judging,
        };
        bench.all_report();
        bench
    }

    /// Every vantage of the topology reports.
    fn all_report(&mut self) {
        let settings = Settings {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
        };
        let engine = parallax_diagnosis::Engine::new(settings, self.topology.clone());
        self.view = engine.view(self.manager.clock.now());
        for vantage in &mut self.view.vantages {
            vantage.state = VantageState::Reporting;
        }
    }

    fn begin(&self, request: Value) -> Result<PreflightRun, RunRefusedError> {
        let request: RunRequest = serde_json::from_value(request).unwrap();
        self.manager.start(&request, "ann", &self.topology, &self.view)
    }

    /// The assignments in the latest order, with their vantages.
    fn ordered_assignments(&self) -> Vec<(Vantage, Assignment)> {
        let orders = self.manager.orders().borrow().clone();
        let order = orders.last().unwrap();
        let own = |(vantage, own): (&Vantage, &Vec<Assignment>)| {
            let vantage = vantage.clone();
            own.iter()
                .map(move |a| (vantage.clone(), a.clone()))
                .collect::<Vec<_>>()
        };
        order.assignments.iter().flat_map(own).collect()
    }

    /// Reports a result for every assignment of the latest order and every round.
    fn answer(&self, rounds: u32, outcome: impl Fn(&Vantage, &Assignment) -> Value) {
        let now = self.manager.clock.now();
        for (seq, (vantage, assignment)) in self
            .ordered_assignments()
            .into_iter()
            .flat_map(|planned| std::iter::repeat_n(planned, rounds as usize))
            .enumerate()
        {
            let mut line = json!({"seq": seq, "t_us": now.0, "target": assignment.target,
                "channel": assignment.channel, "assignment": assignment.id, "times": {"total_us": 900}});
            if assignment.channel == Channel::Vip {
                line["front"] = json!("203.0.113.10:80");
            }
            if let Some(entry) = &assignment.entry {
                line["entry"] = json!(entry.pod);
                line["dst_node"] = json!(entry.node);
            }
            for (key, value) in outcome(&vantage, &assignment).as_object().unwrap() {
                line[key] = value.clone();
            }
            let observation: Observation = serde_json::from_value(line).unwrap();
            let incarnation = "life-1".parse().unwrap();
            self.manager.record(&Recorded {
                vantage,
                incarnation,
                observation,
            });
        }
    }

    /// Follows a run to its end.
    async fn end(&self, run: &PreflightRun) -> (Vec<RunEvent>, PreflightRun) {
        let mut follow = self.manager.follow(run.id.as_str()).unwrap();
        let mut all = Vec::new();
        while let Some(events) = follow.next().await {
            all.extend(events.iter().map(|event| RunEvent::clone(event)));
        }
        let Some(RunEvent::Done { run }) = all.last() else {
            panic!("a run ends with its judgement: {all:?}")
        };
        let run = PreflightRun::clone(run);
        (all, run)
    }

    async fn stop(self) {
        self.cancelled.cancel();
        self.judging.await.unwrap();
    }

    /// Waits until ended runs are also counted.
    async fn counted(&self) {
        while self.manager.metrics.counts().0 > 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn ok(_: &Vantage, _: &Assignment) -> Value {
    json!({"result": "ok", "status": 200})
}

const A: &str = "http://a.example.test/";
const CHALLENGE: &str = "http://a.example.test/.well-known/acme-challenge/t0ken";
