//! Decompresses a response body. The fuzz target `challenge_body` includes this file, so it uses nothing of the prober
//! except [`Profile`].

use std::io::{self, Read as _};

use flate2::read::MultiGzDecoder;

use super::Profile;

/// The maximum that cert-manager reads; the maxima of the others are smaller or absent.
pub(super) const MAX_CONTENT: u64 = 1024 * 1024;

/// Decompresses a body, up to one byte more than the profile allows: enough to notice that it is too large. Like Go's
/// client, it reads all members of the gzip stream, and fails if something else follows a member.
pub(super) fn decompress(profile: &Profile, compressed: &[u8]) -> io::Result<Vec<u8>> {
    let most = profile.body.max.map_or(MAX_CONTENT, |most| most + 1);
    let mut content = Vec::new();
    MultiGzDecoder::new(compressed)
        .take(most)
        .read_to_end(&mut content)?;
    Ok(content)
}
