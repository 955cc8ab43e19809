//! The documents are correct: their links resolve, their commands exist, their YAML parses.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

use parallax_skip::skip;
use parallax_test_support::helm::{Helm, INSTALL_COMMAND};
use serde_json::Value;

use crate::commands::{parallax, repository, text};

/// Files with an extension below a folder. Hidden folders and `target` are skipped.
fn files(folder: PathBuf, extension: &str) -> Vec<PathBuf> {
    let mut folders = vec![folder];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == extension) {
                files.push(path);
            }
        }
    }
    files
}

/// README, CONTRIBUTING, SECURITY and every page below docs/, by path.
fn documents() -> BTreeMap<PathBuf, String> {
    let roots = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(repository);
    let paths = roots.into_iter().chain(files(repository("docs"), "md"));
    paths
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect()
}

/// `make faults` runs them.
#[test]
fn every_test_of_the_reliability_page_exists() {
    let page = fs::read_to_string(repository("docs/reference/reliability.md")).unwrap();
    let is_name = |word: &&str| {
        word.len() >= 25
            && word
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b"_0123456789".contains(&b))
    };
    let named: Vec<&str> = page.split('`').filter(is_name).collect();
    assert!(named.len() > 20, "the page was read");
    let sources = files(repository(""), "rs").into_iter();
    let sources: Vec<String> = sources.map(|path| fs::read_to_string(path).unwrap()).collect();
    for name in named {
        let definition = format!("fn {name}(");
        let exists = sources.iter().any(|source| source.contains(&definition));
        assert!(exists, "docs/reference/reliability.md names {name}");
    }
}

#[test]
fn every_link_to_a_file_of_the_repository_leads_to_one() {
    let mut links = 0;
    for (path, content) in documents() {
        for rest in content.split("](").skip(1) {
            let to = rest.split(')').next().unwrap().split('#').next().unwrap();
            if to.is_empty() || to.contains("://") || to.contains(' ') {
                continue;
            }
            links += 1;
            let file = path.parent().unwrap().join(to);
            assert!(
                file.exists(),
                "{} links to {to}, which is not there",
                path.display()
            );
        }
    }
    assert!(links > 20, "{links}");
}

/// Returns the link anchor of a heading.
fn anchor(heading: &str) -> String {
    let plain = heading.to_lowercase();
    let kept = plain
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_to_a_heading_leads_to_one() {
    let mut links = 0;
    let documents = documents();
    for (path, content) in &documents {
        for rest in content.split("](").skip(1) {
            let Some((file, heading)) = rest.split(')').next().unwrap().split_once('#') else {
                continue;
            };
            if file.contains("://") || heading.contains(' ') {
                continue;
            }
            let to = if file.is_empty() {
                content.clone()
            } else {
                fs::read_to_string(path.parent().unwrap().join(file)).unwrap()
            };
            links += 1;
            let headings = to.lines().filter(|line| line.starts_with('#'));
            let mut headings = headings.map(|line| anchor(line.trim_start_matches('#').trim()));
            assert!(
                headings.any(|known| known == heading),
                "{} links to {file}#{heading}, and there is no such heading",
                path.display()
            );
        }
    }
    assert!(links > 5, "{links}");
}

#[test]
fn every_command_of_ours_that_is_shown_has_these_words_and_flags() {
    let mut shown = 0;
    for (path, content) in documents() {
        for line in content
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("$ parallax "))
        {
            shown += 1;
            let words: Vec<&str> = line.split(' ').collect();
            let mut command = vec![words[0]];
            if matches!(words[0], "vantage" | "maintenance" | "notify") {
                command.push(words[1]);
            }
            let output = parallax().args(&command).arg("--help").output().unwrap();
            let help = text(&output.stdout);
            assert!(
                output.status.success(),
                "{}: {line}: {}",
                path.display(),
                text(&output.stderr)
            );
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                let name = flag.split('=').next().unwrap();
                assert!(
                    help.contains(name),
                    "{}: {line}: there is no {name}",
                    path.display()
                );
            }
        }
    }
    assert!(shown > 8, "{shown}");
}

/// The documents of all YAML examples, with the path of their page.
fn yaml_examples() -> Vec<(PathBuf, String)> {
    let mut examples = Vec::new();
    for (path, content) in documents() {
        for block in content.split("```yaml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            let documents = block.split("\n---\n");
            examples.extend(documents.map(|document| (path.clone(), document.to_owned())));
        }
    }
    examples
}

