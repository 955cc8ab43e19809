//! Generated servers: statuses, bodies, redirect graphs, address sets, response codes and delays.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use anyhow::{Context, ensure};
use parallax_acme_conformance::{
    namespace::run_in_namespace,
    scenario::{
        ConnectionAction, FamilyAnswers, Framing, HttpAnswer, LookupFailure, Scenario, ScriptedAnswer, Tls,
        WebServerSpec,
    },
    verdict::Verdict,
    world::{OrderedName, ScenarioVerdicts, TestEnvironment},
};
use parallax_model::{FailureKind, Outcome};
use parallax_prober::DialOutcome;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngSeed, TestRunner},
};
use tokio::task::JoinSet;

use crate::agreement::disagreement;

/// Number of cases, unless `PARALLAX_ACME_CASES` is set.
const CASES: usize = 400;

/// Maximum number of attempts to shrink a disagreeing case.
const MAX_SHRINK_ATTEMPTS: usize = 40;

fn content() -> impl Strategy<Value = String> {
    let tail = prop::sample::select(vec![
        "", "\n", "\r\n", "\t\n\r", " ", "\n ", "x", "\u{b}", "\u{a0}",
    ]);
    prop_oneof![
        6 => Just("{key}".to_owned()),
        3 => tail.prop_map(|tail| format!("{{key}}{tail}")),
        1 => (0..60_usize).prop_map(|more| format!("{{key}}{}", "\n".repeat(more))),
        1 => "[ -~]{0,140}".prop_map(|text| text.replace(['{', '}'], "-")),
        1 => Just("{token}".to_owned()),
    ]
}

fn framing() -> impl Strategy<Value = Framing> {
    prop_oneof![
        6 => Just(Framing::Length),
        2 => Just(Framing::Chunked),
        2 => Just(Framing::Close),
        1 => Just(Framing::Short),
    ]
}

fn location() -> impl Strategy<Value = String> {
    let host = prop::sample::select(vec![
        "{name}",
        "{name}",
        "www.{name}",
        "WWW.{name}",
        "nobody.{name}",
        "{own1.4}",
        "{own2.4}",
        "{own1.6}",
        "{reserved1.4}",
        "{name}.well-known",
        "internal",
        "",
    ]);
    let port = prop::sample::select(vec!["", "", "", "", ":80", ":443", ":8080"]);
    let path = prop::sample::select(vec!["{path}", "/a", "/b", "/c?d=e", "/{long}", ""]);
    let scheme = prop_oneof![
        6 => Just("http://"), 3 => Just("https://"), 1 => Just("//"), 1 => Just("ftp://")
    ];
    prop_oneof![
        2 => path.clone().prop_map(str::to_owned),
        3 => (scheme, host, port, path)
            .prop_map(|(scheme, host, port, path)| format!("{scheme}{host}{port}{path}")),
    ]
}

fn answer() -> impl Strategy<Value = HttpAnswer> {
    let status = prop_oneof![
        8 => Just(200),
        1 => prop::sample::select(vec![201, 206, 299, 400, 401, 403, 404, 418, 429, 500, 502, 503, 599]),
    ];
    let late = prop_oneof![9 => Just(0), 1 => 1..1500_u64];
    let plain = (
        status,
        content(),
        framing(),
        prop::bool::weighted(0.1),
        late.clone(),
    )
        .prop_map(|(status, content, framing, gzip, late_ms)| HttpAnswer {
            status,
            content,
            location: None,
            framing,
            gzip,
            second_member: None,
            late_ms,
        });
    let code = prop_oneof![
        8 => prop::sample::select(vec![301, 302, 307, 308]),
        1 => Just(303),
        1 => prop::sample::select(vec![300, 304, 305]),
    ];
    let redirect = (code, prop::option::weighted(0.95, location()), framing()).prop_map(
        |(status, location, framing)| HttpAnswer {
            status,
            content: if status == 304 {
                String::new()
            } else {
                "moved".to_owned()
            },
            location,
            framing,
            ..HttpAnswer::default()
        },
    );
    prop_oneof![3 => plain, 2 => redirect]
}

