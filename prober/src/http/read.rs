//! Reads a response body, with bounds on the bytes kept, the bytes read and the time.

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use parallax_model::{FailureKind, Phase};

use super::{BodyReading, Exchange, MAX_KEPT, MAX_READ, driver::ConnectionDriver};
use crate::{
    clock::{Deadline, DeadlineExceeded},
    failure::EarlyEnd,
};

/// Reads the body as requested. Nothing is decompressed here, so that a compression bomb stays small.
pub(super) async fn read<C>(
    mut body: Incoming,
    driver: &mut ConnectionDriver<'_, C>,
    deadline: Deadline,
    reading: BodyReading,
    result: &mut Exchange,
    explain: impl Fn(&ConnectionDriver<'_, C>, &hyper::Error) -> EarlyEnd,
) -> Result<(), EarlyEnd>
where
    C: Future<Output = hyper::Result<()>>,
{
    let (most, upto) = match reading {
        // An announced size beyond the maximum fails without reading the body.
        BodyReading::Whole { most } => {
            check_size(body.size_hint().lower(), most)?;
            (most, if most.is_some() { u64::MAX } else { MAX_READ })
        }
        BodyReading::Upto(bytes) => (None, bytes),
        BodyReading::Skimmed(bytes)
            if body
                .size_hint()
                .exact()
                .is_none_or(|announced| announced <= bytes) =>
        {
            (None, bytes)
        }
        BodyReading::Skimmed(_) | BodyReading::Nothing => return Ok(()),
    };
    while result.bytes_read < upto {
        let frame = match deadline.timeout(driver.drive(body.frame())).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return Ok(()),
            _ if matches!(reading, BodyReading::Skimmed(_)) => return Ok(()),
            Err(DeadlineExceeded) => return Err(EarlyEnd::timeout(Phase::Body)),
            Ok(Some(Err(error))) => return Err(explain(driver, &error)),
        };
        if let Some(data) = frame.data_ref() {
            let appended = MAX_KEPT.saturating_sub(result.kept.len()).min(data.len());
            result.kept.extend_from_slice(&data[..appended]);
            result.bytes_read += data.len() as u64;
            check_size(result.bytes_read, most)?;
        }
    }
    Ok(())
}

fn check_size(bytes: u64, most: Option<u64>) -> Result<(), EarlyEnd> {
    match most {
        Some(most) if bytes > most => Err(EarlyEnd::new(Phase::Body, FailureKind::BodyTooLarge).with_detail(
            format!("it has {bytes} bytes or more, at most {most} are allowed"),
        )),
        _ => Ok(()),
    }
}