#[test]
fn every_yaml_that_is_shown_can_be_read() {
    let examples = yaml_examples();
    assert!(examples.len() > 5, "{}", examples.len());
    for (path, example) in examples {
        let read = serde_saphyr::from_str::<Value>(&example);
        assert!(read.is_ok(), "{}: {read:?} in\n{example}", path.display());
    }
}

/// First line of an example that is no values of the chart, although the chart has values of the same name.
const CONFIGURATION: &str = "# In the aggregator's configuration.\n";

/// An example with a key of the chart is values of the chart, unless it says that it is something else.
#[test]
fn every_example_of_values_of_the_chart_is_accepted_by_helm() {
    let Some(helm) = Helm::find() else {
        skip(
            "docs::every_example_of_values_of_the_chart_is_accepted_by_helm",
            "helm is not installed",
            &format!("{INSTALL_COMMAND} && cargo test --workspace --locked --test cli docs"),
        );
        return;
    };
    let schema = fs::read_to_string(repository("deploy/chart/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    let render = |example: &str| {
        fs::write(&values, example).unwrap();
        helm.installation("parallax", &[&values])
    };
    let mut shown = 0;
    for (path, example) in yaml_examples() {
        let keys = serde_saphyr::from_str::<BTreeMap<String, Value>>(&example).unwrap_or_default();
        let is_values = keys.keys().any(|key| schema["properties"].get(key).is_some());
        // Pages for contributors show formats of their own.
        let is_for_users = !path.starts_with(repository("docs/contributing"));
        if !is_values || !is_for_users || example.starts_with(CONFIGURATION) {
            continue;
        }
        shown += 1;
        let rendered = render(&example);
        assert!(
            rendered.is_ok(),
            "{}: values that the chart refuses (an example of the configuration begins with {CONFIGURATION:?}): {:#}\n{example}",
            path.display(),
            rendered.unwrap_err()
        );
    }
    assert!(shown > 0);
    assert!(render("prober: {credential: []}").is_err(), "a typo is refused");
}

/// Returns the commands of a section of a page, with their continuation lines joined.
fn section_commands(page: &str, heading: &str) -> Vec<String> {
    let (_, section) = page.split_once(&format!("## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(|block| block.lines().skip(1));
    let command = |line: &str| line.strip_prefix("$ ").unwrap_or(line).to_owned();
    lines.map(command).collect()
}

#[test]
fn the_commands_that_install_a_release_are_those_of_its_notes() {
    let output = Command::new(repository("deploy/release/notes"))
        .arg("--install")
        .env("PARALLAX_REGISTRY", "registry.example.com/net")
        .env_remove("PARALLAX_TAG")
        .env_remove("PARALLAX_DOWNLOADS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let notes = text(&output.stdout).replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let commands = section_commands(&notes, "Install");
    assert!(commands.len() >= 8, "{commands:?}");
    let page = fs::read_to_string(repository("docs/use/install.md")).unwrap();
    assert_eq!(section_commands(&page, "From a release"), commands);
}

#[test]
fn the_command_that_tests_the_receivers_in_a_cluster_names_what_the_pod_has() {
    let installation = fs::read_to_string(repository("deploy/install.yaml")).unwrap();
    let objects = serde_saphyr::from_multiple::<Value>(&installation).unwrap();
    let deployment = objects
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .unwrap();
    let environment = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let variables = environment.as_array().unwrap().iter();
    let mut paths = variables.filter(|variable| variable["name"] == "PARALLAX_CONFIG");
    let path = paths.next().unwrap()["value"].as_str().unwrap();
    let image = fs::read_to_string(repository("deploy/Dockerfile")).unwrap();
    assert!(image.contains("ENTRYPOINT [\"/parallax\"]"));
    let command = format!(
        "kubectl -n parallax exec deploy/{} -- /parallax notify test --config {path}",
        deployment["metadata"]["name"].as_str().unwrap()
    );
    for page in ["docs/use/install.md", "docs/use/notifications.md"] {
        let content = fs::read_to_string(repository(page)).unwrap();
        assert!(content.contains(&command), "{page} does not show {command}");
    }
}

#[test]
fn two_builds_are_compared_only_for_an_architecture_that_has_an_image() {
    let output = Command::new(repository("tests/reproducible"))
        .arg("mips")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no image for mips: expected amd64 or arm64"));
    // `make test` hands its own flags down, with which this `make` says which directory it enters and leaves.
    let make = ["--no-print-directory", "--dry-run", "reproducible", "ARCH=arm64"];
    let output = Command::new("make")
        .args(make)
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .current_dir(repository(""))
        .output()
        .unwrap();
    let recipe = text(&output.stdout);
    assert!(
        recipe.trim_end().ends_with("tests/reproducible arm64"),
        "{recipe}"
    );
}
