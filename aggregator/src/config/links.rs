//! `links`: addresses of Grafana and of the page.

use parallax_api::links::{ExternalLinks, parse_base_url};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawLinks {
    grafana: Option<String>,
    page: Option<String>,
}

/// Returns the valid links; reports invalid fields to `wrong`.
pub(super) fn validate(raw: RawLinks, wrong: &mut impl FnMut(&str, String)) -> ExternalLinks {
    let mut read = |field: &str, text: Option<String>| {
        parse_base_url(&text?).map_err(|reason| wrong(field, reason)).ok()
    };
    ExternalLinks {
        grafana: read("links.grafana", raw.grafana),
        page: read("links.page", raw.page),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_none_is_refused() {
        for wrong in [
            "grafana.example.test",
            "ftp://grafana.example.test/",
            "https://grafana.example.test/?orgId=1",
            "",
        ] {
            let mut complaints = Vec::new();
            let raw = RawLinks {
                grafana: Some(wrong.to_owned()),
                page: None,
            };
            validate(raw, &mut |field, message| {
                complaints.push(format!("{field}: {message}"));
            });
            assert_eq!(complaints.len(), 1, "{wrong}");
            assert!(
                complaints[0].starts_with("links.grafana: expected an address"),
                "{complaints:?}"
            );
        }
    }
}
