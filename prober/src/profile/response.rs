//! How much of a response a client reads, and when the response is correct. Pure.

use http::{header, response::Parts};
use parallax_model::{FailureKind, Phase};

use super::{
    Profile,
    gzip::{MAX_CONTENT, decompress},
};
use crate::{
    failure::EarlyEnd,
    http::{BodyReading, MAX_KEPT},
    redirect::{REDIRECT_STATUSES, location},
};

/// Bytes of a redirect's body that Go reads before it follows the redirect.
const REDIRECT_BODY: u64 = 2 << 10;

/// Returns how much of a body is read.
pub(super) fn body_reading(profile: &Profile, head: &Parts) -> BodyReading {
    if REDIRECT_STATUSES.contains(&head.status.as_u16()) && location(head).is_some() {
        return BodyReading::Skimmed(REDIRECT_BODY);
    }
    if head.status != 200 && !profile.body.read_before_status {
        return BodyReading::Nothing;
    }
    match profile.body.max {
        // The size is known only after decompression.
        Some(_) if compressed(profile, head) => BodyReading::Upto(MAX_KEPT as u64),
        Some(most) => BodyReading::Upto(most + 1),
        None => BodyReading::Upto(MAX_CONTENT),
    }
}

/// Returns the content as the client sees it, decompressed.
pub(super) fn content(profile: &Profile, head: &Parts, kept: Vec<u8>) -> Result<Vec<u8>, EarlyEnd> {
    if !compressed(profile, head) || kept.is_empty() {
        return Ok(kept);
    }
    decompress(profile, &kept).map_err(|error| {
        EarlyEnd::new(Phase::Body, FailureKind::BodyCut).with_detail(format!("gzip: {error}"))
    })
}

fn compressed(profile: &Profile, head: &Parts) -> bool {
    profile.gzip
        && head
            .headers
            .get(header::CONTENT_ENCODING)
            .is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

/// Checks a complete response. `whole` says that the content contains all bytes received.
pub(super) fn check_response(
    profile: &Profile,
    status: u16,
    content: &[u8],
    whole: bool,
    expected: &str,
) -> Result<(), EarlyEnd> {
    let failed = |kind| EarlyEnd::new(Phase::Check, kind);
    if status != 200 {
        return Err(failed(FailureKind::Status));
    }
    if let Some(most) = profile.body.max
        && content.len() as u64 > most
    {
        return Err(
            failed(FailureKind::BodyTooLarge).with_detail(format!("at most {most} bytes are allowed"))
        );
    }
    let right = whole
        && std::str::from_utf8(content).is_ok_and(|content| profile.body.trim.apply(content) == expected);
    if right {
        Ok(())
    } else {
        Err(failed(FailureKind::WrongBody))
    }
}
