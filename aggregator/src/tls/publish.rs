//! Publishes the CA certificate in `ConfigMaps` of the manifests, which the kubelets mount into the prober Pods.

use std::{collections::BTreeMap, time::Duration};

use kube::api::PostParams;
use parallax_api::installation::CaPublication;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::tls::TlsMetrics;
use parallax_kubernetes::{
    api_client::ApiClient,
    config_map::{self, ConfigMapError, with_timeout},
    object_key::ObjectKey,
};

/// Key in the `ConfigMap` and name of the mounted file.
pub(crate) const CA_FILE: &str = "ca.crt";

/// Maximum number of CA certificates in the bundle: this aggregator's, the other replica's, those of two Pods being
/// replaced, and a few more. The keys of earlier CAs no longer exist, so keeping their certificates is harmless.
const MAX_BUNDLE_CERTIFICATES: usize = 6;

/// Interval between checks that the certificate is still published.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const MAX_RETRY: Duration = Duration::from_secs(30);
/// Timeout of a request to the API server.
const API_SERVER_TIMEOUT: Duration = Duration::from_secs(10);

const PEM_END: &str = "-----END CERTIFICATE-----";

/// Publishes the CA certificate in `ConfigMaps`.
#[derive(Debug)]
pub(crate) struct CaPublisher {
    pub(crate) client: ApiClient,
    pub(crate) certificate: String,
    pub(crate) config_maps: Vec<ObjectKey>,
    pub(crate) metrics: TlsMetrics,
    /// Receives the result of each attempt.
    pub(crate) state: watch::Sender<CaPublication>,
}

impl CaPublisher {
    /// Publishes the certificate and checks it regularly until cancelled.
    pub(crate) async fn run(self, cancelled: CancellationToken) {
        let mut retry = FIRST_RETRY;
        let mut logged = BTreeMap::new();
        loop {
            let mut failing = false;
            let mut state = CaPublication::Published {
                config_maps: self.config_maps.iter().map(ToString::to_string).collect(),
            };
            for place in &self.config_maps {
                let done = tokio::select! {
                    () = cancelled.cancelled() => return,
                    done = self.publish(place) => done,
                };
                match done {
                    Ok(changed) => {
                        if changed || logged.remove(place).is_some() {
                            tracing::info!(configmap = %place, "published the CA of this aggregator");
                        }
                    }
                    Err(error) => {
                        failing = true;
                        let text = error.to_string();
                        state = CaPublication::Failing {
                            config_map: place.to_string(),
                            reason: text.clone(),
                        };
                        if logged.get(place) != Some(&text) {
                            tracing::warn!(configmap = %place, reason = %text, "cannot publish the CA of this aggregator, so probers do not trust it; retrying");
                            logged.insert(place.clone(), text);
                        }
                    }
                }
            }
            self.metrics.set_ca_unpublished(failing);
            self.state.send_replace(state);
            let wait = if failing { retry } else { CHECK_INTERVAL };
            retry = if failing {
                (retry * 2).min(MAX_RETRY)
            } else {
                FIRST_RETRY
            };
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Adds this aggregator's certificate if it is missing; returns whether it was.
    async fn publish(&self, place: &ObjectKey) -> Result<bool, ConfigMapError> {
        let api = config_map::api(&self.client, place);
        let name = place.name.as_str();
        let mut map = with_timeout(API_SERVER_TIMEOUT, "read it; apply the manifests", api.get(name)).await?;
        let data = map.data.get_or_insert_default();
        let before = data.get(CA_FILE).map_or("", String::as_str);
        // At any position, so that two aggregators do not keep moving theirs to the front.
        if certificate_blocks(before).any(|block| block == self.certificate.trim()) {
            return Ok(false);
        }
        let after = bundle(before, &self.certificate);
        data.insert(CA_FILE.to_owned(), after);
        // The resource version of the read keeps two aggregators from overwriting each other.
        with_timeout(
            API_SERVER_TIMEOUT,
            "change it; apply the manifests",
            api.replace(name, &PostParams::default(), &map),
        )
        .await?;
        Ok(true)
    }
}

/// Returns the new bundle: this aggregator's certificate, followed by the existing ones.
fn bundle(before: &str, own: &str) -> String {
    let own = own.trim();
    let mut text = String::new();
    let others = certificate_blocks(before).filter(|block| *block != own);
    for block in std::iter::once(own).chain(others).take(MAX_BUNDLE_CERTIFICATES) {
        text.push_str(block);
        text.push('\n');
    }
    text
}

/// Returns the certificates of a PEM text; ignores everything else.
fn certificate_blocks(pem: &str) -> impl Iterator<Item = &str> {
    pem.split_inclusive(PEM_END)
        .filter_map(|block| {
            block
                .find("-----BEGIN CERTIFICATE-----")
                .map(|start| &block[start..])
        })
        .filter(|block| block.ends_with(PEM_END))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(word: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{word}\n{PEM_END}\n")
    }

    #[test]
    fn ours_comes_first_and_former_ones_stay_for_a_while() {
        let mut text = String::new();
        for word in ["a", "b", "c", "d", "e", "f", "g"] {
            text = bundle(&text, &pem(word));
        }
        assert_eq!(text, ["g", "f", "e", "d", "c", "b"].map(pem).concat());
        assert_eq!(
            bundle(&text, &pem("c")),
            ["c", "g", "f", "e", "d", "b"].map(pem).concat()
        );
    }

    #[test]
    fn what_is_no_certificate_is_dropped() {
        assert_eq!(
            bundle("nonsense\n-----BEGIN CERTIFICATE-----\ncut", &pem("a")),
            pem("a")
        );
        assert_eq!(
            bundle(&format!("# note\n{}", pem("b")), &pem("a")),
            [pem("a"), pem("b")].concat()
        );
    }
}
