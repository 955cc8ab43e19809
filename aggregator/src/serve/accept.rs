//! Content negotiation of `/metrics`.

/// Length-delimited protobuf.
pub(super) const PROTOBUF_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// `OpenMetrics` text.
pub(super) const TEXT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Reports whether an `Accept` header prefers protobuf. Text wins a tie because people can read it.
pub(super) fn prefers_protobuf(accept: &str) -> bool {
    let mut protobuf = 0.0_f64;
    let mut text = 0.0_f64;
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let mut weight = 1.0;
        let mut delimited = false;
        for parameter in parts {
            match parameter.split_once('=') {
                Some(("q", q)) => weight = q.parse().unwrap_or(0.0),
                Some(("encoding", "delimited")) => delimited = true,
                _ => {}
            }
        }
        match media.as_str() {
            "application/vnd.google.protobuf" if delimited => protobuf = protobuf.max(weight),
            "application/openmetrics-text" | "text/plain" => text = text.max(weight),
            _ => {}
        }
    }
    protobuf > text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_protobuf_only_where_it_ranks_it_first() {
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                      application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert!(prefers_protobuf(native));
        let classic = "application/openmetrics-text;version=1.0.0;q=0.6,\
                       application/vnd.google.protobuf;encoding=delimited;q=0.5,*/*;q=0.1";
        assert!(!prefers_protobuf(classic));
        assert!(!prefers_protobuf(""));
        assert!(!prefers_protobuf("text/html,*/*;q=0.8"));
    }
}
