//! Renders two plots as SVG, readable on light and dark pages.

use std::fmt::Write as _;

use super::{
    report::FinishedSet,
    tally::{ReliabilityBin, bins},
};

const STYLE: &str = "<style>\
text{font:12px system-ui,sans-serif;fill:#3c4450}\
.title{font-size:14px;font-weight:600;fill:#1b2028}\
.axis{stroke:#8a93a0;stroke-width:1;fill:none}\
.grid{stroke:#8a93a0;stroke-opacity:.25;stroke-width:1}\
.ideal{stroke:#8a93a0;stroke-dasharray:4 4}\
.line{fill:none;stroke-width:2;stroke-linejoin:round}\
.dot{fill:#2f6fde;fill-opacity:.75;stroke:#fff;stroke-opacity:.6}\
.s0{stroke:#2f6fde}.s1{stroke:#d9622b}.s2{stroke:#2a9d63}.s3{stroke:#9b51c9}\
.t0{fill:#2f6fde}.t1{fill:#d9622b}.t2{fill:#2a9d63}.t3{fill:#9b51c9}\
@media(prefers-color-scheme:dark){text{fill:#b6bec9}.title{fill:#eef1f5}}\
</style>";

/// A rectangle of the plot with a range of values.
struct Panel {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    /// Range of the horizontal values; the vertical ones range from `low` to 1.
    from: f64,
    to: f64,
    low: f64,
}

impl Panel {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (
            self.x + self.width * (x - self.from) / (self.to - self.from),
            self.y + self.height * (1.0 - (y - self.low) / (1.0 - self.low)),
        )
    }

    fn frame(&self, svg: &mut String, title: &str, x_label: &str, ticks: &[f64], y_ticks: &[f64]) {
        let (left, bottom) = (self.x, self.y + self.height);
        for tick in y_ticks {
            let (_, y) = self.at(self.from, *tick);
            let right = left + self.width;
            let _ = write!(
                svg,
                r#"<path class="grid" d="M{left:.1} {y:.1}H{right:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                left - 6.0,
                y + 4.0,
                format_number(*tick)
            );
        }
        for tick in ticks {
            let (x, _) = self.at(*tick, self.low);
            let _ = write!(
                svg,
                r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                bottom + 18.0,
                format_number(*tick)
            );
        }
        let _ = write!(
            svg,
            r#"<path class="axis" d="M{left:.1} {:.1}V{bottom:.1}H{:.1}"/><text class="title" x="{left:.1}" y="{:.1}">{title}</text><text x="{:.1}" y="{:.1}" text-anchor="middle">{x_label}</text>"#,
            self.y,
            left + self.width,
            self.y - 12.0,
            left + self.width / 2.0,
            bottom + 38.0,
        );
    }
}

/// Formats a number without trailing zeros.
fn format_number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn page(width: u32, height: u32, title: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{title}\">{STYLE}{body}</svg>\n"
    )
}

/// Plots confidence against the share that was right: over the whole range, and over the range of typical verdicts.
#[must_use]
pub fn reliability(done: &[FinishedSet]) -> String {
    let findings: Vec<(f64, bool)> = done
        .iter()
        .flat_map(|done| done.tally.confidence.clone())
        .collect();
    let mut body = String::new();
    let whole = Panel {
        x: 50.0,
        y: 40.0,
        width: 300.0,
        height: 300.0,
        from: 0.0,
        to: 1.0,
        low: 0.0,
    };
    let fifths = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
    whole.frame(
        &mut body,
        "share of classes that were right",
        "stated probability",
        &fifths,
        &fifths,
    );
    dots(&mut body, &whole, &bins(&findings, 0.0, 10));
    let close = Panel {
        x: 430.0,
        y: 40.0,
        width: 300.0,
        height: 300.0,
        from: 0.9,
        to: 1.0,
        low: 0.5,
    };
    close.frame(
        &mut body,
        "the same from .9 to 1",
        "stated probability",
        &[0.9, 0.92, 0.94, 0.96, 0.98, 1.0],
        &[0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
    );
    dots(&mut body, &close, &bins(&findings, 0.9, 10));
    page(760, 400, "reliability diagram of verdicts", &body)
}

fn dots(svg: &mut String, panel: &Panel, bins: &[ReliabilityBin]) {
    let (x0, y0) = panel.at(panel.from.max(panel.low), panel.from.max(panel.low));
    let (x1, y1) = panel.at(panel.to, 1.0);
    let _ = write!(
        svg,
        r#"<path class="ideal" d="M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}"/>"#
    );
    for bin in bins {
        if let Some((confidence, right)) = bin.means() {
            let (x, y) = panel.at(confidence, right.max(panel.low));
            let radius = (3.0 + f64::from(bin.n).log10() * 2.5).min(14.0);
            let _ = write!(
                svg,
                r#"<circle class="dot" cx="{x:.1}" cy="{y:.1}" r="{radius:.1}"><title>{} findings, mean confidence {confidence:.3}, right {right:.3}</title></circle>"#,
                bin.n
            );
        }
    }
}

/// Plots the share of observable faults named correctly within a number of rounds.
#[must_use]
pub fn time_to_naming(done: &[FinishedSet]) -> String {
    const SHOWN: [&str; 4] = ["hard-12", "wide-30", "soft-12", "mixed"];
    const ROUNDS: u32 = 24;
    let panel = Panel {
        x: 50.0,
        y: 40.0,
        width: 560.0,
        height: 300.0,
        from: 0.0,
        to: f64::from(ROUNDS),
        low: 0.0,
    };
    let mut body = String::new();
    panel.frame(
        &mut body,
        "share of observable faults named right",
        "rounds since the fault began (5 s each)",
        &[0.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0],
        &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
    );
    // Overlapping labels are moved apart.
    let mut labels: Vec<(f64, usize, &str)> = Vec::new();
    for (i, name) in SHOWN.iter().enumerate() {
        let Some(done) = done.iter().find(|done| done.set.name == *name) else {
            continue;
        };
        let row = &done.tally.all;
        let share = |rounds: f64| {
            let reached = row.rounds.iter().filter(|r| **r <= rounds).count();
            f64::from(u32::try_from(reached).unwrap_or(u32::MAX)) / f64::from(row.observable.max(1))
        };
        let (x, y) = panel.at(0.0, 0.0);
        let mut path = format!("M{x:.1} {y:.1}");
        let mut last = y;
        for step in 1..=ROUNDS * 4 {
            let rounds = f64::from(step) / 4.0;
            let (x, y) = panel.at(rounds, share(rounds));
            let _ = write!(path, "H{x:.1}");
            if (y - last).abs() > 0.05 {
                let _ = write!(path, "V{y:.1}");
                last = y;
            }
        }
        let _ = write!(body, r#"<path class="line s{i}" d="{path}"/>"#);
        labels.push((last, i, name));
    }
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = 0.0_f64;
    for (y, i, name) in labels {
        let y = y.max(free);
        free = y + 15.0;
        let _ = write!(
            body,
            r#"<text class="t{i}" x="618" y="{:.1}">{name}</text>"#,
            y + 4.0
        );
    }
    page(700, 400, "rounds until a fault is named", &body)
}
