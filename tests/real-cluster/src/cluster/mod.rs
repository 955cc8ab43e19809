//! The cluster under test: kubectl, the API, the hook, and access to Pods.

mod hook;
mod kubectl;
mod pod_access;
mod pods;
mod proxy;
mod settings;

use std::{collections::BTreeMap, path::PathBuf, rc::Rc};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api, Client, Config, ResourceExt,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};

pub use hook::{Hook, HookResult};
pub use kubectl::{Kubectl, Output};
pub use pod_access::{PodAccess, PodRoute};
pub use pods::{PodView, Pods, Port};
pub use proxy::Proxy;
pub use settings::{Dns, Hosts, Ingress, Settings};

/// The cluster to use, and its auxiliary files.
#[derive(Debug, Clone)]
pub struct Access {
    /// The kubeconfig of an administrator.
    pub kubeconfig: PathBuf,
    /// The hook, for what kubectl cannot do.
    pub hook: Option<PathBuf>,
    /// Settings with the names that differ between clusters.
    pub settings: Option<PathBuf>,
    /// Directory for files of this run.
    pub folder: PathBuf,
}

/// The cluster under test.
pub struct Cluster {
    /// The API, as an administrator.
    pub client: Client,
    /// kubectl, as an administrator.
    pub kubectl: Kubectl,
    /// The hook, for what kubectl cannot do.
    pub hook: Hook,
    /// Names in this cluster.
    pub settings: Settings,
    /// Names of the nodes that accept ordinary Pods, sorted.
    pub nodes: Vec<String>,
    /// Version of the API server.
    pub version: String,
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
    /// The ingress controller's balancer, by names for steps: `ingress.address`, and `ingress.nodePort.80` for each
    /// port.
    pub balancer: BTreeMap<String, String>,
    /// Pods in the relevant namespaces, renewed once a second.
    pub pods: Rc<Pods>,
    /// Access to Pods.
    pub pod_access: Rc<PodAccess>,
}

impl Cluster {
    /// Connects to the cluster.
    ///
    /// # Errors
    /// No usable kubeconfig, an unavailable API server, or fewer than three nodes.
    pub async fn connect(access: &Access) -> anyhow::Result<Self> {
        let settings = Settings::read(access.settings.as_deref())?;
        let read = Kubeconfig::read_from(&access.kubeconfig)
            .with_context(|| format!("reading {}", access.kubeconfig.display()))?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .with_context(|| format!("the kubeconfig {}", access.kubeconfig.display()))?;
        let client = Client::try_from(config).context("a client of the API server")?;
        let version = client
            .apiserver_version()
            .await
            .context("no response from the API server")?
            .git_version;
        let nodes = Api::<Node>::all(client.clone())
            .list(&ListParams::default())
            .await
            .context("listing nodes")?;
        let mut nodes: Vec<String> = nodes
            .items
            .iter()
            .filter(|node| accepts_pods(node))
            .map(Node::name_any)
            .collect();
        nodes.sort();
        ensure!(
            nodes.len() >= 3,
            "expected at least three Ready nodes that accept ordinary Pods, found {}",
            nodes.len()
        );
        let kubectl = Kubectl::new(access.kubeconfig.clone(), access.folder.clone());
        kubectl.run(&["version", "--client"]).await?;
        Ok(Self {
            kubectl,
            hook: Hook::new(access.hook.clone(), access.kubeconfig.clone()),
            pod_access: Rc::new(PodAccess::new(client.clone())),
            pods: Rc::new(Pods::new(client.clone())),
            balancer: balancer(&client, &settings.ingress).await?,
            client,
            settings,
            nodes,
            version,
            kubeconfig: access.kubeconfig.clone(),
        })
    }
}

/// Returns address and node ports of the ingress controller's Service.
async fn balancer(client: &Client, ingress: &Ingress) -> anyhow::Result<BTreeMap<String, String>> {
    let api = Api::<Service>::namespaced(client.clone(), &ingress.namespace);
    let service = api.get_opt(&ingress.service).await?.with_context(|| {
        let Ingress {
            namespace, service, ..
        } = ingress;
        format!(
            "no Service {namespace}/{service} of an ingress controller; see PARALLAX_REAL_CLUSTER_SETTINGS"
        )
    })?;
    let mut names = BTreeMap::new();
    let status = service.status.and_then(|status| status.load_balancer?.ingress);
    let address = status.and_then(|entries| entries.into_iter().find_map(|entry| entry.ip));
    names.extend(address.map(|address| ("ingress.address".to_owned(), address)));
    for port in service.spec.and_then(|spec| spec.ports).unwrap_or_default() {
        if let Some(node_port) = port.node_port {
            names.insert(format!("ingress.nodePort.{}", port.port), node_port.to_string());
        }
    }
    Ok(names)
}

/// Reports whether it is Ready, and has no taint that repels ordinary Pods.
fn accepts_pods(node: &Node) -> bool {
    let tainted = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let tainted = tainted.is_some_and(|taints| taints.iter().any(|taint| taint.effect != "PreferNoSchedule"));
    ready(node) && !tainted
}

/// Reports whether its condition `Ready` is true.
#[must_use]
pub fn ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}
