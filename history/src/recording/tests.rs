//! Recordings replay to the same view; recordings with pseudonyms contain no names.

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
        self.engine.record_progress(&progress.vantage, progress.complete);
        self.recorder
            .record_report(self.now, &self.topology, observations, Some(progress));
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
    let mut said = Vec::new();
    for file in files {
        for (i, line) in decompress(file).lines().enumerate() {
            said.extend(replay.read_line(i + 1, line));
        }
    }
    let view = replay.view(now).unwrap();
    said.extend(replay.finish());
    let said = said
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    (view, said)
}

fn rendered(view: &View) -> String {
    let mut text = serde_json::to_string(view).unwrap();
    for incident in &view.incidents {
        text.push_str(&parallax_terminal::incident(incident, view.at, ColorMode::Plain));
    }
    text
}

#[test]
fn a_recording_replays_to_the_view_and_the_words_of_the_live_engine_byte_for_byte() {
    let mut live = LiveEngine::start(false, RecordOptions::DEFAULT_BYTES);
    live.incident();
    let (folder, view) = live.finish();
    assert_eq!(view.incidents[0].verdict.region.region, "nolocal");
    assert!(view.counters.unknown > 0 && view.counters.implausible > 0 && view.counters.prober_faults > 0);
    let (again, said) = replay(&segments(folder.path()), view.at);
    assert_eq!(rendered(&again), rendered(&view));
    assert!(
        said.iter()
            .all(|line| line["type"] != "malformed" && line["type"] != "gap"),
        "{said:?}"
    );
}

#[test]
fn a_baseline_that_was_reset_replays_as_reset_and_is_learned_anew() {
    for pseudonyms in [false, true] {
        let mut live = LiveEngine::start(pseudonyms, RecordOptions::DEFAULT_BYTES);
        let target: TargetId = "http://oat.bakery.example/".parse().unwrap();
        let learned = |view: &View| view.matrix.iter().filter(|row| !row.baseline.is_empty()).count();
        for round in 0..12 {
            live.round(round, &[1, 2, 3]);
        }
        assert_eq!(learned(&live.engine.view(live.now)), 2);
        assert!(live.engine.reset_baseline(&target));
        live.recorder
            .record_baseline_reset(live.now, target.clone(), &live.topology);
        live.round(12, &[1, 2, 3]);
        let view = live.engine.view(live.now);
        assert_eq!(learned(&view), 1, "one baseline is learned again");
        let (folder, view) = live.finish();
        let (again, said) = replay(&segments(folder.path()), view.at);
        assert_eq!(learned(&again), 1);
        assert!(said.iter().all(|line| line["type"] != "malformed"), "{said:?}");
        if !pseudonyms {
            assert_eq!(rendered(&again), rendered(&view));
        }
    }
}

#[test]
fn each_segment_records_whether_the_topology_was_readable_when_it_began() {
    let mut live = LiveEngine::start(false, RecordOptions::MIN_BYTES);
    let since = EventTime(START - 7);
    live.recorder
        .record_topology_unread(live.now, Some(since), &live.topology);
    let mut round = 0;
    // Random-looking numbers do not compress, so the segments fill.
    while segments(live.folder.path()).len() < 3 {
        live.round(round, &[1, 2, 3]);
        round += 1;
    }
    live.recorder
        .record_topology_unread(live.now, None, &live.topology);
    // An entry that does not fit in the queue is dropped; the next one reports the state.
    while live.recorder.dropped_lines > 0 {
        std::thread::yield_now();
        live.recorder
            .record_topology_unread(live.now, None, &live.topology);
    }
    let (folder, _) = live.finish();
    let unread = |file: &PathBuf| -> Vec<Value> {
        let text = decompress(file);
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let own = lines.filter(|line| line["type"] == "topology_unread");
        own.map(|line| line["since_us"].clone()).collect()
    };
    let said: Vec<Vec<Value>> = segments(folder.path()).iter().map(unread).collect();
    let (last, before) = said.split_last().unwrap();
    assert!(before.iter().all(|said| *said == [json!(since)]), "{said:?}");
    assert_eq!(*last, [json!(since), Value::Null]);
}

