//! What every lab test needs: a lab, and everything about it when the test fails.
use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use parallax_lab::{incident::Incident, lab::Lab, run_dir::RunDir, tools};

/// Whether the lab is left out on purpose. Without the tools the test fails instead: a lab that silently does not run
/// is worth nothing.
pub(crate) fn skipped() -> bool {
    if std::env::var("PARALLAX_LAB").is_ok_and(|value| value == "skip") {
        eprintln!("SKIPPED: PARALLAX_LAB=skip, this lab test has shown nothing");
        return true;
    }
    if let Err(missing) = tools::check() {
        panic!("{missing} (or leave the lab out with PARALLAX_LAB=skip)");
    }
    false
}

/// One lab test at a time, over all test processes: each takes a CPU for itself, and a verdict has a deadline. The turn
/// ends with the file.
pub(crate) fn turn() -> File {
    let file = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab-turn")).unwrap();
    file.lock().unwrap();
    file
}

/// The binary `parallax-lab` of this build.
pub(crate) fn lab_binary() -> &'static str {
    env!("CARGO_BIN_EXE_parallax-lab")
}

/// Boots and builds a lab, gives it to a test, and halts it. When the test fails, the machine's log is printed.
pub(crate) async fn lab(incident: Incident, test: impl AsyncFnOnce(&mut Lab)) {
    lab_with(incident, None, test).await;
}

/// The same with the Services left to a program.
pub(crate) async fn lab_with(incident: Incident, hook: Option<&Path>, test: impl AsyncFnOnce(&mut Lab)) {
    if skipped() {
        return;
    }
    let _turn = turn();
    let mut lab = Lab::boot(Path::new(lab_binary()), RunDir::create(false).unwrap(), incident)
        .await
        .unwrap();
    let log = LogOnFailure(lab.log().to_owned());
    if let Some(hook) = hook {
        lab.leave_services_to(hook).unwrap();
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

/// Watches the machine of a lab that lives in a folder.
pub(crate) struct Cleanup(PathBuf);

impl Cleanup {
    /// Of the only lab in this folder.
    pub(crate) fn of(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Processes whose command line names the folder.
    fn processes(&self) -> Vec<String> {
        let mine = self.0.to_str().unwrap();
        std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read(entry.unwrap().path().join("cmdline")).ok())
            .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
            .filter(|line| line.contains(mine))
            .collect()
    }

    pub(crate) fn machine_runs(&self) -> bool {
        !self.processes().is_empty()
    }

    /// Patience of 10 seconds: the machine hears of the end at once, halting takes it less than one.
    pub(crate) async fn machine_ends(&self) {
        let start = Instant::now();
        let mut tries = 0;
        while self.machine_runs() {
            tries += 1;
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "still there after 10 s and {tries} looks: {:#?}",
                self.processes()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
