//! Reading an answer: bounded in what is kept, in what is read, and in time.

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use parallax_model::{FailureKind, Phase};

use super::{Exchange, KEPT, READ, Reading, driver::Driver};
use crate::{
    classify::Stop,
    clock::{Deadline, Passed},
};

/// Reads what is to be read. Nothing is ever decompressed here: a bomb stays as small as it travelled.
pub(super) async fn read<C>(
    mut body: Incoming,
    driver: &mut Driver<'_, C>,
    deadline: Deadline,
    reading: Reading,
    result: &mut Exchange,
    explain: impl Fn(&Driver<'_, C>, &hyper::Error) -> Stop,
) -> Result<(), Stop>
where
    C: Future<Output = hyper::Result<()>>,
{
    let (most, upto) = match reading {
        // An announced size is believed, so that nothing of it need be read.
        Reading::Whole { most } => {
            within(body.size_hint().lower(), most)?;
            (most, if most.is_some() { u64::MAX } else { READ })
        }
        Reading::Upto(bytes) => (None, bytes),
        Reading::Skimmed(bytes)
            if body
                .size_hint()
                .exact()
                .is_none_or(|announced| announced <= bytes) =>
        {
            (None, bytes)
        }
        Reading::Skimmed(_) | Reading::Nothing => return Ok(()),
    };
    while result.read < upto {
        let frame = match deadline.bound(driver.drive(body.frame())).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return Ok(()),
            _ if matches!(reading, Reading::Skimmed(_)) => return Ok(()),
            Err(Passed) => return Err(Stop::timeout(Phase::Body)),
            Ok(Some(Err(error))) => return Err(explain(driver, &error)),
        };
        if let Some(data) = frame.data_ref() {
            let room = KEPT.saturating_sub(result.kept.len()).min(data.len());
            result.kept.extend_from_slice(&data[..room]);
            result.read += data.len() as u64;
            within(result.read, most)?;
        }
    }
    Ok(())
}

fn within(bytes: u64, most: Option<u64>) -> Result<(), Stop> {
    match most {
        Some(most) if bytes > most => Err(Stop::new(Phase::Body, FailureKind::BodyTooLarge)
            .because(format!("{bytes} bytes or more, at most {most} are allowed"))),
        _ => Ok(()),
    }
}
