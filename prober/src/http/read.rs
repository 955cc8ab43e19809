//! Reading an answer: bounded in what is kept, in what is read, and in time.

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use parallax_model::{FailureKind, Phase};

use super::{Exchange, KEPT, READ, driver::Driver};
use crate::{
    classify::Stop,
    clock::{Deadline, Passed},
};

/// Reads to the end or to the bound. Nothing is ever decompressed: a bomb stays as small as it travelled.
pub(super) async fn read<C>(
    mut body: Incoming,
    driver: &mut Driver<'_, C>,
    deadline: Deadline,
    most: Option<u64>,
    result: &mut Exchange,
    explain: impl Fn(&Driver<'_, C>, &hyper::Error) -> Stop,
) -> Result<(), Stop>
where
    C: Future<Output = hyper::Result<()>>,
{
    // An announced size is believed, so that nothing of it need be read.
    within(body.size_hint().lower(), most)?;
    while most.is_some() || result.read < READ {
        let frame = match deadline.bound(driver.drive(body.frame())).await {
            Err(Passed) => return Err(Stop::timeout(Phase::Body)),
            Ok(None) => return Ok(()),
            Ok(Some(Err(error))) => return Err(explain(driver, &error)),
            Ok(Some(Ok(frame))) => frame,
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
