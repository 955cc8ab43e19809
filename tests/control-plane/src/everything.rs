//! Names of all objects in a cluster.

use std::collections::BTreeSet;

use anyhow::Context;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
    discovery::{Discovery, verbs},
};

/// Lists everything as `KIND.GROUP NAMESPACE/NAME`, except Events, which come and go by themselves.
pub async fn everything(client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let discovery = Discovery::new(client.clone())
        .run()
        .await
        .context("discovering the API server's resources")?;
    let mut found = BTreeSet::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if resource.kind == "Event" || !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let listed = Api::<DynamicObject>::all_with(client.clone(), &resource)
                .list(&ListParams::default())
                .await;
            let objects = match listed {
                // Its definition has been deleted since.
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                listed => listed.with_context(|| format!("listing {}", resource.plural))?,
            };
            found.extend(objects.into_iter().map(|object| {
                let namespace = object.namespace().unwrap_or_default();
                format!(
                    "{}.{} {namespace}/{}",
                    resource.kind,
                    resource.group,
                    object.name_any()
                )
            }));
        }
    }
    Ok(found)
}
