//! Booting on other machines: with a CPU that has AMX, and without `ptrace`.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Command, Output},
};

use crate::support::{Cleanup, helper, lab_binary, lock, skipped};

/// Controls whether the library for large XSAVE areas is preloaded.
const XSTATE: &str = "PARALLAX_LAB_XSTATE";

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Builds a `parallax-lab` command whose runs are in the test's directory.
fn lab_in(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(lab_binary());
    command
        .args(arguments)
        .env("PARALLAX_LAB_DIR", folder.join("runs"));
    command
}

/// Returns the log of the only run that a failure left in the directory.
fn log(folder: &Path) -> String {
    let runs: Vec<_> = std::fs::read_dir(folder.join("runs")).unwrap().collect();
    let [Ok(run)] = runs.as_slice() else {
        panic!("expected one run: {runs:?}")
    };
    let log = std::fs::read(run.path().join("uml.log")).unwrap();
    String::from_utf8_lossy(&log).into_owned()
}

#[tokio::test]
async fn the_library_for_large_xsave_areas_is_preloaded_if_asked_for_and_the_lab_forwards_as_without() {
    if skipped() {
        return;
    }
    let _turn = lock();
    let folder = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::from(lab_in(folder.path(), &["packets", "i1"]));
    let mut child = command
        .env(XSTATE, "always")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().unwrap()));
    let first = lines.next_line().await.unwrap().unwrap();
    assert!(
        first.starts_with("kernel ") && first.contains("user-mode Linux"),
        "{first}"
    );
    assert!(
        Cleanup::of(folder.path()).has_mapped(uml_xstate::LIBRARY),
        "preloaded"
    );
    while lines.next_line().await.unwrap().is_some() {}
    assert!(child.wait().await.unwrap().success());
}

/// The whole product on such a CPU: the state of probers and aggregator must survive each context switch.
#[test]
fn on_a_cpu_with_amx_user_mode_linux_dies_without_the_library_and_an_incident_is_named_with_it() {
    if skipped() {
        return;
    }
    let _turn = lock();
    let folder = tempfile::tempdir().unwrap();
    let amx = helper::large_area(folder.path());

    let without = lab_in(folder.path(), &["packets", "i1"])
        .env("LD_PRELOAD", &amx)
        .env(XSTATE, "never")
        .output()
        .unwrap();
    assert_eq!(without.status.code(), Some(3), "{}", errors(&without));
    let log = log(folder.path());
    assert!(log.contains("ptrace set fp regs failed, errno = 14"), "{log}");
    assert!(
        errors(&without).contains("PARALLAX_LAB_XSTATE=always"),
        "{}",
        errors(&without)
    );

    let with = lab_in(folder.path(), &["run", "i1", "--once", "--listen", "127.0.0.1:0"])
        .env("LD_PRELOAD", &amx)
        .env(XSTATE, "always")
        .output()
        .unwrap();
    assert!(with.status.success(), "{}", errors(&with));
}

#[test]
fn a_setting_that_is_neither_always_nor_never_is_refused() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = lab_in(folder.path(), &["packets", "i1"])
        .env(XSTATE, "yes")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert!(
        errors(&output).contains("PARALLAX_LAB_XSTATE"),
        "{}",
        errors(&output)
    );
}

fn check_kernel(wrapper: Option<&Path>, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("check-kernel");
    let mut words = wrapper.into_iter().map(Path::as_os_str).collect::<Vec<&OsStr>>();
    words.push(script.as_os_str());
    Command::new(words[0])
        .args(&words[1..])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn before_anything_is_built_it_is_known_that_user_mode_linux_boots_also_on_a_cpu_that_needs_the_library() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = check_kernel(None, &["i1"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(output.stdout, b"i1\n");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("check-kernel");
    let output = Command::new(script)
        .arg("--all")
        .env("LD_PRELOAD", helper::large_area(folder.path()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(output.stdout, b"--all\n");
}

#[test]
fn where_user_mode_linux_does_not_boot_one_line_says_why_and_what_runs_instead() {
    if skipped() {
        return;
    }
    let _turn = lock();
    let folder = tempfile::tempdir().unwrap();
    let wrapper = helper::without_ptrace(folder.path());
    let instead = check_kernel(Some(&wrapper), &["i1", "--or", "f2"]);
    let message = errors(&instead);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("ptrace is not permitted"), "{message}");
    // If root, and if this machine's kernel has the required features.
    let host_serves = instead.status.success();
    if host_serves {
        assert_eq!(instead.stdout, b"f2 --kernel host\n");
    } else {
        eprintln!("INSTEAD: {message}");
        assert_eq!(instead.status.code(), Some(3));
    }
    let ipvs = check_kernel(Some(&wrapper), &["f9"]);
    assert_eq!(ipvs.status.code(), Some(3), "{}", errors(&ipvs));
    assert!(errors(&ipvs).starts_with("f9 needs IPVS, and user-mode Linux does not boot here: "));

    let packets = |id: &str| {
        Command::new(&wrapper)
            .args([lab_binary(), "packets", id])
            .env("PARALLAX_LAB_DIR", folder.path().join("runs"))
            .output()
            .unwrap()
    };
    // iptables rules, and so the packets, are the same on either kernel.
    let iptables = packets("f2");
    assert_eq!(iptables.status.success(), host_serves, "{}", errors(&iptables));
    assert!(
        errors(&iptables).contains("ptrace is not permitted"),
        "{}",
        errors(&iptables)
    );
    let ipvs = packets("i1");
    assert_eq!(ipvs.status.code(), Some(3));
    assert!(
        errors(&ipvs).contains("ptrace is not permitted"),
        "{}",
        errors(&ipvs)
    );
}
