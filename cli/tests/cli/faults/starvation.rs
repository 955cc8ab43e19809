//! Processes that get less CPU time or memory than they need, by control groups.

use std::{
    fs,
    path::{Path, PathBuf},
};

use parallax_skip::skip;

use super::processes::{Launch, NODES, Processes, assert_no_incident, cells, incidents};
use crate::{identity::mesh::until, up::Server};

const COMMAND: &str = "sudo -E cargo test -p parallax-cli --test cli faults::starvation";

/// A control group of one controller that is removed at the end.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Creates a group, for either version of control groups. `None` if this process may not.
    fn create(controller: &str, name: &str) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("parallax-test-{name}-{}", std::process::id());
        let legacy = root.join(controller);
        let path = if legacy.is_dir() {
            legacy.join(&name)
        } else {
            root.join(&name)
        };
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    /// Creates a group with a limit, or reports that the test does not run.
    fn limited(controller: &str, name: &str, limit: impl FnOnce(&Self) -> bool) -> Option<Self> {
        let group = Self::create(controller, name).filter(limit);
        if group.is_none() {
            let test = format!("faults::starvation ({controller} of the {name})");
            skip(&test, "a control group cannot be created", COMMAND);
        }
        group
    }

    /// Limits the group to a share of one CPU, in percent, or not at all.
    fn limit_cpu(&self, percent: Option<u32>) -> bool {
        let quota = percent.map(|percent| percent * 1_000);
        let legacy = self.0.join("cpu.cfs_quota_us");
        if legacy.exists() {
            let text = quota.map_or("-1".to_owned(), |quota| quota.to_string());
            fs::write(self.0.join("cpu.cfs_period_us"), "100000").is_ok() && fs::write(legacy, text).is_ok()
        } else {
            let text = quota.map_or("max".to_owned(), |quota| quota.to_string());
            fs::write(self.0.join("cpu.max"), format!("{text} 100000")).is_ok()
        }
    }

    /// Reports whether the kernel kept the group waiting for its share of the CPU.
    fn was_throttled(&self) -> bool {
        let text = fs::read_to_string(self.0.join("cpu.stat")).unwrap();
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("nr_throttled ")?.parse::<u64>().ok());
        count.unwrap() > 0
    }

    fn limit_memory(&self, bytes: u64) -> bool {
        let legacy = self.0.join("memory.limit_in_bytes");
        let file = if legacy.exists() {
            legacy
        } else {
            self.0.join("memory.max")
        };
        fs::write(file, bytes.to_string()).is_ok()
    }

    fn add(&self, process: u32) {
        fs::write(self.0.join("cgroup.procs"), process.to_string()).unwrap();
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A group with processes cannot be removed; they end before it in each test.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Asserts that nothing is named, and that no cell of a target is failing.
fn assert_nothing_said(view: &serde_json::Value, targets: &[String]) {
    assert_no_incident(view);
    for target in targets {
        let states = cells(view, target);
        assert!(!states.contains(&"failing"), "{target}: {states:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prober_with_a_hundredth_of_a_cpu_is_late_and_its_targets_are_never_down() {
    let servers: Vec<Server> = (0..8).map(|_| Server::start()).collect();
    let targets: Vec<String> = servers
        .iter()
        .map(|server| format!("http://{}/", server.address))
        .collect();
    let Some(group) = ControlGroup::limited("cpu", "prober", |group| group.limit_cpu(Some(1))) else {
        return;
    };
    let mesh = Processes::start(&targets, "", &Launch::default()).await;
    for target in &targets {
        mesh.wait_until_all(target, "ok").await;
    }
    group.add(mesh.probers[0].id());
    mesh.wait_for_rounds(20, |view| assert_nothing_said(view.unwrap(), &targets))
        .await;
    assert!(group.was_throttled());
    let view = mesh.state().await.unwrap();
    for target in &targets {
        let fed = cells(&view, target)
            .iter()
            .filter(|state| **state == "ok")
            .count();
        assert!(fed >= NODES.len() - 1, "{target}: {:?}", cells(&view, target));
    }
    group.limit_cpu(None);
    for target in &targets {
        mesh.wait_until_all(target, "ok").await;
    }
    drop(mesh);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregator_with_a_hundredth_of_a_cpu_accuses_nobody() {
    let servers: Vec<Server> = (0..8).map(|_| Server::start()).collect();
    let targets: Vec<String> = servers
        .iter()
        .map(|server| format!("http://{}/", server.address))
        .collect();
    let Some(group) = ControlGroup::limited("cpu", "aggregator", |group| group.limit_cpu(Some(100))) else {
        return;
    };
    let mesh = Processes::start(&targets, "", &Launch::default()).await;
    for target in &targets {
        mesh.wait_until_all(target, "ok").await;
    }
    group.add(mesh.aggregator.id());
    let mut asked = 0;
    for _ in 0..4 {
        group.limit_cpu(Some(1));
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        group.limit_cpu(Some(20));
        if let Some(view) = mesh.state().await {
            assert_nothing_said(&view, &targets);
            asked += 1;
        }
    }
    assert!(asked > 0, "it never answered");
    assert!(group.was_throttled());
    group.limit_cpu(None);
    for target in &targets {
        mesh.wait_until_all(target, "ok").await;
    }
    assert_nothing_said(&mesh.state().await.unwrap(), &targets);
    drop(mesh);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregator_that_the_kernel_kills_for_its_memory_returns_with_the_same_incident() {
    let (server, other) = (Server::start(), Server::start());
    let [target, healthy] = [&server, &other].map(|server| format!("http://{}/", server.address));
    let Some(group) = ControlGroup::limited("memory", "aggregator", |group| group.limit_memory(1 << 30))
    else {
        return;
    };
    let store = "store: {path: history.db}\n";
    let mut mesh = Processes::start(&[target.clone(), healthy.clone()], store, &Launch::default()).await;
    mesh.wait_until_all(&target, "ok").await;
    drop(server);
    mesh.wait_until_named().await;
    let before = incidents(&mesh.state().await.unwrap());
    // The pages that it has are not charged to the group; those that it touches from now on are.
    group.add(mesh.aggregator.id());
    assert!(group.limit_memory(512 * 1024));
    let url = format!("http://{}/v1/observations", mesh.address);
    until("the kernel has killed it", async || {
        let large = mesh
            .client
            .post(&url)
            .header("content-type", "application/x-ndjson");
        // No answer is expected.
        let _ = large.body(vec![b'x'; 8 << 20]).send().await;
        mesh.aggregator.has_ended()
    })
    .await;
    assert_eq!(mesh.aggregator.wait(), None, "it was killed");
    mesh.restart(&Launch::default()).await;
    until("it has the incident again", async || {
        mesh.state()
            .await
            .is_some_and(|view| !incidents(&view).is_empty())
    })
    .await;
    let view = mesh.state().await.unwrap();
    assert_eq!(incidents(&view)[0].0, before[0].0);
    assert_eq!(incidents(&view).len(), before.len(), "{:?}", incidents(&view));
    mesh.wait_until_all(&healthy, "ok").await;
    drop(mesh);
}
