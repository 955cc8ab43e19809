//! Acts as kubelet and ingress controller: Pods of preflights run, and their responses are served at the ingress.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::{core::v1::Pod, networking::v1::Ingress};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

use super::NAMESPACE;

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Label of every object of a preflight.
pub(super) const LABEL: &str = "parallax.dev/preflight";

/// Runs until dropped.
pub(super) struct FakeKubelet {
    pub(super) entry: SocketAddr,
    _tasks: JoinSet<()>,
}

impl FakeKubelet {
    /// Pods for hosts that start with `stuck` never run, and routes for those that start with `down` are never adopted.
    pub(super) async fn start(client: Client, address: Ipv4Addr) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let entry = listener.local_addr().unwrap();
        let served = Arc::new(Mutex::new(BTreeMap::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::clone(&served)));
        tasks.spawn(act(client, served));
        Self { entry, _tasks: tasks }
    }
}

/// Key authorizations by token.
type ServedTokens = Arc<Mutex<BTreeMap<String, String>>>;

fn routes(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute");
    Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind))
}

async fn act(client: Client, served: ServedTokens) {
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let ingresses = Api::<Ingress>::namespaced(client.clone(), NAMESPACE);
    let routes = routes(&client);
    let list_params = ListParams::default().labels(LABEL);
    loop {
        // Objects may be deleted between two calls; the next poll corrects that.
        let found = pods
            .list(&list_params)
            .await
            .map(|list| list.items)
            .unwrap_or_default();
        for pod in found {
            let name = pod.name_any();
            let args: Value = serde_json::to_value(&pod).unwrap()["spec"]["containers"][0]["args"].clone();
            let args: Vec<String> = serde_json::from_value(args).unwrap();
            let after = |flag: &str| {
                let at = args.iter().position(|arg| arg == flag).unwrap();
                args[at + 1].clone()
            };
            let host = after("--domain");
            if host.starts_with("stuck") {
                continue;
            }
            let running =
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
            let params = PatchParams::default();
            let _ = pods.patch_status(&name, &params, &Patch::Merge(running)).await;
            let accepted = json!({"status": {"parents": [{"parentRef": {"name": "gate"}, "controllerName": "test/gate",
                "conditions": [{"type": "Accepted", "status": "True"}, {"type": "ResolvedRefs", "status": "True"}]}]}});
            let route = routes.patch(&name, &params, &Patch::Merge(accepted)).await;
            let way = route.is_ok() || matches!(ingresses.get_opt(&name).await, Ok(Some(_)));
            if way && !host.starts_with("down") {
                served.lock().unwrap().insert(after("--token"), after("--key"));
            }
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn serve(listener: TcpListener, served: ServedTokens) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            client = listener.accept() => drop(clients.spawn(answer(client.unwrap().0, Arc::clone(&served)))),
            Some(_) = clients.join_next() => {}
        }
    }
}

/// Answers one request. Errors of clients that disconnect are ignored.
async fn answer(mut client: TcpStream, served: ServedTokens) {
    let (mut request, mut part) = (Vec::<u8>::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(length) => request.extend(&part[..length]),
        }
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let token = path.rsplit('/').next().unwrap_or_default();
    let key = served.lock().unwrap().get(token).cloned();
    let (status, body) = key.map_or(("404 Not Found", "default backend".to_owned()), |key| {
        ("200 OK", key)
    });
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    let _ = client.write_all(answer.as_bytes()).await;
    let _ = client.shutdown().await;
}
