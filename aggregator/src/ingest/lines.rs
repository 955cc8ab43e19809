//! Parses reports: a header line, then one observation per line. A malformed line does not affect the others.

use parallax_model::{Observation, ReportHeader, WIRE_VERSION};
use serde::Deserialize;

/// Maximum length of a line. An observation has a few hundred bytes; its longest fields are limited to a few thousand.
pub(crate) const MAX_LINE_BYTES: usize = 64 * 1024;

/// Maximum number of lines of a report. Probers send two thousand observations at most.
pub(crate) const MAX_LINES: usize = 10_000;

/// A parsed report.
#[derive(Debug)]
pub(crate) struct ReportBatch {
    pub(crate) header: ReportHeader,
    pub(crate) observations: Vec<Observation>,
    /// Number of malformed lines.
    pub(crate) malformed_lines: u64,
}

/// Why a report is rejected as a whole.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReportError {
    #[error("expected a report header in the first line, found an empty body")]
    Empty,
    #[error("the report has more than {MAX_LINES} lines; send smaller reports")]
    TooManyLines,
    #[error("expected a report header in the first line: {0}")]
    Header(String),
    #[error(
        "wire version {0} is not supported (this aggregator supports {WIRE_VERSION} and adjacent versions); upgrade the older side one version at a time"
    )]
    Version(u32),
}

/// Parses a report. Adjacent wire versions are supported in both directions, so a rollout may update probers or
/// aggregator first.
pub(crate) fn parse_report(body: &[u8]) -> Result<ReportBatch, ReportError> {
    #[derive(Deserialize)]
    struct ReportVersion {
        v: u32,
    }
    if body.split(|byte| *byte == b'\n').nth(MAX_LINES + 1).is_some() {
        return Err(ReportError::TooManyLines);
    }
    let mut lines = body
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty());
    let first = lines.next().ok_or(ReportError::Empty)?;
    if first.len() > MAX_LINE_BYTES {
        return Err(ReportError::Header(format!(
            "the line is longer than {MAX_LINE_BYTES} bytes"
        )));
    }
    let unreadable = |error: serde_json::Error| ReportError::Header(error.to_string());
    let ReportVersion { v } = serde_json::from_slice(first).map_err(unreadable)?;
    if v == 0 || v.abs_diff(WIRE_VERSION) > 1 {
        return Err(ReportError::Version(v));
    }
    let header = serde_json::from_slice(first).map_err(unreadable)?;

    let mut batch = ReportBatch {
        header,
        observations: Vec::new(),
        malformed_lines: 0,
    };
    for line in lines {
        let read = (line.len() <= MAX_LINE_BYTES)
            .then(|| serde_json::from_slice::<Observation>(line).ok())
            .flatten();
        match read {
            Some(observation) => batch.observations.push(observation),
            None => batch.malformed_lines += 1,
        }
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = r#"{"v":1,"incarnation":"i","vantage":"n1/pod","sent_us":5}"#;
    const OK: &str = r#"{"seq":1,"t_us":2,"target":"http://a/","channel":"vip","result":"ok","status":200}"#;

    #[test]
    fn a_bad_line_is_counted_and_its_neighbours_are_read() {
        let long = format!(
            r#"{{"seq":3,"t_us":2,"target":"{}"}}"#,
            "x".repeat(MAX_LINE_BYTES)
        );
        let body = format!("{HEADER}\n{OK}\nnot json\n\n{long}\n{{\"seq\":4}}\n{OK}\r\n");
        let batch = parse_report(body.as_bytes()).unwrap();
        assert_eq!((batch.observations.len(), batch.malformed_lines), (2, 3));
    }

    #[test]
    fn a_neighbouring_version_is_understood_and_a_distant_one_is_named() {
        assert!(parse_report(HEADER.replace("\"v\":1", "\"v\":2,\"new\":[1]").as_bytes()).is_ok());
        for v in [0, 3, 900] {
            let header = format!(r#"{{"v":{v},"of another world":true}}"#);
            assert_eq!(
                parse_report(header.as_bytes()).unwrap_err(),
                ReportError::Version(v)
            );
        }
    }

    #[test]
    fn without_a_header_nothing_is_read() {
        assert_eq!(parse_report(b"\n \n").unwrap_err(), ReportError::Empty);
        assert!(matches!(
            parse_report(OK.as_bytes()).unwrap_err(),
            ReportError::Header(_)
        ));
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse_report(&body);
            let mut with_header = HEADER.as_bytes().to_vec();
            with_header.push(b'\n');
            with_header.extend(body);
            prop_assert!(parse_report(&with_header).is_ok());
        }
    }
}
