//! Objects of a file, applied and deleted as by `kubectl`.

use anyhow::{Context, bail};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{self, Scope},
};

/// The objects of one YAML file, in its order.
#[derive(Debug, Clone)]
pub struct Manifest {
    objects: Vec<DynamicObject>,
}

impl Manifest {
    /// Parses YAML documents separated by `---`.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let objects = serde_saphyr::from_multiple::<DynamicObject>(text).context("parsing the manifest")?;
        if objects.is_empty() {
            bail!("the manifest has no object");
        }
        Ok(Self { objects })
    }

    /// Wraps objects built by the test.
    #[must_use]
    pub const fn from_objects(objects: Vec<DynamicObject>) -> Self {
        Self { objects }
    }

    /// Returns its objects.
    #[must_use]
    pub fn objects(&self) -> &[DynamicObject] {
        &self.objects
    }

    /// Returns the only object of a kind and name.
    pub fn object<T: serde::de::DeserializeOwned>(&self, kind: &str, name: &str) -> anyhow::Result<T> {
        let found = self.objects.iter().find(|object| {
            let types = object.types.as_ref();
            types.is_some_and(|types| types.kind == kind) && object.name_any() == name
        });
        let object = found.with_context(|| format!("the manifest has no {kind} {name}"))?;
        serde_json::from_value(serde_json::to_value(object)?).with_context(|| format!("{kind} {name}"))
    }

    /// Applies every object with strict field validation (`kubectl apply --server-side --validate=strict`).
    pub async fn apply(&self, client: &Client) -> anyhow::Result<()> {
        let params = PatchParams::apply("control-plane-test").validation_strict();
        for object in &self.objects {
            let (api, name) = api(client, object).await?;
            api.patch(&name, &params, &Patch::Apply(object))
                .await
                .with_context(|| format!("applying {name}"))?;
        }
        Ok(())
    }

    /// Deletes every object in order (`kubectl delete -f`). A missing object is not an error.
    pub async fn delete(&self, client: &Client) -> anyhow::Result<()> {
        for object in &self.objects {
            let (api, name) = api(client, object).await?;
            match api.delete(&name, &DeleteParams::background()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).with_context(|| format!("deleting {name}")),
            }
        }
        Ok(())
    }
}

async fn api(client: &Client, object: &DynamicObject) -> anyhow::Result<(Api<DynamicObject>, String)> {
    let types = object.types.as_ref().context("an object without a kind")?;
    let name = object.metadata.name.clone().context("an object without a name")?;
    let (resource, capabilities) = discovery::pinned_kind(client, &GroupVersionKind::try_from(types)?)
        .await
        .with_context(|| format!("the API server does not know {}", types.kind))?;
    let api = match (capabilities.scope, object.metadata.namespace.as_deref()) {
        (Scope::Namespaced, namespace) => {
            Api::namespaced_with(client.clone(), namespace.unwrap_or("default"), &resource)
        }
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    };
    Ok((api, name))
}
