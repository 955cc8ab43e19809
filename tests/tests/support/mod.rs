//! Helpers of the lab tests: a lab, and its logs if the test fails.

pub(crate) mod helper;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use parallax_lab::{
    incident::Incident,
    kernel::{Kernel, LabKernel},
    lab::Lab,
    run_dir::RunDir,
    tools,
};

/// Reports whether the lab is skipped on purpose. If tools are missing, the test fails instead: a lab that silently
/// does not run proves nothing.
pub(crate) fn skipped() -> bool {
    // The test harness names the thread after the test.
    let thread = std::thread::current();
    let name = thread
        .name()
        .filter(|name| *name != "main")
        .unwrap_or("a lab test");
    if parallax_skip::is_skipped(name, "PARALLAX_LAB", "cargo test --workspace --locked --test lab") {
        return true;
    }
    for kernel in [Kernel::Uml, Kernel::Host] {
        if let Err(missing) = tools::check(kernel) {
            panic!("{missing} (or skip the lab with PARALLAX_LAB=skip)");
        }
    }
    false
}

/// Runs a lab test alone across all test processes, because its labs need every CPU and a verdict has a deadline, or because it
/// compares the state of the machine. The lock is released when the file is closed.
pub(crate) fn lock() -> File {
    let file = turn();
    file.lock().unwrap();
    file
}

/// Runs a lab test beside others of its kind: it has one lab and only sends packets.
fn lock_shared() -> File {
    let file = turn();
    file.lock_shared().unwrap();
    file
}

fn turn() -> File {
    File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab-turn")).unwrap()
}

/// Returns the path of this build's `parallax-lab`.
pub(crate) fn lab_binary() -> &'static str {
    env!("CARGO_BIN_EXE_parallax-lab")
}

/// Returns the kernel that suits an incident here. nftables incidents use user-mode Linux if this machine's kernel
/// cannot be used, and a message says so.
pub(crate) fn kernel(incident: &Incident) -> Kernel {
    let ground = LabKernel::choose(incident, None).unwrap();
    if let Some(instead) = ground.substitute {
        eprintln!("INSTEAD: {instead}");
    }
    ground.kernel
}

/// Boots a lab.
pub(crate) async fn boot(incident: Incident) -> Lab {
    let kernel = kernel(&incident);
    Lab::boot(
        Path::new(lab_binary()),
        RunDir::create(false).unwrap(),
        incident,
        kernel,
    )
    .await
    .unwrap()
}

/// Boots and builds a lab, passes it to a test, and halts it. If the test fails, prints the machine's log.
pub(crate) async fn lab(incident: Incident, test: impl AsyncFnOnce(&mut Lab)) {
    lab_with(incident, None, test).await;
}

/// The same with a hook that implements the Services.
pub(crate) async fn lab_with(incident: Incident, hook: Option<&Path>, test: impl AsyncFnOnce(&mut Lab)) {
    if skipped() {
        return;
    }
    let _turn = lock_shared();
    let mut lab = boot(incident).await;
    let log = LogOnFailure(lab.log().to_owned());
    if let Some(hook) = hook {
        lab.set_service_hook(hook).unwrap();
    }
    lab.build().await.unwrap();
    test(&mut lab).await;
    lab.stop(false).await;
    drop(log);
}

struct LogOnFailure(PathBuf);

impl Drop for LogOnFailure {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the machine's log:\n{}", parallax_lab::lab::tail(&self.0));
        }
    }
}

/// Watches the machine of a lab in a directory.
pub(crate) struct Cleanup(PathBuf);

/// A namespace as named in `/proc`: `net:[4026532000]`.
type Namespace = PathBuf;