#[test]
fn rounds_that_change_under_an_open_incident_leave_it_open_and_replay_alike() {
    let mut live = LiveEngine::start(false, RecordOptions::MIN_BYTES);
    live.incident();
    let before = live.engine.view(live.now);
    let shorter = Settings {
        interval: Micros::from_secs(2),
        timeout: Micros::from_secs(1),
    };
    live.replace_settings(shorter);
    let after = live.engine.view(live.now);
    assert_eq!(after.interval, shorter.interval);
    let open = |view: &View| -> Vec<_> {
        let closed = |state| matches!(state, IncidentState::Closed { .. });
        let open = view.incidents.iter().filter(|i| !closed(i.state));
        open.map(|incident| incident.id.clone()).collect()
    };
    assert_eq!((open(&before).len(), open(&after)), (1, open(&before)));
    let shown = |view: &View| -> Vec<_> {
        let cells = view.matrix.iter().flat_map(|row| &row.cells);
        cells
            .map(|cell| (cell.last_probe, cell.last_failure.is_some()))
            .collect()
    };
    assert_eq!(
        shown(&after).iter().map(|(last, _)| *last).collect::<Vec<_>>(),
        shown(&before).iter().map(|(last, _)| *last).collect::<Vec<_>>(),
        "the matrix keeps the newest outcomes"
    );
    for round in 9..14 {
        live.round(round, &[1]);
    }
    let named_again = live.engine.view(live.now);
    assert_eq!(
        open(&named_again),
        open(&before),
        "the same cause is the same incident"
    );
    // Segments after the change start with the new settings.
    let mut round = 14;
    while segments(live.folder.path()).len() < 3 {
        for _ in 0..20 {
            live.round(round, &[1]);
            round += 1;
        }
    }
    for _ in 0..20 {
        live.round(round, &[1, 2, 3]);
        round += 1;
    }
    let (folder, view) = live.finish();
    assert_eq!(
        open(&view),
        Vec::<String>::new(),
        "it closes on evidence of the new rounds"
    );
    let files = segments(folder.path());
    let (again, said) = replay(&files, view.at);
    assert_eq!(rendered(&again), rendered(&view));
    assert!(said.iter().all(|line| line["type"] != "malformed"), "{said:?}");
    assert_eq!(said.iter().filter(|line| line["type"] == "trial").count(), 1);
    let (later, _) = replay(&files[2..], view.at);
    assert_eq!(later.interval, shorter.interval);
}

#[test]
fn a_recording_in_many_segments_replays_as_one_and_from_any_segment_on() {
    let mut live = LiveEngine::start(false, RecordOptions::MIN_BYTES);
    live.incident();
    // Random-looking numbers do not compress, so the segments fill.
    let mut round = 9;
    while segments(live.folder.path()).len() < 4 {
        for _ in 0..20 {
            live.round(round, &[1]);
            round += 1;
        }
    }
    let (folder, view) = live.finish();
    let files = segments(folder.path());
    let (again, said) = replay(&files, view.at);
    assert_eq!(rendered(&again), rendered(&view));
    let recordings = said.iter().filter(|line| line["type"] == "trial").count();
    assert_eq!(recordings, 1);

    let (from_the_middle, said) = replay(&files[1..], view.at);
    assert!(said.iter().all(|line| line["type"] != "malformed"), "{said:?}");
    // The last report of a vantage with a wrong clock may be in the missing part.
    let heard = |view: &View| -> Vec<_> {
        let vantages = view.vantages.iter();
        vantages.map(|v| (v.vantage.clone(), v.state)).collect()
    };
    assert_eq!(heard(&from_the_middle), heard(&view));
}

