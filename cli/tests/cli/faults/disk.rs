//! A file system that is really full.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use parallax_skip::skip;

use super::processes::{Launch, Processes, incidents};
use crate::{identity::mesh::until, up::Server};

/// Writes a file until the file system is full.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    let block = [b'x'; 4096];
    while file.write_all(&block).is_ok() {}
    while file.write_all(b"x").is_ok() {}
}

/// Reports whether a private file system can be mounted here.
fn can_mount() -> bool {
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]);
    command.output().is_ok_and(|output| output.status.success())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_file_system_costs_neither_a_diagnosis_nor_anything_of_the_store() {
    if !can_mount() {
        let command = "sudo -E cargo test -p parallax-cli --test cli faults::disk";
        return skip("faults::disk", "a file system cannot be mounted", command);
    }
    let disk = tempfile::tempdir().unwrap();
    let path = disk.path().to_str().unwrap();
    let mount = r#"mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@""#;
    let launch = Launch {
        wrapper: [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            mount,
            path,
        ]
        .map(ToOwned::to_owned)
        .to_vec(),
        ..Launch::default()
    };
    let server = Server::start();
    let target = format!("http://{}/", server.address);
    let store = format!("store: {{path: {path}/history.db}}\n");
    let mut mesh = Processes::start(std::slice::from_ref(&target), &store, &launch).await;
    mesh.wait_until_all(&target, "ok").await;
    assert_eq!(mesh.metric("parallax_store_up").await, 1);

    // The directory as the aggregator sees it.
    let root = format!("/proc/{}/root{path}", mesh.aggregator.id());
    let filler = Path::new(&root).join("filler");
    fill(&filler);
    drop(server);
    until("the fault is named, and the store is shown as down", async || {
        let view = mesh.state().await.unwrap();
        !incidents(&view).is_empty() && mesh.metric("parallax_store_up").await == 0
    })
    .await;
    fs::remove_file(&filler).unwrap();
    until("the store works again", async || {
        mesh.metric("parallax_store_up").await == 1
    })
    .await;
    let id = incidents(&mesh.state().await.unwrap()).remove(0).0;
    until("the incident of that time is in the store", async || {
        let history = mesh.text("/v1/incidents").await.unwrap();
        history.contains(&id)
    })
    .await;
    assert_eq!(mesh.metric("parallax_store_dropped_total").await, 0);
    mesh.aggregator.signal("TERM");
    assert_eq!(mesh.aggregator.wait(), Some(0));
}
