//! Runs every committed seed, and every input that once found a bug, through its target.

use std::{collections::BTreeSet, fs, panic, path::Path};

use parallax_fuzz::TARGETS;

fn seeds() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/seeds"))
}

#[test]
fn every_target_has_seeds_and_a_binary_of_its_name() {
    let folders: BTreeSet<String> = fs::read_dir(seeds())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(folders, names);
    for name in names {
        let source = format!("{}/targets/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        assert!(Path::new(&source).is_file(), "{source}");
    }
}

#[test]
fn every_target_has_a_longest_input() {
    let lengths = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/max-lengths")).unwrap();
    let lines = lengths.lines().filter(|line| !line.starts_with('#'));
    let listed: BTreeSet<&str> = lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap();
            let bytes: u32 = words.next().unwrap().parse().unwrap();
            assert!(bytes >= 4096 && words.next().is_some(), "{line}");
            name
        })
        .collect();
    let names: BTreeSet<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, names);
}

#[test]
fn every_seed_passes() {
    let (mut passed, mut broken) = (0, Vec::new());
    for (name, check) in TARGETS {
        for entry in fs::read_dir(seeds().join(name)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            match panic::catch_unwind(|| check(&bytes)) {
                Ok(()) => passed += 1,
                Err(_) => broken.push(path),
            }
        }
    }
    assert!(
        broken.is_empty(),
        "these seeds fail, see the output above: {broken:#?}"
    );
    assert!(passed >= TARGETS.len());
}