#[test]
fn the_oldest_segments_are_deleted_beyond_the_size_limit() {
    let mut live = LiveEngine::start(false, RecordOptions::MIN_BYTES);
    let first = segments(live.folder.path());
    let mut round = 0;
    while segments(live.folder.path()).contains(&first[0]) {
        for _ in 0..20 {
            live.round(round, &[1, 2, 3]);
            round += 1;
        }
    }
    let (folder, view) = live.finish();
    let files = segments(folder.path());
    let total: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    // Compressed lines are written in blocks: a segment may exceed its share by a few of them.
    assert!(total <= RecordOptions::MIN_BYTES + (64 << 10), "{total}");
    let (_, said) = replay(&files, view.at);
    assert!(said.iter().all(|line| line["type"] != "malformed"));
}

#[test]
fn dropped_lines_are_counted_and_marked_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let topology = topology(&spec(&[1]));
    let options = RecordOptions {
        dir: folder.path().join("records"),
        max_bytes: RecordOptions::DEFAULT_BYTES,
        pseudonyms: false,
    };
    let metrics = RecordMetrics::new();
    let start = EventTime(START);
    let (mut recorder, writer) = Recorder::open(&options, SETTINGS, &topology, start, &metrics).unwrap();
    // No writer runs yet.
    for i in 0..QUEUE_CAPACITY + 7 {
        let now = start.plus(Micros(i as u64));
        recorder.record_advance(now, true, &topology);
    }
    let writing = std::thread::spawn(move || writer.run());
    while recorder.dropped_lines > 0 {
        recorder.record_advance(start.plus(Micros(9_999)), true, &topology);
        std::thread::yield_now();
    }
    drop(recorder);
    writing.join().unwrap();
    let text: String = segments(folder.path())
        .iter()
        .map(|file| decompress(file))
        .collect();
    let gap = text
        .lines()
        .find(|line| line.contains(r#""type":"gap""#))
        .unwrap();
    let gap: Value = serde_json::from_str(gap).unwrap();
    assert!(gap["lines"].as_u64().unwrap() >= 7, "{gap}");
}

#[test]
fn an_unusable_folder_is_an_error_at_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = RecordOptions {
        dir: file.path().to_owned(),
        max_bytes: RecordOptions::DEFAULT_BYTES,
        pseudonyms: false,
    };
    let refused = Recorder::open(
        &options,
        SETTINGS,
        &topology(&spec(&[1])),
        EventTime(START),
        &RecordMetrics::new(),
    );
    let message = refused.err().unwrap().to_string();
    assert!(message.starts_with("cannot record in "), "{message}");
}

/// The folder disappears under the recorder: later lines are counted as lost, and the engine's thread is not affected.
#[test]
fn an_unwritable_disk_shows_in_the_metrics_and_stops_nothing() {
    let mut live = LiveEngine::start(false, RecordOptions::MIN_BYTES);
    std::fs::remove_dir_all(live.folder.path().join("records")).unwrap();
    let metrics = live.metrics.clone();
    let mut round = 0;
    // The open file accepts lines until its share is full; the next file cannot be created.
    while metrics.is_failing() == 0 {
        for _ in 0..20 {
            live.round(round, &[1, 2, 3]);
            round += 1;
        }
    }
    assert!(live.engine.view(live.now).last_judged_round.is_some());
    live.finish();
}

/// Every name and address in [`spec`] and in the observations.
const SECRETS: [&str; 31] = [
    "alpha",
    "westwing",
    "watcher",
    "gateway",
    "frontdoor",
    "doorman",
    "bakery",
    "bread",
    "rye",
    "oat",
    "Rye",
    "Bakery",
    "private",
    "secret",
    "baguette",
    "oven",
    "flour",
    "dough",
    "pantry",
    "knock",
    "yeast",
    "cottage",
    "stranger",
    "nonce",
    "life-of",
    "quicksand",
    "203.0.113",
    "10.244.",
    "10.96.0",
    "192.0.2",
    "2001:db8",
];

