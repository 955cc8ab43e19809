//! Serialized form of a checkpoint: JSON, compressed in a `ConfigMap`. Unreadable parts are skipped.

use std::io::{self, Read, Write};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use parallax_diagnosis::{CHECKPOINT_VERSION, Checkpoint};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum size of a document. A mesh of 5 000 nodes and 2 000 targets needs a tenth of it.
pub(super) const MAX_DOCUMENT_BYTES: u64 = 32 << 20;

/// A checkpoint with the echo nonce.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct CheckpointDocument {
    /// The echo nonce, if there is no API object with a UID to derive it from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nonce: Option<String>,
    pub(super) checkpoint: Checkpoint,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EncodedCheckpoint {
    nonce: Option<String>,
    checkpoint: Value,
}

impl CheckpointDocument {
    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads the parts that this version supports.
    ///
    /// # Errors
    /// The value is not a checkpoint document.
    pub(super) fn from_value(value: Value) -> Result<Self, String> {
        let written: EncodedCheckpoint = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let nonce = written.nonce.filter(|nonce| is_nonce(nonce));
        let checkpoint = parse_checkpoint(written.checkpoint);
        Ok(Self { nonce, checkpoint })
    }

    pub(super) fn from_slice(bytes: &[u8]) -> Result<Self, String> {
        let value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Self::from_value(value)
    }

    pub(super) fn to_gzip(&self) -> io::Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        serde_json::to_writer(&mut encoder, self)?;
        encoder.flush()?;
        encoder.finish()
    }

    /// As [`Self::compressed`], in at most `most` bytes. Omits baselines if needed: they are learned again within
    /// minutes.
    pub(super) fn to_gzip_within(&self, most: usize) -> io::Result<Vec<u8>> {
        let whole = self.to_gzip()?;
        if whole.len() <= most {
            return Ok(whole);
        }
        let mut less = self.clone();
        for memory in less.checkpoint.targets.values_mut() {
            memory.baseline = None;
        }
        let rest = less.to_gzip()?;
        if rest.len() <= most {
            tracing::warn!(
                bytes = whole.len(),
                most,
                "the checkpoint is too large; writing it without baselines"
            );
            return Ok(rest);
        }
        Err(io::Error::other(format!(
            "the checkpoint has {} bytes, more than the limit of {most}",
            rest.len()
        )))
    }

    pub(super) fn from_gzip(bytes: &[u8]) -> Result<Self, String> {
        let mut text = Vec::new();
        GzDecoder::new(bytes)
            .take(MAX_DOCUMENT_BYTES)
            .read_to_end(&mut text)
            .map_err(|error| error.to_string())?;
        Self::from_slice(&text)
    }
}

/// Reports whether a text is a valid nonce: 32 to 128 hexadecimal digits, that is at least 128 bits.
fn is_nonce(text: &str) -> bool {
    (32..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Parses a checkpoint and skips entries that cannot be read.
fn parse_checkpoint(value: Value) -> Checkpoint {
    let Value::Object(fields) = value else {
        return Checkpoint::default();
    };
    let version = fields.get("version").and_then(Value::as_u64);
    if version.is_some_and(|version| version != u64::from(CHECKPOINT_VERSION)) {
        tracing::warn!(
            version,
            "the checkpoint was written by another version; restoring the parts that this version supports"
        );
    }
    let mut read = Checkpoint::default();
    for (field, value) in fields {
        let parts = match value {
            // One by one, so that an unreadable entry does not affect the others.
            Value::Array(items) => items.into_iter().map(|item| Value::Array(vec![item])).collect(),
            Value::Object(items) => items
                .into_iter()
                .map(|(key, item)| Value::Object([(key, item)].into_iter().collect()))
                .collect(),
            whole => vec![whole],
        };
        for part in parts {
            let single = Value::Object([(field.clone(), part)].into_iter().collect());
            match serde_json::from_value::<Checkpoint>(single) {
                Ok(part) => read.merge(part),
                Err(error) => {
                    tracing::warn!(field, %error, "cannot read a part of the checkpoint; skipping it");
                }
            }
        }
    }
    read
}