impl Cleanup {
    /// Watches the only lab in this directory.
    pub(crate) fn of(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Returns processes whose command line contains the directory.
    fn processes(&self) -> Vec<(u32, String)> {
        let directory = self.0.to_str().unwrap();
        every_process()
            .filter_map(|id| Some((id, fs::read(format!("/proc/{id}/cmdline")).ok()?)))
            .map(|(id, line)| (id, String::from_utf8_lossy(&line).replace('\0', " ")))
            .filter(|(_, line)| line.contains(directory))
            .collect()
    }

    /// Reports whether a process of the machine has mapped a file of this name.
    pub(crate) fn has_mapped(&self, name: &str) -> bool {
        let maps = |(id, _)| fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
        self.processes()
            .into_iter()
            .map(maps)
            .any(|maps| maps.contains(name))
    }

    pub(crate) fn machine_runs(&self) -> bool {
        !self.processes().is_empty()
    }

    /// Returns the private namespaces of the machine; none with its own kernel, whose namespaces are invisible here.
    pub(crate) fn namespaces(&self) -> BTreeSet<Namespace> {
        let own = namespaces_of(std::process::id());
        let mut all: BTreeSet<Namespace> = BTreeSet::new();
        for (id, _) in self.processes() {
            all.extend(namespaces_of(id).difference(&own).cloned());
        }
        // Pods are not recognised by their command lines, but share namespaces with the machine's processes.
        let known = all.clone();
        let among = every_process().map(namespaces_of);
        for candidate in among.filter(|candidate| candidate.intersection(&known).next().is_some()) {
            all.extend(candidate.difference(&own).cloned());
        }
        all
    }

    /// Waits until the machine has at least this many private namespaces.
    pub(crate) async fn wait_for_namespaces(&self, least: usize) -> BTreeSet<Namespace> {
        let start = Instant::now();
        loop {
            let namespaces = self.namespaces();
            if namespaces.len() >= least {
                return namespaces;
            }
            assert!(
                start.elapsed() < Duration::from_mins(1),
                "{} of {least} namespaces after a minute",
                namespaces.len()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits up to 10 seconds: the machine is notified immediately, and halting takes less than one. `had` are its
    /// namespaces; a namespace exists as long as a process is in it.
    pub(crate) async fn wait_for_machine_end(&self, had: &BTreeSet<Namespace>) {
        let start = Instant::now();
        loop {
            let processes = self.processes();
            let inside: Vec<u32> = every_process()
                .filter(|id| namespaces_of(*id).intersection(had).next().is_some())
                .collect();
            if processes.is_empty() && inside.is_empty() {
                return;
            }
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "still there after 10 s: {processes:#?}, and in its namespaces {inside:?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn every_process() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// A process that exits meanwhile has none.
fn namespaces_of(process: u32) -> BTreeSet<Namespace> {
    let link = |kind: &str| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
    ["net", "mnt", "pid", "ipc", "uts"]
        .into_iter()
        .filter_map(link)
        .collect()
}

/// Returns the state of this machine that a lab must not change: links, namespace mounts, rules, network settings.
pub(crate) fn machine_state() -> Vec<String> {
    let mut links: Vec<String> = fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    links.sort_unstable();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = mounts.lines().filter(|line| line.contains("netns"));
    // Stateless: without counters, which other traffic changes.
    let rules = Command::new("nft")
        .args(["--stateless", "list", "ruleset"])
        .output()
        .unwrap();
    assert!(
        rules.status.success(),
        "{}",
        String::from_utf8_lossy(&rules.stderr)
    );
    let settings = [
        "net/ipv4/ip_forward",
        "net/ipv4/ping_group_range",
        "net/bridge/bridge-nf-call-iptables",
        "net/ipv4/conf/all/send_redirects",
    ];
    let settings = settings.map(|name| {
        let value = fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
        format!("{name} = {}", value.trim())
    });
    let mounts: Vec<String> = mounts.map(str::to_owned).collect();
    let rules = vec![String::from_utf8_lossy(&rules.stdout).into_owned()];
    [links, mounts, rules, settings.to_vec()].concat()
}
