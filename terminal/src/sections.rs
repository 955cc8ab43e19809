//! Sections shared by incidents and findings.

use std::fmt::Write as _;

use parallax_diagnosis::verdict::Remedy;

use crate::color::ColorMode;

/// Formats remedies with their commands and trade-offs under a heading.
pub(crate) fn write_remedies(out: &mut String, remedies: &[Remedy], style: ColorMode) {
    if remedies.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n  {}", style.paint("1", "remedies"));
    for remedy in remedies {
        let _ = writeln!(out, "  • {}", remedy.action);
        if let Some(command) = &remedy.command {
            let _ = writeln!(out, "      {}", style.paint("36", command));
        }
        let _ = writeln!(out, "      trade-off: {}", remedy.trade_off);
        write_limitation(out, remedy);
    }
}

fn write_limitation(out: &mut String, remedy: &Remedy) {
    if let Some(when) = &remedy.ineffective_when {
        let _ = writeln!(out, "      won't help if {when}");
    }
}

/// Formats lines under a heading; omits the heading if there are no lines.
pub(crate) fn write_list(out: &mut String, title: &str, lines: &[String], style: ColorMode) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n  {}", style.paint("1", title));
    for line in lines {
        let _ = writeln!(out, "  • {line}");
    }
}

/// The plural suffix for a count.
pub(crate) const fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
