//! Puts the public part of the CA where the kubelets hand it to the probers: into `ConfigMaps` that the manifests made.

use std::{collections::BTreeMap, time::Duration};

use kube::api::PostParams;
use tokio_util::sync::CancellationToken;

use crate::tls::TlsMetrics;
use parallax_kubernetes::{
    api_client::ApiClient,
    config_map::{self, ConfigMapError, within},
    object_key::ObjectKey,
};

/// The key in the `ConfigMap`; a file of that name where it is mounted.
pub(crate) const FILE: &str = "ca.crt";

/// Authorities kept in the bundle: ours, that of the other aggregator, those of two that are just being replaced, and a
/// few more. Keys of former ones exist no more, so keeping their public parts a while costs nothing.
const KEPT: usize = 6;

/// Looks after what is published; somebody may have removed it.
const LOOK: Duration = Duration::from_mins(1);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// A call that takes longer failed.
const PATIENCE: Duration = Duration::from_secs(10);

const END: &str = "-----END CERTIFICATE-----";

/// Keeps the public part of the CA in some `ConfigMaps`.
#[derive(Debug)]
pub(crate) struct CaPublisher {
    pub(crate) client: ApiClient,
    pub(crate) certificate: String,
    pub(crate) places: Vec<ObjectKey>,
    pub(crate) metrics: TlsMetrics,
}

impl CaPublisher {
    /// Publishes, and looks after it until cancelled.
    pub(crate) async fn run(self, cancelled: CancellationToken) {
        let mut retry = FIRST_RETRY;
        let mut said = BTreeMap::new();
        loop {
            let mut failing = false;
            for place in &self.places {
                let done = tokio::select! {
                    () = cancelled.cancelled() => return,
                    done = self.publish(place) => done,
                };
                match done {
                    Ok(changed) => {
                        if changed || said.remove(place).is_some() {
                            tracing::info!(configmap = %place, "published the CA of this aggregator");
                        }
                    }
                    Err(trouble) => {
                        failing = true;
                        let text = trouble.to_string();
                        if said.get(place) != Some(&text) {
                            tracing::warn!(configmap = %place, reason = %text, "cannot publish the CA of this aggregator, so probers do not trust it; trying again");
                            said.insert(place.clone(), text);
                        }
                    }
                }
            }
            self.metrics.ca_unpublished(failing);
            let wait = if failing { retry } else { LOOK };
            retry = if failing {
                (retry * 2).min(LAST_RETRY)
            } else {
                FIRST_RETRY
            };
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Adds our certificate where it is not; whether it was missing.
    async fn publish(&self, place: &ObjectKey) -> Result<bool, ConfigMapError> {
        let api = config_map::api(&self.client, place);
        let name = place.name.as_str();
        let mut map = within(PATIENCE, "read it; apply the manifests", api.get(name)).await?;
        let data = map.data.get_or_insert_default();
        let before = data.get(FILE).map_or("", String::as_str);
        // Anywhere in it: two aggregators must not take turns at its head.
        if blocks(before).any(|block| block == self.certificate.trim()) {
            return Ok(false);
        }
        let after = bundle(before, &self.certificate);
        data.insert(FILE.to_owned(), after);
        // With the version that was read: two aggregators must not overwrite each other.
        within(
            PATIENCE,
            "change it; apply the manifests",
            api.replace(name, &PostParams::default(), &map),
        )
        .await?;
        Ok(true)
    }
}

/// Ours first, then those that were there.
fn bundle(before: &str, ours: &str) -> String {
    let ours = ours.trim();
    let mut text = String::new();
    let others = blocks(before).filter(|block| *block != ours);
    for block in std::iter::once(ours).chain(others).take(KEPT) {
        text.push_str(block);
        text.push('\n');
    }
    text
}

/// The certificates of a PEM text. What is no certificate is none.
fn blocks(pem: &str) -> impl Iterator<Item = &str> {
    pem.split_inclusive(END)
        .filter_map(|block| {
            block
                .find("-----BEGIN CERTIFICATE-----")
                .map(|start| &block[start..])
        })
        .filter(|block| block.ends_with(END))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(word: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{word}\n{END}\n")
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
