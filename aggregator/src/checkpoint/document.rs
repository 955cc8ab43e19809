//! The written form: JSON, in a `ConfigMap` compressed. Whatever part of it cannot be read is left out, the rest counts.

use std::io::{self, Read, Write};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use parallax_diagnosis::{CHECKPOINT_VERSION, Checkpoint};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Largest document that is read. A mesh of 5 000 nodes and 2 000 targets needs a tenth.
pub(super) const MOST_BYTES: u64 = 32 << 20;

/// A checkpoint with what belongs to the same storage.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct CheckpointDocument {
    /// What echoes answer to, where no object of the API server has a uid to derive it from.
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

    /// Reads as much as this version understands; the reason if it is not such a document at all.
    pub(super) fn from_value(value: Value) -> Result<Self, String> {
        let written: EncodedCheckpoint = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let nonce = written.nonce.filter(|nonce| is_nonce(nonce));
        let checkpoint = checkpoint(written.checkpoint);
        Ok(Self { nonce, checkpoint })
    }

    pub(super) fn from_slice(bytes: &[u8]) -> Result<Self, String> {
        let value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Self::from_value(value)
    }

    pub(super) fn compressed(&self) -> io::Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        serde_json::to_writer(&mut encoder, self)?;
        encoder.flush()?;
        encoder.finish()
    }

    /// As [`Self::compressed`], in at most `most` bytes. Baselines are left out first: they are learned again within minutes.
    pub(super) fn compressed_within(&self, most: usize) -> io::Result<Vec<u8>> {
        let whole = self.compressed()?;
        if whole.len() <= most {
            return Ok(whole);
        }
        let mut less = self.clone();
        for memory in less.checkpoint.targets.values_mut() {
            memory.baseline = None;
        }
        let rest = less.compressed()?;
        if rest.len() <= most {
            tracing::warn!(
                bytes = whole.len(),
                most,
                "the checkpoint is kept without baselines: it is too large"
            );
            return Ok(rest);
        }
        Err(io::Error::other(format!(
            "it takes {} bytes and {most} fit",
            rest.len()
        )))
    }

    pub(super) fn decompressed(bytes: &[u8]) -> Result<Self, String> {
        let mut text = Vec::new();
        GzDecoder::new(bytes)
            .take(MOST_BYTES)
            .read_to_end(&mut text)
            .map_err(|error| error.to_string())?;
        Self::from_slice(&text)
    }
}

/// Whether a text is a nonce of ours: at least 128 bits, in digits that a header may carry.
fn is_nonce(text: &str) -> bool {
    (32..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The checkpoint; without the incidents, and then without the fields, that cannot be read.
fn checkpoint(value: Value) -> Checkpoint {
    let Value::Object(fields) = value else {
        return Checkpoint::default();
    };
    let version = fields.get("version").and_then(Value::as_u64);
    if version.is_some_and(|version| version != u64::from(CHECKPOINT_VERSION)) {
        tracing::warn!(
            version,
            "the checkpoint was written by another version; what is understood of it counts"
        );
    }
    let mut read = Checkpoint::default();
    for (field, value) in fields {
        let parts = match value {
            // One by one, so that a single one of another version does not cost the others.
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
                Ok(part) => read.absorb(part),
                Err(error) => {
                    tracing::warn!(field, %error, "a part of the checkpoint cannot be read and is left out");
                }
            }
        }
    }
    read
}