fn act() -> impl Strategy<Value = ConnectionAction> {
    prop_oneof![
        20 => answer().prop_map(ConnectionAction::Answer),
        2 => (1..14_u16).prop_map(ConnectionAction::Chain),
        1 => Just(ConnectionAction::Close),
        1 => Just(ConnectionAction::Reset),
        1 => Just(ConnectionAction::ResetOnAccept),
        1 => "[ -~\r\n]{1,40}".prop_map(|text| ConnectionAction::Raw(text.replace(['{', '}'], "-"))),
        1 => (0..60_usize).prop_map(|cut| {
            ConnectionAction::ResetAfter("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nhello"[..cut.min(42)].to_owned())
        }),
    ]
}

fn web(at: &'static [&'static str]) -> impl Strategy<Value = WebServerSpec> {
    let at = prop::sample::subsequence(at, 1..=at.len());
    let speaks = prop_oneof![
        8 => Just((80, Tls::No)),
        4 => Just((443, Tls::Untrusted)),
        1 => Just((443, Tls::No)),
        1 => Just((443, Tls::Alert)),
        1 => Just((8080, Tls::No)),
    ];
    let paths = prop::collection::btree_map(
        prop::sample::select(vec!["/a", "/b", "/c?d=e", "/{long}", "/"]).prop_map(str::to_owned),
        act(),
        0..4,
    );
    (at, speaks, act(), paths).prop_map(|(at, (port, tls), challenge, paths)| WebServerSpec {
        at: at.into_iter().map(str::to_owned).collect(),
        port,
        tls,
        challenge,
        paths,
    })
}

fn said(none: u32) -> impl Strategy<Value = ScriptedAnswer> {
    let some = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let addresses = prop_oneof![
        8 => Just(some(&["own1"])),
        1 => Just(some(&["own1", "own2"])),
        1 => Just(some(&["own2", "own1"])),
        1 => Just(some(&["reserved1"])),
        1 => Just(some(&["reserved1", "own1"])),
        1 => Just(some(&["unreachable1"])),
        1 => Just(some(&["own9"])),
    ];
    prop_oneof![
        16 => addresses.clone().prop_map(ScriptedAnswer::Addresses),
        none => Just(ScriptedAnswer::Failure(LookupFailure::None)),
        1 => prop::sample::select(vec![LookupFailure::Nxdomain, LookupFailure::Servfail, LookupFailure::Refused]).prop_map(ScriptedAnswer::Failure),
        1 => (1..900_u64, addresses).prop_map(|(late_ms, addresses)| ScriptedAnswer::Late { late_ms, addresses }),
    ]
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let family = || (said(3), said(30)).prop_map(|(a, aaaa)| FamilyAnswers { a, aaaa });
    let servers = (
        web(&["own1.4", "own1.6", "own2.4", "reserved1.4"]),
        prop::collection::vec(web(&["own1.4", "own1.6", "own2.4", "own2.6"]), 0..3),
    );
    (family(), prop::option::of(family()), servers).prop_map(|(own, www, (first, mut more))| {
        // Nearly all of them serve the challenge's own port; the first server of an address and port wins.
        more.insert(
            0,
            WebServerSpec {
                port: 80,
                tls: Tls::No,
                ..first
            },
        );
        let mut taken = Vec::new();
        for web in &mut more {
            web.at.retain(|at| {
                let free = !taken.contains(&(at.clone(), web.port));
                taken.push((at.clone(), web.port));
                free
            });
        }
        Scenario {
            name: "generated".to_owned(),
            a: own.a,
            aaaa: own.aaaa,
            names: www
                .map(|www| BTreeMap::from([("www".to_owned(), www)]))
                .unwrap_or_default(),
            web: more,
            pebble: None,
            boulder: None,
        }
    })
}

/// Reports whether a difference between the two profiles is a known one, based on what they observed.
fn is_known_difference(scenario: &Scenario, judged: &ScenarioVerdicts) -> bool {
    let (pebble, boulder) = (judged.as_pebble.verdict, judged.as_boulder.verdict);
    let kind = |outcome: &Outcome| match outcome {
        Outcome::Failed { kind, .. } => Some(kind.clone()),
        _ => None,
    };
    let by_boulder = kind(&judged.boulder_result.outcome);
    let by_pebble = kind(&judged.pebble_result.outcome);
    let text = format!("{scenario:?}");
    let dns = boulder == Verdict::Dns && (pebble == Verdict::Connection || text.contains("reserved"));
    let refused = matches!(
        by_boulder,
        Some(FailureKind::RedirectRefused | FailureKind::RedirectLoop | FailureKind::BodyTooLarge)
    );
    // If a connection fails, the first host's IPv4 address is tried next, starting again from the first URL.
    let fallback = judged
        .boulder_result
        .dials
        .iter()
        .rev()
        .skip(1)
        .any(|dial| dial.outcome != DialOutcome::Connected);
    let count = by_pebble == Some(FailureKind::RedirectTooMany);
    let space = by_pebble == Some(FailureKind::WrongBody) && boulder == Verdict::Valid;
    let broken = pebble == Verdict::ServerInternal;
    let alert = boulder == Verdict::Tls && pebble == Verdict::Connection;
    dns || refused || fallback || count || space || broken || alert || text.contains("reserved")
}

