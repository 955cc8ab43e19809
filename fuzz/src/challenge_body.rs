//! Compressed bodies of responses to ACME challenges. The prober's decoder is private and depends only on the profile, so its file
//! is included here.

use parallax_prober::{ClientProfile, Profile};

use crate::work::bounded_by;

#[path = "../../prober/src/profile/gzip.rs"]
mod gzip;

/// Bytes of a compressed body that the prober keeps.
const MAX_KEPT: usize = 64 * 1024;

/// The clients that accept a compressed body, with the longest content that each of them reads. Boulder reads one byte
/// more than the 127 that it allows.
const CLIENTS: [(ClientProfile, usize); 3] = [
    (ClientProfile::Boulder, 128),
    (ClientProfile::CertManager, 1 << 20),
    (ClientProfile::Pebble, 1 << 20),
];

/// Bytes allocated for each byte of a body and of the longest content. The content doubles its capacity as it grows.
const FACTOR: usize = 4;

/// Decompresses the bytes by the rules of each client.
pub fn check(bytes: &[u8]) {
    let body = &bytes[..bytes.len().min(MAX_KEPT)];
    let [boulder, cert_manager, pebble] = CLIENTS.map(|(client, longest)| {
        let profile = Profile::for_client(client);
        assert!(profile.gzip, "{client:?} accepts no compressed body");
        let work = FACTOR * (body.len() + longest);
        let content = bounded_by(work as u64, || gzip::decompress(&profile, body)).ok();
        let length = content.as_ref().map_or(0, Vec::len);
        assert!(length <= longest, "{client:?}: {length} bytes are kept");
        content
    });
    assert_eq!(cert_manager, pebble, "both have the same limit");
    // A client that reads less may stop before an error, and otherwise reads the same.
    if let Some(content) = pebble {
        let read = &content[..content.len().min(CLIENTS[0].1)];
        assert_eq!(boulder.as_deref(), Some(read));
    }
}
