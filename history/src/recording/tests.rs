//! Recordings replay to the same view; recordings with pseudonyms contain no names.

mod pseudonymous_recordings;
mod replay;
mod segments;

use std::{
    collections::BTreeSet,
    io::Read,
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use parallax_diagnosis::{
    Engine, replay::Replay, topology::TopologySpec, verdict::IncidentState, view::View,
};
use parallax_model::{Micros, Vantage};
use parallax_terminal::ColorMode;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const SETTINGS: Settings = Settings {
    interval: Micros(5_000_000),
    timeout: Micros(3_000_000),
};
/// A running mesh uses Unix time.
const START: i64 = 1_795_179_600_000_000;

fn spec(ingress_on: &[usize]) -> Value {
    json!({
        "proxyMode": "ipvs",
        "nodes": (1..=3).map(|i| json!({"name": format!("alpha-{i}"), "zone": "westwing",
            "addresses": [format!("192.0.2.{i}")],
            "prober": {"pod": format!("watcher-{i}"), "address": format!("10.244.{i}.5:9095")}})).collect::<Vec<_>>(),
        "services": [{
            "namespace": "gateway", "name": "frontdoor", "type": "LoadBalancer",
            "clusterIPs": ["10.96.0.50"], "loadBalancer": [{"ip": "203.0.113.10"}],
            "externalTrafficPolicy": "Local",
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            "endpoints": ingress_on.iter().map(|i| json!({"pod": format!("doorman-{i}"),
                "address": format!("10.244.{i}.10"), "node": format!("alpha-{i}")})).collect::<Vec<_>>(),
        }],
        "ingresses": [{"namespace": "bakery", "name": "bread", "service": "gateway/frontdoor",
            "hosts": ["Rye.Bakery.Example", "oat.bakery.example"]}],
        "targets": [
            {"url": "https://Rye.bakery.example/private/area?secret=yes", "expectBodyContains": "baguette",
             "expectHeaders": {"x-oven": "hot"}, "method": "POST", "body": "flour", "contentType": "text/dough"},
            {"url": "https://oat.bakery.example/", "requestHeaders": {"x-crust": "crunchy"}, "credential": "sourdough",
             "httpProxy": "http://courier.bakery.example:3128", "proxyCredential": "sourdough"},
            {"url": "tcp://pantry.internal:5432", "send": "knock\\r\\n", "expect": "yeast"},
            {"url": "dns://frontdoor.gateway.svc.cluster.local", "resolver": "10.96.0.10:53"},
        ],
    })
}

fn topology(spec: &Value) -> Arc<Topology> {
    let spec: TopologySpec = serde_json::from_value(spec.clone()).unwrap();
    let outside: Vantage = "internet:cottage".parse().unwrap();
    Arc::new(Topology::try_from(spec).unwrap().with_vantage(outside))
}

/// An engine and its recorder, which get the same inputs.
struct LiveEngine {
    folder: tempfile::TempDir,
    engine: Engine,
    topology: Arc<Topology>,
    recorder: Recorder,
    writer: std::thread::JoinHandle<()>,
    metrics: RecordMetrics,
    seq: u64,
    now: EventTime,
}

impl LiveEngine {
    fn start(pseudonyms: bool, max_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let topology = topology(&spec(&[1, 2, 3]));
        let options = RecordOptions {
            dir: folder.path().join("records"),
            max_bytes,
            pseudonyms,
        };
        let metrics = RecordMetrics::new();
        let start = EventTime(START);
        let (recorder, writer) = Recorder::open(&options, SETTINGS, &topology, start, &metrics).unwrap();
        Self {
            folder,
            engine: Engine::new(SETTINGS, Arc::clone(&topology)),
            topology,
            recorder,
            writer: std::thread::spawn(move || writer.run()),
            metrics,
            seq: 0,
            now: start,
        }
    }

    fn advance(&mut self, now: i64) {
        self.now = EventTime(START + now);
        let judged = self.engine.advance(self.now);
        self.recorder.record_advance(self.now, judged, &self.topology);
    }

    fn replace_settings(&mut self, settings: Settings) {
        self.engine.replace_settings(settings, self.now);
        self.recorder.record_settings(self.now, settings, &self.topology);
    }

    fn replace_topology(&mut self, topology: Arc<Topology>) {
        self.topology = topology;
        self.engine.replace_topology(Arc::clone(&self.topology), self.now);
        self.recorder.record_topology(self.now, &self.topology);
    }

    fn report(&mut self, vantage: &str, lines: Vec<Value>, complete: i64) {
        let observations: Vec<Recorded> = lines
            .into_iter()
            .map(|mut line| {
                self.seq += 1;
                line["vantage"] = json!(vantage);
                line["incarnation"] = json!(format!("life-of-{vantage}").replace('/', "-"));
                line["seq"] = json!(self.seq);
                serde_json::from_value(line).unwrap()
            })
            .collect();
        for recorded in &observations {
            self.engine.observe(recorded);
        }
        let progress = RecordProgress {
            vantage: vantage.parse().unwrap(),
            complete: EventTime(START + complete),
        };
        // The aggregator discards what starts after the report arrived, before the engine sees it.
        let implausible = RecordImplausible {
            vantage: progress.vantage.clone(),
            at: self.now,
            observations: 2,
        };
        self.engine
            .discard_implausible(&implausible.vantage, implausible.observations);
        self.engine.record_progress(&progress.vantage, progress.complete);
        let report = RecordedReport {
            observations,
            implausible: Some(implausible),
            progress: Some(progress),
        };
        self.recorder.record_report(self.now, &self.topology, report);
    }

    /// One round of a mesh in which clients without an ingress Pod are refused, as in incident I1.
    fn round(&mut self, round: i64, local: &[usize]) {
        let start = round * 5_000_000;
        self.advance(start + 400_000);
        for client in 1..=3_usize {
            let at = START + start + 10_000 * i64::try_from(client).unwrap();
            let refused = !local.contains(&client);
            let mut lines = Vec::new();
            for host in ["rye", "oat"] {
                let mut line = json!({"t_us": at, "target": format!("http://{host}.bakery.example/"),
                    "channel": "vip", "front": "203.0.113.10:80", "assignment": format!("vip|http://{host}.bakery.example/"),
                    "times": {"resolve_us": 300, "connect_us": 900, "total_us": 4_200},
                    "dns": {"resolver": "10.96.0.10:53", "name": format!("{host}.bakery.example"),
                        "addresses": ["203.0.113.10", "2001:db8::17"]},
                    "ttl": {"address": "203.0.113.10", "ttl": 64}, "result": "ok", "status": 200});
                if refused {
                    line["result"] = json!("failed");
                    line["phase"] = json!("connect");
                    line["kind"] = json!("refused");
                }
                lines.push(line);
                for pod in local {
                    lines.push(json!({"t_us": at + 50, "target": format!("http://{host}.bakery.example/"),
                        "channel": "direct", "front": format!("10.244.{pod}.10:8080"), "entry": format!("doorman-{pod}"),
                        "result": "ok", "status": 200}));
                }
            }
            for peer in (1..=3).filter(|peer| *peer != client) {
                lines.push(
                    json!({"t_us": at + 90, "target": format!("echo://alpha-{peer}"), "channel": "mesh",
                    "dst_node": format!("alpha-{peer}"), "result": "ok",
                    "echo": {"pod": format!("watcher-{peer}"), "node": format!("alpha-{peer}"),
                        "instance": "nonce-of-today", "peer": format!("10.244.{client}.5:40000")}}),
                );
            }
            // A real mesh also sends these: a prober fault, an unknown target, a time far ahead, a kind of a newer
            // version.
            lines.push(
                json!({"t_us": at, "target": "tcp://pantry.internal:5432", "channel": "vip",
                "result": "not_asked", "own": "late"}),
            );
            lines.push(
                json!({"t_us": at, "target": "http://stranger.example/", "channel": "vip", "result": "ok"}),
            );
            lines.push(
                json!({"t_us": at + 7_200_000_000, "target": "http://oat.bakery.example/", "channel": "vip",
                "result": "ok"}),
            );
            lines.push(
                json!({"t_us": at, "target": "tcp://pantry.internal:5432", "channel": "vip",
                "result": "failed", "phase": "connect", "kind": "quicksand"}),
            );
            self.report(&format!("alpha-{client}/pod"), lines, start + 5_000_000);
        }
        self.advance(start + 5_300_000);
    }

    /// Three healthy rounds, then only one ingress Pod is left.
    fn incident(&mut self) {
        for round in 0..3 {
            self.round(round, &[1, 2, 3]);
        }
        // The source was briefly unreadable: the same topology again.
        self.replace_topology(Arc::clone(&self.topology));
        self.replace_topology(topology(&spec(&[1])));
        for round in 3..9 {
            self.round(round, &[1]);
        }
    }

    fn finish(self) -> (tempfile::TempDir, View) {
        drop(self.recorder);
        self.writer.join().unwrap();
        let view = self.engine.view(self.now);
        (self.folder, view)
    }
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder.join("records"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn decompress(file: &Path) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(std::fs::File::open(file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    text
}

fn replay(files: &[PathBuf], now: EventTime) -> (View, Vec<Value>) {
    let mut replay = Replay::new();
    let mut output = Vec::new();
    for file in files {
        for (i, line) in decompress(file).lines().enumerate() {
            output.extend(replay.read_line(i + 1, line));
        }
    }
    let view = replay.view(now).unwrap();
    output.extend(replay.finish());
    let output = output
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    (view, output)
}

fn rendered(view: &View) -> String {
    let mut text = serde_json::to_string(view).unwrap();
    for incident in &view.incidents {
        text.push_str(&parallax_terminal::incident(incident, view.at, ColorMode::Plain));
    }
    text
}