async fn disagrees(
    world: &TestEnvironment,
    scenario: &Scenario,
    order: OrderedName,
) -> anyhow::Result<Option<String>> {
    let judged = world.judge(scenario, order).await?;
    let unexplained =
        judged.as_pebble.verdict != judged.as_boulder.verdict && !is_known_difference(scenario, &judged);
    Ok(disagreement(&judged).or_else(|| {
        unexplained.then(|| {
            format!(
                "as Pebble: {}\n    as Boulder: {}, not explained by a known difference",
                judged.as_pebble, judged.as_boulder
            )
        })
    }))
}

#[test]
fn servers_that_nobody_thought_of_are_judged_as_pebble_judges_them() {
    run_in_namespace(
        "generated::servers_that_nobody_thought_of_are_judged_as_pebble_judges_them",
        async || {
            let cases = match std::env::var("PARALLAX_ACME_CASES") {
                Ok(cases) => cases.parse().context("parsing PARALLAX_ACME_CASES as a number")?,
                Err(_) => CASES,
            };
            let seed = match std::env::var("PARALLAX_ACME_SEED") {
                Ok(seed) => seed.parse().context("parsing PARALLAX_ACME_SEED as a number")?,
                Err(_) => 1,
            };
            let begun = Instant::now();
            let mut runner = TestRunner::new(Config {
                rng_seed: RngSeed::Fixed(seed),
                ..Config::default()
            });
            let world = Arc::new(TestEnvironment::start().await?);
            let mut judging = JoinSet::new();
            let mut trees = Vec::new();
            let mut ordered = Vec::new();
            for _ in 0..cases {
                ordered.push(world.order().await?);
            }
            for (case, order) in ordered.into_iter().enumerate() {
                let tree = scenario().new_tree(&mut runner).map_err(anyhow::Error::msg)?;
                let (world, scenario) = (Arc::clone(&world), tree.current());
                trees.push(tree);
                judging.spawn(async move {
                    let ended = disagrees(&world, &scenario, order)
                        .await
                        .with_context(|| format!("{scenario:#?}"))?;
                    anyhow::Ok((case, ended))
                });
            }
            let mut wrong = Vec::new();
            while let Some(ended) = judging.join_next().await {
                let (case, dispute) = ended.context("a case panicked")??;
                wrong.extend(dispute.map(|dispute| (case, dispute)));
            }
            println!(
                "MEASURED {} of {cases} generated cases agree, in {:.0} s (seed {seed})",
                cases - wrong.len(),
                begun.elapsed().as_secs_f64()
            );
            wrong.sort_unstable();
            if let Some((case, _)) = wrong.first() {
                let (smallest, dispute) = shrink(&world, &mut trees[*case]).await?;
                println!("the first of them, shrunk: {smallest:#?}\n    {dispute}");
            }
            let lines: Vec<String> = wrong
                .iter()
                .map(|(case, dispute)| format!("case {case}: {dispute}"))
                .collect();
            ensure!(
                wrong.is_empty(),
                "{} disagree:\n{}",
                wrong.len(),
                lines.join("\n")
            );
            Ok(())
        },
    );
}

/// Shrinks a scenario as long as it still disagrees.
async fn shrink(
    world: &TestEnvironment,
    tree: &mut impl ValueTree<Value = Scenario>,
) -> anyhow::Result<(Scenario, String)> {
    let mut smallest = (tree.current(), "it agrees when it runs alone".to_owned());
    for _ in 0..MAX_SHRINK_ATTEMPTS {
        let moved = match disagrees(world, &tree.current(), world.order().await?).await? {
            Some(dispute) => {
                smallest = (tree.current(), dispute);
                tree.simplify()
            }
            None => tree.complicate(),
        };
        if !moved {
            break;
        }
    }
    Ok(smallest)
}
