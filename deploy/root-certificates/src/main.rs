//! Writes Mozilla's root certificates as PEM to standard output, for the container image. They come from a crate of a locked
//! version, so an image does not depend on the machine that builds it.

use std::io::{self, BufWriter, Write};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// Characters of a line of PEM (RFC 7468).
const LINE_LENGTH: usize = 64;

fn main() -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for certificate in TLS_SERVER_ROOT_CERTS {
        let text = STANDARD.encode(certificate);
        writeln!(out, "-----BEGIN CERTIFICATE-----")?;
        for line in text.as_bytes().chunks(LINE_LENGTH) {
            out.write_all(line)?;
            writeln!(out)?;
        }
        writeln!(out, "-----END CERTIFICATE-----")?;
    }
    out.flush()
}
