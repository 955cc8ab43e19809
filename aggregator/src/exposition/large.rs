//! Size and duration of a scrape of a large mesh.

use std::{io::Write as _, time::Instant};

use flate2::{Compression, write::GzEncoder};
use parallax_diagnosis::{
    ObservationResult,
    view::{CellState, View},
};
use parallax_model::Placement;

use super::tests::{Scene, scene_with};
use parallax_fixtures as fixtures;
use parallax_runtime::metrics::HistogramBuckets;

const TARGETS: usize = 2_000;
/// Vantages that probe a target, of five thousand: ⌈√N⌉ and those with an endpoint.
const VANTAGES_PER_TARGET: usize = 75;

/// Every target with all phases, in three placements, on channels vip and direct, and with a failure.
fn large(buckets: HistogramBuckets) -> Scene {
    let names: Vec<_> = (0..TARGETS)
        .map(|n| format!("https://host-{n:04}.some-team.example.test/healthz"))
        .collect();
    let view = View {
        matrix: names
            .iter()
            .map(|name| {
                let mut row = fixtures::row(
                    name,
                    Some("203.0.113.10:443"),
                    &[CellState::Ok; VANTAGES_PER_TARGET],
                );
                for (cell, placement) in row
                    .cells
                    .iter_mut()
                    .zip([Placement::SameNode, Placement::CrossNode])
                {
                    cell.placement = placement;
                }
                row
            })
            .collect(),
        ..fixtures::healthy()
    };
    let urls: Vec<_> = names.iter().map(String::as_str).collect();
    let harness = scene_with(buckets, view, &urls);
    let times = r#""times":{"resolve_us":1200,"connect_us":900,"tls_us":3100,"first_byte_us":5200,"body_us":90,"total_us":10490}"#;
    for name in &urls {
        for placement in [Placement::SameNode, Placement::CrossNode, Placement::NoLocal] {
            for (channel, result) in [
                ("vip", r#""ok","status":200"#),
                ("direct", r#""ok","status":200"#),
                ("vip", r#""failed","phase":"connect","kind":"refused""#),
            ] {
                let line = format!(
                    r#"{{"seq":1,"t_us":1,"target":"{name}","channel":"{channel}","result":{result},{times}}}"#
                );
                harness.observe(&line, ObservationResult::Accepted { placement });
            }
        }
    }
    harness
}

#[test]
fn a_scrape_of_two_thousand_targets_has_five_megabytes_on_the_wire_at_most() {
    let harness = large(HistogramBuckets::default());
    let begin = Instant::now();
    let text = harness.text();
    let written = begin.elapsed();
    // Compressed, as Prometheus always requests it.
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    let packed = packed.finish().unwrap().len();
    let took = begin.elapsed();
    println!(
        "MEASURED {TARGETS} targets: {} series, {:.1} MB, {:.2} MB packed, written in {written:.2?}, with packing {took:.2?}",
        series(&text),
        bytes(text.len()),
        bytes(packed),
    );
    assert!(packed <= 5_000_000, "{packed}");
    assert!(cfg!(debug_assertions) || took.as_secs_f64() <= 1.0, "{took:?}");
}

fn series(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn without_classic_buckets_two_in_three_series_are_gone() {
    let [all, native] = [HistogramBuckets::ClassicAndNative, HistogramBuckets::Native].map(|buckets| {
        let text = large(buckets).text();
        (series(&text), text.len())
    });
    println!(
        "MEASURED without classic buckets: {} of {} series, {:.1} of {:.1} MB",
        native.0,
        all.0,
        bytes(native.1),
        bytes(all.1)
    );
    assert!(native.0 * 3 <= all.0, "{native:?} of {all:?}");
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn bytes(n: usize) -> f64 {
    n as f64 / 1e6
}
