//! Parses step files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{Kind, Step};

/// Error of a step file.
#[derive(Debug)]
pub struct StepError {
    path: PathBuf,
    line: u64,
    message: String,
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

impl std::error::Error for StepError {}

/// The part of a file that is parsed before its names are replaced.
#[derive(Debug, Deserialize)]
struct StepVariants {
    #[serde(default)]
    variants: BTreeMap<String, BTreeMap<String, String>>,
}

/// Returns all steps of a directory, by id.
///
/// # Errors
/// An unreadable directory, or the first invalid file.
pub fn list(folder: &Path) -> Result<Vec<Step>, StepError> {
    let failed = |path: &Path, error: std::io::Error| StepError {
        path: path.to_owned(),
        line: 0,
        message: error.to_string(),
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    let mut steps = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
        steps.extend(parse(&path, &text)?);
    }
    Ok(steps)
}

/// Parses the steps of a file's text: one, or one per variant. `path` determines the id and appears in messages.
///
/// # Errors
/// Invalid text, with the line.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Step>, StepError> {
    let id = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let StepVariants { variants } = read(path, text)?;
    if variants.is_empty() {
        return Ok(vec![step(path, text, id)?]);
    }
    variants
        .iter()
        .map(|(variant, values)| {
            let text = values.iter().fold(text.to_owned(), |text, (key, value)| {
                text.replace(&format!("${{{key}}}"), value)
            });
            step(path, &text, format!("{id}/{variant}"))
        })
        .collect()
}

fn step(path: &Path, text: &str, id: String) -> Result<Step, StepError> {
    let step = Step {
        id,
        ..read::<Step>(path, text)?
    };
    let wrong = |field: &str, message: &str| {
        let line = text
            .lines()
            .position(|line| line.starts_with(field))
            .unwrap_or_default();
        Err(StepError {
            path: path.to_owned(),
            line: u64::try_from(line).unwrap_or_default() + 1,
            message: message.to_owned(),
        })
    };
    match step.kind {
        Kind::Ordinary if !step.expect.named.is_empty() || !step.then.is_empty() => {
            wrong("expect", "an ordinary step must not have `named` or `then`")
        }
        Kind::Fault if step.expect.named.is_empty() => wrong("expect", "a fault needs `named`"),
        Kind::Fault if !step.after.is_empty() => wrong("after", "a fault must not have `after`"),
        Kind::Fault if step.expect.most_missed_rounds.is_some() => {
            wrong("expect", "a fault must not have `mostMissedRounds`")
        }
        Kind::Fault if step.cure.is_empty() => wrong("kind", "a fault needs `cure`"),
        Kind::Fault if step.expect.felt.is_empty() => wrong(
            "expect",
            "a fault needs `felt`, which proves that it is effective",
        ),
        _ => Ok(step),
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T, StepError> {
    serde_saphyr::from_str(text).map_err(|error| {
        let plain = error.without_snippet();
        StepError {
            path: path.to_owned(),
            line: plain.location().map_or(0, |location| location.line()),
            message: plain.to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Action, HelmAction, ImageSelection, Installation};

    const FAULT: &str = "\
title: the shop is scaled to 0
kind: fault
installation: ${installation}
do:
- kubectl: [-n, shop, scale, deployment/shop, --replicas=0]
watch: 30
cure:
- kubectl: [-n, shop, scale, deployment/shop, --replicas=3]
expect:
  named: [{cause: [F26]}]
  felt: [host]
variants:
  plain: {installation: plain}
  two: {installation: two}
";

    #[test]
    fn each_variant_is_a_step_with_its_values_in_place() {
        let steps = parse(Path::new("steps/scaled.yaml"), FAULT).unwrap();
        let ids: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
        assert_eq!(ids, ["scaled/plain", "scaled/two"]);
        assert_eq!(steps[1].installation, Installation::Two);
        assert!(matches!(&steps[0].actions[0], Action::Kubectl(arguments) if arguments.len() == 5));
        assert!(!steps[0].uses_hook());
    }

    #[test]
    fn an_unknown_field_is_refused_with_file_and_line() {
        let text = FAULT.replace("  felt: [host]", "  flet: [host]");
        let error = parse(Path::new("steps/scaled.yaml"), &text)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("steps/scaled.yaml:11: "), "{error}");
        assert!(error.contains("flet"), "{error}");
    }

    #[test]
    fn a_fault_says_how_it_ends_and_what_shows_that_it_is_there() {
        let text = FAULT.replace("  felt: [host]\n", "");
        let error = parse(Path::new("steps/scaled.yaml"), &text)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("steps/scaled.yaml:9: a fault needs `felt`"),
            "{error}"
        );
    }

    #[test]
    fn what_only_ordinary_steps_are_judged_by_is_refused_in_a_fault() {
        for (old, new, message) in [
            (
                "watch: 30",
                "watch: 30\nafter: [removeInstallation]",
                "must not have `after`",
            ),
            (
                "  felt: [host]",
                "  felt: [host]\n  mostMissedRounds: 0",
                "must not have `mostMissedRounds`",
            ),
        ] {
            let text = FAULT.replace(old, new);
            let error = parse(Path::new("steps/scaled.yaml"), &text).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn commands_of_helm_are_read_with_their_values_and_limits() {
        let text = "\
title: t
kind: ordinary
prepare:
- removeInstallation
- measure:
    name: installation
    within: 60
    do:
    - helm: {install: {image: previous, values: {intervalMs: 1000}}}
do:
- helm: test
watch: 1
after:
- helm: uninstall
- wait: {for: nothingLeft}
";
        let step = parse(Path::new("steps/helm.yaml"), text).unwrap().remove(0);
        let Action::Measure(measured) = &step.prepare[1] else {
            panic!("{:?}", step.prepare)
        };
        assert_eq!(
            (measured.name.as_str(), measured.within),
            ("installation", Some(60))
        );
        let Action::Helm(HelmAction::Install(install)) = &measured.actions[0] else {
            panic!("{measured:?}")
        };
        assert_eq!(install.image, ImageSelection::Previous);
        assert_eq!(install.values["intervalMs"], 1000);
        assert_eq!(step.actions, [Action::Helm(HelmAction::Test)]);
        assert_eq!(step.after[0], Action::Helm(HelmAction::Uninstall));
    }

    #[test]
    fn values_that_are_no_map_are_refused_with_their_line() {
        let text = "\
title: t
kind: ordinary
do:
- install:
    values: \"intervalMs: 1000\"
watch: 1
";
        let error = parse(Path::new("steps/values.yaml"), text)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("steps/values.yaml:5:"), "{error}");
        assert!(error.contains("expected mapping"), "{error}");
    }

    #[test]
    fn every_step_of_the_project_can_be_read_and_ids_are_unique() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("steps");
        let steps = list(&folder).unwrap();
        let mut ids: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
        ids.dedup();
        assert_eq!(ids.len(), steps.len());
        assert!(!steps.is_empty());
    }
}
