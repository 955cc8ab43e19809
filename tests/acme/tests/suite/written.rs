//! The hand-written scenarios.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context, ensure};
use parallax_acme_conformance::{
    namespace::run_in_namespace,
    scenario::{Scenario, deltas},
    world::TestEnvironment,
};
use tokio::task::JoinSet;

use crate::agreement::{disagreement, wording_is_the_same};

#[test]
fn every_difference_of_boulder_to_pebble_is_of_the_list_and_each_of_the_list_is_at_work_somewhere() {
    let known: BTreeSet<String> = deltas().unwrap().into_keys().collect();
    let mut at_work = BTreeSet::new();
    for scenario in Scenario::all().unwrap() {
        let Some(differs) = scenario.boulder else { continue };
        assert_ne!(
            Some(differs.verdict),
            scenario.pebble,
            "{}: no difference",
            scenario.name
        );
        assert!(
            !differs.deltas.is_empty(),
            "{}: explained by no difference",
            scenario.name
        );
        at_work.extend(differs.deltas);
    }
    assert_eq!(at_work, known);
}

#[test]
fn every_scenario_ends_as_pebble_ends_it_and_with_boulders_rules_otherwise_only_by_the_list() {
    run_in_namespace(
        "written::every_scenario_ends_as_pebble_ends_it_and_with_boulders_rules_otherwise_only_by_the_list",
        async || {
            let world = Arc::new(TestEnvironment::start().await?);
            let mut judging = JoinSet::new();
            let mut ordered = Vec::new();
            for scenario in Scenario::all()? {
                ordered.push((scenario, world.order().await?));
            }
            for (scenario, order) in ordered {
                let world = Arc::clone(&world);
                judging.spawn(async move {
                    let judged = world
                        .judge(&scenario, order)
                        .await
                        .with_context(|| scenario.name.clone())?;
                    anyhow::Ok((scenario, judged))
                });
            }
            let mut wrong = Vec::new();
            let (mut agreed, mut worded) = (0, 0);
            while let Some(ended) = judging.join_next().await {
                let (scenario, judged) = ended.context("a case panicked")??;
                let expected = scenario.pebble.context("a scenario without verdict")?;
                let of_boulder = scenario
                    .boulder
                    .as_ref()
                    .map_or(expected, |differs| differs.verdict);
                let name = &scenario.name;
                let before = wrong.len();
                if judged.pebble.verdict != expected {
                    wrong.push(format!(
                        "{name}:\n    the table: {expected:?}, Pebble: {}",
                        judged.pebble
                    ));
                }
                wrong.extend(disagreement(&judged).map(|dispute| format!("{name}:\n    {dispute}")));
                if judged.as_boulder.verdict != of_boulder {
                    wrong.push(format!(
                        "{name}:\n    the table: {of_boulder:?}, as Boulder: {}",
                        judged.as_boulder
                    ));
                }
                agreed += usize::from(wrong.len() == before);
                worded += usize::from(wording_is_the_same(&judged));
            }
            println!(
                "MEASURED {agreed} of {} scenarios agree, {worded} of them verbatim",
                agreed + wrong.len()
            );
            ensure!(
                wrong.is_empty(),
                "{} disagree:\n{}",
                wrong.len(),
                wrong.join("\n")
            );
            Ok(())
        },
    );
}
