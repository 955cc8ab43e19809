//! The manual pages of packages and releases.

use std::fs;

use crate::commands::{run, text};

#[test]
fn every_visible_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["manual", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let help = text(&run(&["--help"]).stdout);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|word| !word.is_empty() && *word != "help")
        .collect();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        let page = fs::read_to_string(folder.path().join(format!("parallax-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    let hidden = folder.path().join("parallax-solver.1");
    assert!(!hidden.exists(), "a hidden command has a page");
}

#[test]
fn a_directory_that_does_not_exist_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let output = run(&["manual", missing.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    let expected = format!("cannot write the manual pages to {}", missing.display());
    assert!(message.contains(&expected), "{message}");
}