#[test]
fn with_pseudonyms_no_name_survives_and_the_verdict_is_the_same_but_for_names() {
    let mut live = LiveEngine::start(true, RecordOptions::DEFAULT_BYTES);
    live.incident();
    let (folder, view) = live.finish();
    let files = segments(folder.path());
    let text: String = files.iter().map(|file| decompress(file)).collect();
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} survived");
    }
    assert!(
        text.contains(".svc.cluster.local"),
        "the cluster's domain is kept"
    );
    let (again, said) = replay(&files, view.at);
    assert!(said.iter().all(|line| line["type"] != "malformed"), "{said:?}");
    assert_eq!(again.incidents.len(), view.incidents.len());
    for (veiled, plain) in again.incidents.iter().zip(&view.incidents) {
        let (v, p) = (&veiled.verdict, &plain.verdict);
        assert_eq!(
            (veiled.state, veiled.since, veiled.opened),
            (plain.state, plain.since, plain.opened)
        );
        assert_eq!(
            (&v.region.region, v.probability),
            (&p.region.region, p.probability)
        );
        let ids = |causes: &[parallax_diagnosis::verdict::NamedCause]| -> Vec<_> {
            causes
                .iter()
                .map(|cause| (cause.id.clone(), cause.probability))
                .collect()
        };
        assert_eq!(ids(&v.causes), ids(&p.causes));
        assert_eq!(v.targets.len(), p.targets.len());
        let table = |verdict: &parallax_diagnosis::verdict::Verdict| -> Vec<_> {
            let rows = verdict.evidence.iter();
            rows.map(|row| (row.channel, row.placement, row.probes, row.failures))
                .collect()
        };
        assert_eq!(table(v), table(p));
    }
    assert_eq!(again.counters, view.counters);
    let states = |view: &View| -> Vec<Vec<_>> {
        let mut rows: Vec<Vec<_>> = view
            .matrix
            .iter()
            .map(|row| {
                let mut cells: Vec<_> = row
                    .cells
                    .iter()
                    .map(|c| (c.state, c.probes, c.failures))
                    .collect();
                cells.sort();
                cells
            })
            .collect();
        rows.sort();
        rows
    };
    assert_eq!(states(&again), states(&view));
}

#[test]
fn two_recordings_of_the_same_mesh_share_no_pseudonym() {
    let words = || -> BTreeSet<String> {
        let mut live = LiveEngine::start(true, RecordOptions::DEFAULT_BYTES);
        live.round(0, &[1]);
        let (folder, _) = live.finish();
        let text: String = segments(folder.path())
            .iter()
            .map(|file| decompress(file))
            .collect();
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| word.len() == 11 && word.starts_with('x'))
            .map(ToOwned::to_owned)
            .collect()
    };
    let (one, other) = (words(), words());
    assert!(one.len() > 10);
    assert!(one.is_disjoint(&other));
}

