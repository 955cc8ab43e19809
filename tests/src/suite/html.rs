//! The HTML report: a self-contained file for readers who decide whether to trust the tool. Pure.

use std::{
    fmt::{self, Write},
    time::Duration,
};

use parallax_test_support::html::HtmlEscaped;

use crate::{conductor::Report, preflight::ReportedPreflight};

/// Renders the whole page.
pub(super) fn page(reports: &[Report], took: Duration) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut text, reports, took);
    text
}

fn write_page(text: &mut String, reports: &[Report], took: Duration) -> fmt::Result {
    let good = reports.iter().filter(|report| report.ok).count();
    text.push_str(HEAD);
    write!(
        text,
        "<h1>{good} of {} incidents as expected</h1>\n<p>Each ran with real forwarding and real servers in a separate \
         machine or separate namespaces. The shipped <code>parallax prober</code> probed from every node, and the shipped \
         <code>parallax aggregator</code> judged the results. An ordinary client, which shares no code with them, verified \
         before and after the fault that the packets behave as the incident describes. {:.0} minutes in total.</p>\n",
        reports.len(),
        (took.as_secs_f64() / 60.0).ceil()
    )?;
    text.push_str(
        "<table>\n<tr><th></th><th>Incident</th><th>Expected</th><th>Named</th><th>Probability</th>\
         <th>Seconds to name</th></tr>\n",
    );
    for report in reports {
        writeln!(
            text,
            "<tr class=\"{}\"><td>{}</td><td><a href=\"#{id}\">{id}</a><br>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>",
            if report.ok { "good" } else { "bad" },
            if report.ok { "✓" } else { "✗" },
            HtmlEscaped(&report.title),
            HtmlEscaped(&report.expected),
            HtmlEscaped(&named(report)),
            report
                .probability
                .map_or(String::new(), |probability| format!("{probability:.4}")),
            report
                .seconds_after_fault
                .map_or(String::new(), |seconds| format!("{seconds:.1}")),
            id = HtmlEscaped(&report.id),
        )?;
    }
    text.push_str("</table>\n");
    for report in reports {
        section(text, report)?;
    }
    text.push_str("</body></html>\n");
    Ok(())
}

fn named(report: &Report) -> String {
    match (&report.problem, &report.cause, &report.region) {
        (Some(_), ..) => "not as expected".to_owned(),
        (None, Some(cause), Some(region)) => format!("{cause} ({region})"),
        (None, ..) if report.sentences.is_empty() => "nothing".to_owned(),
        (None, ..) => "shown".to_owned(),
    }
}

fn section(text: &mut String, report: &Report) -> fmt::Result {
    writeln!(
        text,
        "<h2 id=\"{id}\">{id}: {}</h2>",
        HtmlEscaped(&report.title),
        id = HtmlEscaped(&report.id)
    )?;
    if let Some(problem) = &report.problem {
        writeln!(text, "<p class=\"bad\">{}</p>", HtmlEscaped(problem))?;
    }
    if let Some(alarms) = report.describe_alerts() {
        writeln!(text, "<p>{}</p>", HtmlEscaped(&alarms))?;
    }
    if let Some(instead) = &report.substitute {
        writeln!(text, "<p>{}</p>", HtmlEscaped(instead))?;
    }
    for sentence in &report.sentences {
        writeln!(text, "<blockquote>{}</blockquote>", HtmlEscaped(sentence))?;
    }
    if !report.evidence.is_empty() {
        text.push_str("<table><tr><th>Clients and channel</th><th>failed</th><th>probes</th></tr>\n");
        for (clients, failures, probes) in &report.evidence {
            writeln!(
                text,
                "<tr><td>{}</td><td>{failures}</td><td>{probes}</td></tr>",
                HtmlEscaped(clients)
            )?;
        }
        text.push_str("</table>\n");
    }
    for preflight in &report.preflights {
        self::preflight(text, preflight)?;
    }
    if let Some(client) = &report.packets_of {
        writeln!(
            text,
            "<p>Packets of one connection of the ordinary client on {} after the fault, as captured by tcpdump:</p>\n<pre>",
            HtmlEscaped(client)
        )?;
        for packet in &report.packets {
            writeln!(text, "{}", HtmlEscaped(packet))?;
        }
        text.push_str("</pre>\n");
    }
    Ok(())
}

