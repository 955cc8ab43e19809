//! Labs leave nothing behind, wherever they are killed.

use super::*;

fn packets_of(id: &str, folder: &Path) -> tokio::process::Child {
    tokio::process::Command::new(lab_binary())
        .args(["packets", id])
        .env("PARALLAX_LAB_DIR", folder)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Kills a lab without a chance to clean up, once its cluster is built.
async fn killed_when_it_stands(id: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = packets_of(id, folder.path());
    // The first line is printed when the cluster is built.
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().unwrap()));
    let first = lines.next_line().await.unwrap().unwrap();
    assert!(first.starts_with("kernel "), "{first}");
    let cleanup = Cleanup::of(folder.path());
    assert!(cleanup.machine_runs(), "the machine should be running");
    let namespaces = cleanup.namespaces();
    child.kill().await.unwrap();
    cleanup.wait_for_machine_end(&namespaces).await;
}

#[tokio::test]
async fn the_machine_halts_when_the_host_goes_away_and_leaves_nothing_behind() {
    if skipped() {
        return;
    }
    let _turn = lock();
    killed_when_it_stands("i1").await;
}

#[tokio::test]
async fn a_lab_on_this_machines_kernel_changes_nothing_of_it_and_leaves_nothing_wherever_it_is_killed() {
    if skipped() {
        return;
    }
    let _turn = lock();
    if kernel(&incident("f3")) != Kernel::Host {
        return killed_when_it_stands("f3").await;
    }
    let before = machine_state();
    // When its first process starts, while its nodes and Pods are built, and when they are complete.
    for least in [1, 5, 7] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = packets_of("f3", folder.path());
        let cleanup = Cleanup::of(folder.path());
        let namespaces = cleanup.wait_for_namespaces(least).await;
        assert_eq!(machine_state(), before, "with {least} namespaces");
        child.kill().await.unwrap();
        cleanup.wait_for_machine_end(&namespaces).await;
    }
    killed_when_it_stands("f3").await;
    assert_eq!(machine_state(), before);
}
