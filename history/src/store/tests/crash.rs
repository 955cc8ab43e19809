//! A process that is killed while it writes leaves a usable file with everything that was committed.

use std::{
    io::{BufRead, BufReader, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use super::*;

const FOLDER: &str = "PARALLAX_STORE_OF_KILLED_CHILD";

/// Writes forever and prints each committed batch. Does nothing unless the test below starts it in its own process.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let path = PathBuf::from(folder).join("history.db");
    let (mut store, _) = SqliteFile::new(StoreOptions::with_defaults(path))
        .open(NOW)
        .unwrap();
    let mut out = std::io::stdout();
    for n in 0_u64.. {
        let mut batch = with_incidents([closed(&format!("i-{n}"), NOW)]);
        batch.failures = (0..50).map(|i| failure(n * 50 + i, NOW)).collect();
        batch
            .rollups
            .extend([rollup("http://a/", RollupStep::FiveMinutes, NOW, 3)]);
        store.write(&batch).unwrap();
        writeln!(out, "\ncommitted {n}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn what_was_committed_before_a_kill_is_there_after_it_and_the_file_takes_more() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "store::tests::crash::child_that_writes_until_it_is_killed",
                "--nocapture",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let committed: Vec<u64> = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("committed ")?.parse().ok())
            .take(20 + round)
            .collect();
        child.kill().unwrap();
        child.wait().unwrap();
        let last = *committed.last().expect("the child writes");

        let (mut store, notices) = SqliteFile::new(options(&folder)).open(NOW).unwrap();
        assert!(notices.is_empty(), "{notices:?}");
        for n in 0..=last {
            assert!(
                store.incident(&format!("i-{n}")).unwrap().is_some(),
                "batch {n} of {last}"
            );
        }
        let failures = store
            .failures("http://a.example.test/", EventTime(i64::MAX), 1_000_000)
            .unwrap();
        assert_eq!(
            failures.len() % 50,
            0,
            "a batch is written as a whole or not at all"
        );
        store.write(&with_incidents([closed("after", NOW)])).unwrap();
    }
}
