//! Series of renewal forecasts. They end with their Certificate.

use std::{collections::BTreeMap, fmt};

use parallax_api::forecasts::{CertificateValidity, ForecastCause, RenewalForecastList};
use parallax_model::EventTime;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};

use super::{families, live::encode_gauges};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ForecastLabels {
    namespace: String,
    certificate: String,
    host: String,
    forecast: &'static str,
    cause: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct CertificateLabels {
    namespace: String,
    certificate: String,
}

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    forecasts: &RenewalForecastList,
) -> Result<(), fmt::Error> {
    let foreseen = forecasts.forecasts.iter().map(|forecast| {
        let labels = ForecastLabels {
            namespace: forecast.namespace.clone(),
            certificate: forecast.certificate.clone(),
            host: forecast.host.clone(),
            forecast: forecast.outlook.label(),
            cause: forecast.cause.map_or("", ForecastCause::label),
        };
        (labels, 1.0)
    });
    encode_gauges(encoder, families::RENEWAL_FORECAST, foreseen.collect())?;
    encode_gauges(
        encoder,
        families::CERTIFICATE_RENEWAL,
        timestamps(&forecasts.certificates, |term| term.renewal),
    )?;
    encode_gauges(
        encoder,
        families::CERTIFICATE_NOT_AFTER,
        timestamps(&forecasts.certificates, |term| term.not_after),
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "whole seconds since 1970 are far below 2^52"
)]
fn timestamps(
    terms: &[CertificateValidity],
    field: fn(&CertificateValidity) -> Option<EventTime>,
) -> BTreeMap<CertificateLabels, f64> {
    let known = terms.iter().filter_map(|term| {
        let labels = CertificateLabels {
            namespace: term.namespace.clone(),
            certificate: term.certificate.clone(),
        };
        Some((labels, field(term)?.0.div_euclid(1_000_000) as f64))
    });
    known.collect()
}
