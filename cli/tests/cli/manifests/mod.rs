//! Output of `parallax manifests`: committed, coherent, unprivileged, and equal to what the overlays produce.

mod coherence;
mod document;
mod overlays;
mod refused;
mod rights;

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

use crate::commands::{repository, run, text};

/// Kind, namespace and name.
pub(crate) type Key = (String, String, String);
pub(crate) type Objects = BTreeMap<Key, Value>;

fn key(object: &Value) -> Key {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &object["metadata"];
    (
        word(&object["kind"]),
        word(&meta["namespace"]),
        word(&meta["name"]),
    )
}

/// Parses the documents of a YAML stream; no object may occur twice.
pub(crate) fn objects(yaml: &str) -> Objects {
    let mut objects = Objects::new();
    for document in serde_saphyr::from_multiple::<Value>(yaml).unwrap() {
        let key = key(&document);
        assert!(
            !key.0.is_empty() && !key.2.is_empty(),
            "an object has a kind and a name: {document}"
        );
        assert!(
            objects.insert(key.clone(), document).is_none(),
            "{key:?} is there twice"
        );
    }
    objects
}

pub(crate) fn printed(values: Option<&Path>) -> String {
    let mut args = vec!["manifests"];
    if let Some(values) = values {
        args.extend(["--values", values.to_str().unwrap()]);
    }
    let output = run(&args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Reports whether the committed files are being rewritten, so that they cannot be compared.
pub(crate) fn blessing() -> bool {
    std::env::var_os("PARALLAX_BLESS").is_some()
}

/// Compares a committed file with the current output; with `PARALLAX_BLESS=1` rewrites it instead.
fn golden(file: &str, now: &str) {
    let path = repository(file);
    if blessing() {
        fs::write(&path, now).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == now,
        "{file} differs from the output of `parallax manifests`; if the change is intended, update it with:\n  \
         PARALLAX_BLESS=1 cargo test -p parallax-cli --test cli manifests"
    );
}

#[test]
fn the_committed_installation_is_what_the_binary_prints() {
    let now = printed(None);
    golden("deploy/install.yaml", &now);
    golden("deploy/base/install.yaml", &now);
}

#[test]
fn the_commented_values_are_the_defaults_and_every_key_is_among_them() {
    let sample = repository("deploy/values.yaml");
    assert_eq!(printed(Some(&sample)), printed(None));
    // The parser's error lists every key it knows.
    let folder = tempfile::tempdir().unwrap();
    let sample = fs::read_to_string(sample).unwrap();
    let mut known = Vec::new();
    for (wrong, within) in [
        ("zzzzzz: 1", "expected "),
        ("prober: {zzzzzz: 1}", "expected "),
        ("aggregator: {zzzzzz: 1}", "expected "),
        ("podMonitor: {zzzzzz: 1}", "expected "),
        ("links: {zzzzzz: 1}", "expected "),
        ("notify: {zzzzzz: 1}", "expected "),
        (
            "notify: {webhooks: [{name: a, url: 'http://a/', secret: a, zzzzzz: 1}]}",
            "expected ",
        ),
        ("aggregator: {volume: {size: 1Gi, zzzzzz: 1}}", "expected "),
    ] {
        let path = folder.path().join("values.yaml");
        fs::write(&path, wrong).unwrap();
        let stderr = text(&run(&["manifests", "--values", path.to_str().unwrap()]).stderr);
        let list = stderr.split(within).nth(1).unwrap_or_else(|| panic!("{stderr}"));
        known.extend(
            list.trim()
                .split([',', ' '])
                .filter(|word| !["", "or"].contains(word))
                .map(str::to_owned),
        );
    }
    assert!(known.len() > 20, "{known:?}");
    for key in known {
        assert!(
            sample.contains(&format!("{key}:")),
            "deploy/values.yaml lacks {key}"
        );
    }
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    use std::process::Stdio;
    let mut child = crate::commands::parallax()
        .arg("manifests")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
