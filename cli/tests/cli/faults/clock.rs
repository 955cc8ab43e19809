//! Steps of the aggregator's wall clock.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use parallax_skip::skip;

use super::processes::{Launch, Processes, assert_no_incident, cells, incidents};
use crate::{commands::text, identity::mesh::until, up::Server};

/// The library that shifts the clock of a process. Debian installs it in the directory of the architecture.
fn faketime() -> Option<String> {
    let mut architectures = fs::read_dir("/usr/lib").ok()?;
    architectures.find_map(|entry| {
        let library = entry.ok()?.path().join("faketime/libfaketime.so.1");
        library.is_file().then_some(library.to_str()?.to_owned())
    })
}

/// Sets the shift of the clock, in seconds.
fn shift(file: &Path, seconds: i64) {
    let fresh = file.with_extension("new");
    fs::write(&fresh, format!("{seconds:+}\n")).unwrap();
    fs::rename(fresh, file).unwrap();
}

/// Starts an aggregator whose clock is `before` seconds ahead, and sets it to `after`.
async fn shifted_clock(name: &str, before: i64, after: i64) {
    let Some(library) = faketime() else {
        return skip(name, "libfaketime is missing", "apt-get install faketime");
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clock");
    shift(&file, before);
    let value = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let launch = Launch {
        environment: vec![
            value("LD_PRELOAD", &library),
            value("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
            value("FAKETIME_NO_CACHE", "1"),
            value("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ],
        ..Launch::default()
    };
    let (steady, failing) = (Server::start(), Server::start());
    let [healthy, target] = [&steady, &failing].map(|server| format!("http://{}/", server.address));
    let mesh = Processes::start(&[healthy.clone(), target.clone()], "", &launch).await;
    mesh.wait_until_all(&target, "ok").await;

    shift(&file, after);
    let mut date = Command::new("date");
    date.arg("+%s").envs(launch.environment.iter().cloned());
    let shown: i64 = text(&date.output().unwrap().stdout).trim().parse().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(
        (shown - now.cast_signed() - after).abs() < 60,
        "the clock is not shifted: {shown}"
    );
    let counted = mesh
        .metric("parallax_ingest_observations_total{result=\"counted\"}")
        .await;
    let mut states = Vec::new();
    until("three more rounds of every vantage are counted", async || {
        let view = mesh.state().await.unwrap();
        assert_no_incident(&view);
        states.extend(cells(&view, &healthy).into_iter().map(ToOwned::to_owned));
        mesh.metric("parallax_ingest_observations_total{result=\"counted\"}")
            .await
            >= counted + 18
    })
    .await;
    assert!(!states.iter().any(|state| state == "failing"), "{states:?}");
    mesh.wait_until_all(&healthy, "ok").await;

    drop(failing);
    until("the fault is named", async || {
        let view = mesh.state().await.unwrap();
        let named = incidents(&view);
        assert!(
            named
                .iter()
                .all(|(_, sentence)| sentence
                    .contains(target.trim_start_matches("http://").trim_end_matches('/'))),
            "{named:?}"
        );
        assert_eq!(
            cells(&view, &healthy)
                .iter()
                .filter(|state| **state == "failing")
                .count(),
            0
        );
        !named.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_the_aggregators_clock_by_an_hour_names_nothing_and_a_fault_still_is() {
    let name = "faults::clock (step)";
    tokio::join!(shifted_clock(name, 0, 3_600), shifted_clock(name, 0, -3_600));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregator_whose_clock_is_an_hour_off_names_nothing_and_a_fault_still_is() {
    let name = "faults::clock (off)";
    tokio::join!(
        shifted_clock(name, 3_600, 3_600),
        shifted_clock(name, -3_600, -3_600)
    );
}