/// Renders the results of `parallax preflight` from all vantages.
fn preflight(text: &mut String, shown: &ReportedPreflight) -> fmt::Result {
    let after = shown.seconds_after_route.map_or(String::new(), |after| {
        format!(", {after:.1} after the route existed")
    });
    writeln!(
        text,
        "<h3>Preflight, {}</h3>\n<p><code>{}</code>: exit code {} after {:.1} seconds{after}</p>",
        HtmlEscaped(&shown.name),
        HtmlEscaped(&shown.command),
        shown.exit,
        shown.seconds
    )?;
    for sentence in &shown.sentences {
        writeln!(text, "<blockquote>{}</blockquote>", HtmlEscaped(sentence))?;
    }
    text.push_str("<table><tr><th>Vantage</th><th>Placement</th><th>Self check</th><th>CA</th></tr>\n");
    for row in &shown.table {
        text.push_str("<tr>");
        for cell in row {
            write!(text, "<td>{}</td>", HtmlEscaped(cell))?;
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
    for (heading, lines) in [
        ("Not checked", &shown.not_checked),
        ("Not exercised by the lab", &shown.not_exercised),
    ] {
        if !lines.is_empty() {
            write!(text, "<p>{heading}:</p>\n<ul>")?;
            for line in lines {
                write!(text, "<li>{}</li>", HtmlEscaped(line))?;
            }
            text.push_str("</ul>\n");
        }
    }
    Ok(())
}

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Parallax: the incident lab</title>\n\
<style>\nbody{font:16px/1.45 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}\n\
table{border-collapse:collapse;margin:1em 0}td,th{text-align:left;vertical-align:top;padding:.3em .7em;border-bottom:1px solid #ddd}\n\
pre{background:#f4f4f4;padding:.7em;overflow-x:auto;font-size:13px}blockquote{margin:.6em 0;padding:.2em 1em;border-left:4px solid #888}\n\
.bad td:first-child,p.bad{color:#b00020}.good td:first-child{color:#0a7d32}\n</style></head><body>\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ok: bool) -> Report {
        serde_json::from_value(serde_json::json!({
            "id": "i1", "title": "refused <where>", "ok": ok, "expected": "F1 (nolocal)", "seconds": 42.0,
            "seconds_after_fault": 10.6, "region": "nolocal", "cause": "F1", "probability": 0.9876,
            "problem": if ok { None } else { Some("at the deadline: no verdict") },
            "sentences": ["refused & dropped"], "evidence": [["through the front", 4, 4]],
            "packets": ["IP 10.244.3.5 > 203.0.113.10: Flags [S]"], "packets_of": "n3",
            "preflights": [{"name": "then", "command": "parallax preflight", "exit": 1, "seconds": 1.25, "seconds_after_route": 0.5,
                "sentences": ["self check, failed: <b>"], "table": [["n3/pod", "no-local", "✗ refused", "✓ 200"]],
                "not_checked": ["DNSSEC"], "not_exercised": ["a Gateway"]}],
        }))
        .unwrap()
    }

    #[test]
    fn the_page_shows_what_was_named_how_sure_how_soon_and_the_packets_and_escapes_all_of_it() {
        let page = page(&[report(true)], Duration::from_secs(61));
        for words in [
            "1 of 1 incidents",
            "F1 (nolocal)",
            "0.9876",
            "10.6",
            "10.244.3.5 &gt; 203.0.113.10",
            "refused &lt;where&gt;",
            "refused &amp; dropped",
            "2 minutes",
            "exit code 1 after 1.2 seconds, 0.5 after the route existed",
            "self check, failed: &lt;b&gt;",
            "<td>n3/pod</td><td>no-local</td><td>✗ refused</td><td>✓ 200</td>",
            "<li>DNSSEC</li>",
            "<li>a Gateway</li>",
        ] {
            assert!(page.contains(words), "{words}");
        }
    }

    #[test]
    fn what_is_not_as_expected_says_why_and_claims_no_name() {
        let page = page(&[report(true), report(false)], Duration::ZERO);
        assert!(page.contains("1 of 2 incidents"));
        assert!(page.contains("at the deadline: no verdict"));
        assert!(page.contains("<td>not as expected</td>"));
    }
}
