//! `access` and `runs`: access control for users, and limits of runs.

use std::path::{Path, PathBuf};

use axum::http::{HeaderName, header};
use parallax_runs::RunOptions;
use serde::Deserialize;

use crate::{
    access::{AccessMode, AccessOptions, ProxyOptions},
    hop_headers::HOP_BY_HOP_HEADERS,
    token::BearerToken,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawAccess {
    pub(super) token_file: Option<PathBuf>,
    pub(super) kubernetes: Option<bool>,
    pub(super) proxy: Option<RawProxy>,
    pub(super) open_read: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawProxy {
    pub(super) secret_file: PathBuf,
    pub(super) secret_header: Option<String>,
    pub(super) user_header: Option<String>,
    pub(super) groups_header: Option<String>,
    #[serde(default)]
    pub(super) writers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawRuns {
    pub(super) targets: Option<RawRunTargets>,
    #[serde(default)]
    pub(super) allow: Vec<String>,
    #[serde(default)]
    pub(super) refuse: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawRunTargets {
    /// Known targets only.
    Known,
    /// Any URL.
    Any,
}

pub(super) fn validate_access(
    raw: RawAccess,
    folder: &Path,
    wrong: &mut impl FnMut(&str, String),
) -> Option<AccessOptions> {
    let given = usize::from(raw.token_file.is_some())
        + usize::from(raw.kubernetes == Some(true))
        + usize::from(raw.proxy.is_some());
    if given != 1 {
        wrong(
            "access",
            format!("expected exactly one of tokenFile, kubernetes: true and proxy, found {given}"),
        );
        return None;
    }
    let mode = if let Some(file) = raw.token_file {
        AccessMode::Secret(read_secret("access.tokenFile", &folder.join(file), wrong)?)
    } else if let Some(proxy) = raw.proxy {
        let mut header = |field: &str, given: Option<String>, default: &'static str| {
            let given = given.unwrap_or_else(|| default.to_owned());
            let name = HeaderName::try_from(given.as_str());
            let name = name.ok().filter(|name| !is_reserved(name));
            if name.is_none() {
                wrong(
                    field,
                    format!(
                        "expected a header name that is neither hop-by-hop nor used otherwise (such as host or content-type), found {given:?}"
                    ),
                );
            }
            name
        };
        let secret_header = header(
            "access.proxy.secretHeader",
            proxy.secret_header,
            "x-parallax-proxy-secret",
        );
        let user_header = header("access.proxy.userHeader", proxy.user_header, "x-forwarded-user");
        let groups_header = header(
            "access.proxy.groupsHeader",
            proxy.groups_header,
            "x-forwarded-groups",
        );
        AccessMode::Proxy(ProxyOptions {
            secret: read_secret("access.proxy.secretFile", &folder.join(proxy.secret_file), wrong)?,
            secret_header: secret_header?,
            user_header: user_header?,
            groups_header: groups_header?,
            writers: proxy.writers,
        })
    } else {
        AccessMode::Cluster
    };
    Some(AccessOptions {
        mode,
        open_read: raw.open_read.unwrap_or(false),
    })
}

/// Reports whether a header is hop-by-hop, so that the standby would not forward it, or has another meaning.
fn is_reserved(name: &HeaderName) -> bool {
    let read_by_others = [
        header::HOST,
        header::CONTENT_TYPE,
        header::CONTENT_LENGTH,
        header::ORIGIN,
    ];
    HOP_BY_HOP_HEADERS.contains(name)
        || read_by_others.contains(name)
        || ["parallax-forwarded-by", "sec-fetch-site"].contains(&name.as_str())
}

fn read_secret(field: &str, path: &Path, wrong: &mut impl FnMut(&str, String)) -> Option<BearerToken> {
    BearerToken::read(path)
        .map_err(|message| wrong(field, message))
        .ok()
}

pub(super) fn validate_runs(raw: &RawRuns, wrong: &mut impl FnMut(&str, String)) -> RunOptions {
    let mut ranges = |field: &str, given: &[String]| {
        given
            .iter()
            .enumerate()
            .filter_map(|(i, text)| {
                text.parse()
                    .map_err(|error| wrong(&format!("runs.{field}[{i}]"), format!("{error}")))
                    .ok()
            })
            .collect()
    };
    RunOptions {
        allow_any_target: raw.targets == Some(RawRunTargets::Any),
        allow: ranges("allow", &raw.allow),
        refuse: ranges("refuse", &raw.refuse),
    }
}