/// A word that occurs in no text of the program itself.
fn odd_word() -> impl Strategy<Value = String> {
    "q[a-z]{0,3}[0-9]zq[a-z0-9]{4,10}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_name_survives_pseudonymization_and_the_topology_stays_consistent(
        words in prop::collection::vec(odd_word(), 12),
        octets in prop::collection::vec(1_u8..250, 4),
        upper in any::<bool>(),
    ) {
        // Loopback addresses are not pseudonymized.
        prop_assume!(octets[0] != 127);
        let w = |i: usize| if upper && i == 3 { words[i].to_uppercase() } else { words[i].clone() };
        let host = format!("{}.{}.{}", w(3), words[4], words[5]);
        let ip = |last: u8| format!("{}.{}.{}.{last}", octets[0], octets[1], octets[2]);
        let spec: TopologySpec = serde_json::from_value(json!({
            "nodes": [{"name": format!("{}.{}", words[0], words[1]), "zone": words[2], "addresses": [ip(1)],
                "prober": {"pod": words[6], "address": format!("{}:9095", ip(2))}}],
            "services": [{"namespace": words[7], "name": words[8], "clusterIPs": [ip(3)],
                "ports": [{"name": "http-main", "port": 80, "targetPort": 8080}, {"name": words[9], "port": 443, "targetPort": 8443}],
                "probe": {"wanted": true, "path": format!("/{}/{}?{}", words[0], words[5], words[3])},
                "endpoints": [{"pod": words[10], "address": ip(4), "node": format!("{}.{}", words[0], words[1]),
                    "hints": {"forZones": [words[2]], "forNodes": [format!("{}.{}", words[0], words[1])]}}]}],
            "published": [{"target": {"url": format!("http://{}.{host}/{}", words[9], words[1])}, "port": 80,
                "service": format!("{}/{}", words[7], words[8]), "class": words[2],
                "origin": format!("{}/{}", words[7], words[8])}],
            "ingresses": [{"namespace": words[7], "name": words[11], "service": format!("{}/{}", words[7], words[8]),
                "hosts": [host], "tls": true}],
            "targets": [{"url": format!("http://{host}:8080/{}/{}?{}={}", words[0], words[1], words[2], words[3])},
                {"url": format!("tls://{host}:993"), "expectTls": {"name": host, "issuer": words[9]}},
                {"url": format!("dns://{host}"), "resolver": format!("{}:53", ip(5)), "search": "musl"},
                {"url": format!("http://{host}/#x"), "keepAlive": true},
                {"url": format!("tcp://{}:80", ip(3))},
                {"url": format!("http://{}.{}.svc/", words[8], words[7])},
                {"url": format!("http://[2001:db8::{:x}]/", octets[3])}],
        })).unwrap();
        let plain = Topology::try_from(spec.clone()).unwrap();
        let mut veil = pseudonyms::Pseudonymizer::new().unwrap();
        let veiled_spec = veil.topology_spec(&spec);
        let text = serde_json::to_string(&veiled_spec).unwrap();
        for word in &words {
            prop_assert!(!text.to_lowercase().contains(word.as_str()), "{word} in {text}");
        }
        for last in 1..=5 {
            prop_assert!(!text.contains(&format!("\"{}", ip(last))), "{} in {text}", ip(last));
        }
        let veiled = Topology::try_from(veiled_spec).unwrap();
        // An observation of a target still belongs to a target after pseudonymization, and its front is still known.
        prop_assert_eq!(plain.targets().len(), veiled.targets().len());
        for (id, placed) in plain.targets() {
            let recorded: Recorded = serde_json::from_value(json!({"vantage": format!("{}.{}/pod", words[0], words[1]),
                "incarnation": words[0], "seq": 1, "t_us": 2, "target": id, "channel": "vip", "result": "ok",
                "entry": words[10], "front": format!("{}:80", ip(3))})).unwrap();
            let seen = veil.recorded_observation(&recorded);
            let placed_again = veiled.targets().get(&seen.observation.target);
            prop_assert!(placed_again.is_some(), "{id} became {}", seen.observation.target);
            prop_assert_eq!(placed_again.unwrap().entry.is_some(), placed.entry.is_some(), "{}", id);
            prop_assert_eq!(placed_again.unwrap().origin.is_some(), placed.origin.is_some(), "{}", id);
            prop_assert!(veiled.nodes().contains_key(seen.vantage.node().unwrap()));
            prop_assert!(veiled.fronts().contains_key(&seen.observation.front.unwrap()));
        }
    }

    #[test]
    fn addresses_of_one_subnet_stay_in_one_subnet(a in any::<[u8; 4]>(), b in any::<[u8; 4]>(), same in 0_u32..32) {
        let (a, b) = (u32::from_be_bytes(a), u32::from_be_bytes(b));
        // The same up to a bit, then different.
        let mask = u32::MAX.checked_shl(32 - same).unwrap_or(0);
        let b = (a & mask) | (b & !mask);
        let text = |bits: u32| std::net::Ipv4Addr::from_bits(bits);
        prop_assume!(!text(a).is_loopback() && !text(a).is_unspecified());
        prop_assume!(!text(b).is_loopback() && !text(b).is_unspecified());
        let mut veil = pseudonyms::Pseudonymizer::new().unwrap();
        let mut through = |bits: u32| match veil.ip(text(bits).into()) {
            std::net::IpAddr::V4(v4) => v4.to_bits(),
            std::net::IpAddr::V6(_) => panic!("another family"),
        };
        let (x, y) = (through(a), through(b));
        prop_assert_eq!((x ^ y).leading_zeros(), (a ^ b).leading_zeros());
    }
}
