//! The controllers that react to the objects of a solver: kubelet, gateway controller and ingress controller.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, Uri, header},
};
use parallax_api_server::{ApiServer, ObjectWrite, Objects, WriteHook};
use serde_json::{Value, json};

use super::ClusterState;

/// Reacts as kubelet and gateway controller, and writes as another client.
#[derive(Debug)]
struct SolverControllers(Arc<Mutex<ClusterState>>);

/// Returns the hook that makes Pods run and routes accepted.
pub(super) fn hook(state: &Arc<Mutex<ClusterState>>) -> impl WriteHook + use<> {
    SolverControllers(Arc::clone(state))
}

impl WriteHook for SolverControllers {
    fn before(&mut self, write: &ObjectWrite<'_>, objects: &mut Objects<'_>) {
        let mut state = self.0.lock().unwrap();
        if (write.verb, write.resource) != ("patch", "ingresses") || state.concurrent_writes == 0 {
            return;
        }
        state.concurrent_writes -= 1;
        let path = json!({"path": format!("/{}", state.concurrent_writes), "backend": {"service": {"name": "other"}}});
        objects.amend("ingresses", write.namespace, write.name, |ingress| {
            let paths = &mut ingress["spec"]["rules"][0]["http"]["paths"];
            paths.as_array_mut().unwrap().insert(0, path);
        });
    }

    fn after(&mut self, write: &ObjectWrite<'_>, objects: &mut Objects<'_>) {
        let mut state = self.0.lock().unwrap();
        let status = match (write.verb, write.resource) {
            ("create", "pods") if !state.pods_stay_pending => {
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
            }
            ("create", "httproutes") => json!({"parents": [{"parentRef": {"name": "gw"},
                "conditions": [{"type": "Accepted", "status": "True"}, {"type": "ResolvedRefs", "status": "True"}]}]}),
            _ => Value::Null,
        };
        if !status.is_null() {
            objects.amend(write.resource, write.namespace, write.name, |object| {
                object["status"] = status;
            });
        }
        state.max_pods = state.max_pods.max(max_pods(objects));
    }
}

/// Returns the number of Pods of the Preflight that has most.
fn max_pods(objects: &Objects<'_>) -> usize {
    let mut owners: Vec<&str> = objects
        .all("pods")
        .filter_map(|pod| pod["metadata"]["labels"]["parallax.dev/preflight-uid"].as_str())
        .collect();
    owners.sort_unstable();
    owners
        .chunk_by(|a, b| a == b)
        .map(<[&str]>::len)
        .max()
        .unwrap_or_default()
}

/// Answers requests for the paths of Ingresses and `HTTPRoute`s with the key of the solver's Pod.
pub(super) fn ingress_controller(server: &Arc<ApiServer>, state: &Arc<Mutex<ClusterState>>) -> Router {
    let (server, state) = (Arc::clone(server), Arc::clone(state));
    Router::new().fallback(async move |uri: Uri, headers: HeaderMap| {
        let host = headers[header::HOST].to_str().unwrap();
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let adopted = !state.lock().unwrap().routes_ignored;
        let key = adopted.then(|| solver_key(&server, host, uri.path())).flatten();
        key.map_or((StatusCode::NOT_FOUND, "default backend".to_owned()), |key| {
            (StatusCode::OK, key)
        })
    })
}

/// Returns the key that the solver behind this host and path answers.
fn solver_key(server: &ApiServer, host: &str, path: &str) -> Option<String> {
    let (namespace, service) = backend(server, host, path)?;
    let selector = server.get("services", &namespace, &service)?["spec"]["selector"].take();
    let pods = server.all("pods");
    let pod = pods.iter().find(|pod| {
        let labels = &pod["metadata"]["labels"];
        let mut selector = selector.as_object().unwrap().iter();
        pod["metadata"]["namespace"] == namespace.as_str()
            && pod["status"]["phase"] == "Running"
            && selector.all(|(label, value)| labels[label] == *value)
    })?;
    let args = pod["spec"]["containers"][0]["args"].as_array()?;
    let flag = args.iter().position(|arg| arg == "--key")?;
    Some(args[flag + 1].as_str().unwrap().to_owned())
}

/// Returns namespace and name of the Service that a host and an exact path lead to.
fn backend(server: &ApiServer, host: &str, path: &str) -> Option<(String, String)> {
    let ingresses = server.all("ingresses").into_iter().flat_map(|ingress| {
        let namespace = ingress["metadata"]["namespace"].clone();
        let rules = elements(&ingress["spec"]["rules"]).filter(|rule| rule["host"] == host);
        let paths = rules.flat_map(|rule| elements(&rule["http"]["paths"]));
        let services = paths.filter(|entry| entry["path"] == path);
        services
            .map(|entry| (namespace.clone(), entry["backend"]["service"]["name"].clone()))
            .collect::<Vec<_>>()
    });
    let routes = server.all("httproutes").into_iter().flat_map(|route| {
        let namespace = route["metadata"]["namespace"].clone();
        let has_host = elements(&route["spec"]["hostnames"]).any(|name| name == host);
        let rules = elements(&route["spec"]["rules"]).filter(|rule| {
            has_host && elements(&rule["matches"]).any(|matched| matched["path"]["value"] == path)
        });
        rules
            .map(|rule| (namespace.clone(), rule["backendRefs"][0]["name"].clone()))
            .collect::<Vec<_>>()
    });
    let (namespace, service) = ingresses.chain(routes).next()?;
    Some((namespace.as_str()?.to_owned(), service.as_str()?.to_owned()))
}

/// Returns the elements of an array, none if the field is absent.
fn elements(array: &Value) -> impl Iterator<Item = &Value> {
    array.as_array().into_iter().flatten()
}
