//! Series of open incidents.

use super::*;

#[test]
fn an_open_incident_has_one_series_with_its_id_and_each_target_one_that_leads_to_it() {
    let text = scene(fixtures::outage(), &[]).text();
    for line in [
        r#"parallax_incident{incident="i-5f3a9c01",cause="F1",severity="critical",subject="203.0.113.10:80",action="none"} 1"#,
        r#"parallax_target_incident{target="http://shop-07.example.test/",incident="i-5f3a9c01"} 1"#,
        r#"parallax_target_never_ok{target="https://new.example.test/",pending="no"} 1"#,
        r#"parallax_target_vantages{target="http://shop-07.example.test/",state="failing"} 3"#,
        r#"parallax_target_vantages{target="http://shop-07.example.test/",state="unknown"} 0"#,
        r#"parallax_vantages{state="reporting"} 6"#,
        r#"parallax_vantages{state="silent"} 0"#,
        "parallax_round_seconds 5",
        "parallax_unexplained_failures 0",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(text.matches("parallax_target_never_ok{").count(), 1);
    let text = scene(fixtures::troubled(), &[]).text();
    assert!(text.contains(r#"parallax_vantages{state="silent"} 1"#), "{text}");
    assert!(
        !text.contains("i-77aa01ff"),
        "a closed incident has no series\n{text}"
    );
}

#[test]
fn a_silent_vantage_leads_to_the_incident_that_explains_its_silence() {
    let mut view = fixtures::outage();
    assert!(
        !scene(view.clone(), &[])
            .text()
            .contains("parallax_vantage_incident{")
    );
    view.vantages[0].explained_by = Some("i-5f3a9c01".to_owned());
    let line = format!(
        r#"parallax_vantage_incident{{vantage="{}",incident="i-5f3a9c01"}} 1"#,
        view.vantages[0].vantage
    );
    let text = scene(view, &[]).text();
    assert!(text.contains(&line), "{line}\n{text}");
}

#[test]
fn the_likelier_of_two_incidents_is_exposed() {
    let mut view = fixtures::outage();
    let mut other = view.incidents[0].clone();
    other.id = "i-less-likely".to_owned();
    other.verdict.probability = parallax_model::Probability::new(0.5).unwrap();
    view.incidents.insert(0, other);
    let text = scene(view, &[]).text();
    let of_target = |line: &&str| line.starts_with(r#"parallax_target_incident{target="http://shop-07"#);
    let lines: Vec<_> = text.lines().filter(of_target).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("i-5f3a9c01"), "{lines:?}");
}

#[tokio::test]
async fn the_handling_of_an_incident_is_a_label() {
    let harness = scene(fixtures::outage(), &[]);
    let done = harness.handling.acknowledge("i-5f3a9c01", "dana", None).await;
    assert!(done.is_ok(), "{done:?}");
    let text = harness.text();
    assert!(text.contains(r#"action="acknowledged"} 1"#), "{text}");
    assert!(!text.contains(r#"action="none"}"#), "{text}");
}
