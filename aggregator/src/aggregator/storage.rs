//! Selects the storage of the checkpoint and of pending notifications from the configuration.

use std::sync::Arc;

use parallax_history::store::{StoreHandle, StoreHold};
use parallax_notify::OutboxStore;

use super::error::StartError;
use crate::{
    checkpoint::{CheckpointOptions, CheckpointStorage},
    config::Config,
    prober_listener::ProberListener,
};

/// Returns the storage of pending notifications: the configured `ConfigMap`, which the next leader can read,
/// otherwise the store.
pub(super) fn outbox_store(
    config: &Config,
    prober_listener: &ProberListener,
    store: &StoreHandle,
    hold: Option<Arc<StoreHold>>,
) -> OutboxStore {
    let map = config
        .notify
        .outbox_config_map
        .clone()
        .zip(prober_listener.client().cloned());
    match (map, hold) {
        _ if config.notify.is_empty() => OutboxStore::Memory,
        (Some((place, client)), _) => OutboxStore::config_map(client, place),
        (None, Some(hold)) => OutboxStore::Store {
            store: store.clone(),
            _hold: hold,
        },
        (None, None) => OutboxStore::Memory,
    }
}

/// Returns the storage of the checkpoint: the configured one, otherwise the store.
pub(super) fn checkpoint_storage(
    config: &Config,
    prober_listener: &ProberListener,
    store: &StoreHandle,
    hold: Option<&Arc<StoreHold>>,
) -> Result<CheckpointStorage, StartError> {
    Ok(match (config.checkpoint_options(), hold) {
        (Some(CheckpointOptions::ConfigMap(key)), _) => CheckpointStorage::ConfigMap {
            client: prober_listener
                .client()
                .cloned()
                .ok_or(StartError::NoApiServerForCheckpoint)?,
            key,
        },
        (Some(CheckpointOptions::File(path)), _) => CheckpointStorage::File(path),
        (None, Some(hold)) => CheckpointStorage::Store {
            store: store.clone(),
            _hold: Arc::clone(hold),
        },
        (None, None) => CheckpointStorage::Memory,
    })
}
