//! The matrix of targets and vantages.

use super::*;

#[test]
fn the_hosts_of_one_front_are_one_group_and_what_fails_comes_first() {
    let matrix = matrix::Matrix::new(&outage());
    let labels: Vec<_> = matrix
        .groups
        .iter()
        .map(|group| (group.head.label.as_str(), group.members.len()))
        .collect();
    assert_eq!(
        labels,
        [
            ("203.0.113.10:80", 50),
            ("https://new.example.test/", 0),
            ("dns://kubernetes.default.svc", 0),
            ("http://10.96.0.50:80/", 0),
            ("tcp://db.example.test:5432", 0),
        ]
    );
    let html = page("wide", &wide(), &sound());
    assert!(html.contains("matrix upright"));
}

#[test]
fn a_cell_has_symbol_word_and_age_of_its_evidence() {
    let html = page("outage", &outage(), &sound());
    assert!(html.contains(
        "title=\"n2/pod: failing; 12 of 12 probes failed (connection refused in connect); placement no-local; last \
         probe 3 s ago\"><span aria-hidden=\"true\">✕</span><span class=\"sr\">failing</span>"
    ));
}

#[test]
fn of_more_vantages_than_fit_the_columns_are_placements_and_the_failing_ones_are_named() {
    let matrix = matrix::Matrix::new(&sampled());
    let names: Vec<_> = matrix.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["same-node", "no-local"]);
    let worst = &matrix.groups[0].members[0];
    let signs: Vec<_> = worst.cells.iter().map(|cell| cell.class).collect();
    assert_eq!(signs, ["ok", "failing"]);
    let title = &worst.cells[1].title;
    assert!(
        title.starts_with("no-local: 22 failing; not ok from node-0") && title.ends_with(", …"),
        "{title}"
    );
    let html = page("sampled", &sampled(), &sound());
    assert!(html.len() < 200_000, "{} bytes", html.len());
}

#[test]
fn a_cell_without_probes_is_neither_ok_nor_unknown() {
    let mut view = healthy();
    view.matrix[0].cells.remove(1);
    let matrix = matrix::Matrix::new(&view);
    let rows = matrix
        .groups
        .iter()
        .flat_map(|group| [&group.head].into_iter().chain(&group.members));
    let row = rows
        .into_iter()
        .find(|row| row.label == view.matrix[0].target.as_str())
        .unwrap();
    assert_eq!(row.cells.len(), view.vantages.len());
    assert_eq!(row.cells[1].class, "apart");
    assert!(row.cells[1].title.ends_with("not probed from here"));
}
