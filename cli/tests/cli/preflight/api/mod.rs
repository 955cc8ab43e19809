//! The part of an API server that a preflight needs: objects by path, rules that reject requests, and the effects of a
//! solver's objects in a cluster: its Pod runs, and its response is served at the ingress.

mod preflights;
mod wire;

use std::{
    collections::BTreeMap,
    io::Write,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
    thread::JoinHandle,
};

use serde_json::{Value, json};

use self::{
    preflights::Changes,
    wire::{Request, Response, serve, status},
};

/// State of the server.
#[derive(Debug, Default)]
pub(crate) struct ApiState {
    /// By resource, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    /// Rejected requests: verb and resource, with status and message.
    refused: BTreeMap<(String, String), (u16, String)>,
    /// Token → key of solvers that have a route; served by the ingress controller.
    served: BTreeMap<String, String>,
    /// Every object ever created, by resource.
    pub(crate) created: Vec<(String, Value)>,
    uids: u64,
    /// Number of requests other than watches, so that a test can kill a client after a given one.
    pub(crate) requests: usize,
    /// Pods are created but never run.
    pub(crate) pods_stay_pending: bool,
    /// Requests beyond this number get no response. The first of them takes effect, the others do not.
    pub(crate) max_answered_requests: Option<usize>,
    /// The ingress controller never adopts a route.
    pub(crate) routes_ignored: bool,
    /// Changes of Preflight objects, for watches.
    changes: Changes,
    /// Maximum number of Pods that one Preflight had at the same time.
    pub(crate) most_pods: usize,
    /// Number of runs still to be rejected as too many.
    pub(crate) rejected_runs: u32,
    /// Number of times that another client still changes an Ingress just before it is patched.
    pub(crate) concurrent_writes: u32,
}

/// A running server. Stops with the test.
pub(crate) struct Api {
    held: Arc<Mutex<ApiState>>,
    pub(crate) address: SocketAddr,
    /// Address of the ingress controller for clients.
    pub(crate) entry: SocketAddr,
    /// An aggregator whose runs all pass at once, for tests of everything around runs.
    pub(crate) aggregator: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Api {
    pub(crate) fn start() -> Self {
        let held = Arc::new(Mutex::new(ApiState::default()));
        let api = TcpListener::bind("127.0.0.1:0").unwrap();
        let entry = TcpListener::bind("127.0.0.1:0").unwrap();
        let aggregator = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, way_in) = (api.local_addr().unwrap(), entry.local_addr().unwrap());
        let mesh = aggregator.local_addr().unwrap();
        let threads = vec![
            serve(api, Arc::clone(&held), Request::answer),
            serve(entry, Arc::clone(&held), |request, held| {
                let token = request.path.rsplit('/').next().unwrap();
                let key = held.lock().unwrap().served.get(token).cloned();
                key.map_or((404, "default backend".to_owned()), |key| (200, key))
            }),
            serve(aggregator, Arc::clone(&held), Request::passing),
        ];
        Self {
            held,
            address,
            entry: way_in,
            aggregator: mesh,
            threads,
        }
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, ApiState> {
        self.held.lock().unwrap()
    }

    /// Writes a kubeconfig for this server.
    pub(crate) fn kubeconfig(&self, folder: &std::path::Path) -> std::path::PathBuf {
        let path = folder.join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: t\nclusters: [{{name: t, cluster: {{server: 'http://{}'}}}}]\n\
             contexts: [{{name: t, context: {{cluster: t, user: t}}}}]\nusers: [{{name: t, user: {{}}}}]\n",
            self.address
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn put(&self, resource: &str, object: Value) {
        self.held().put(resource, object);
    }

    /// Rejects a verb on a resource from now on.
    pub(crate) fn reject(&self, verb: &str, resource: &str, status: u16, words: &str) {
        let key = (verb.to_owned(), resource.to_owned());
        self.held().refused.insert(key, (status, words.to_owned()));
    }

    pub(crate) fn allow(&self) {
        self.held().refused.clear();
    }

    /// Returns what preflights created and have not deleted.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let held = self.held();
        let own = held
            .objects
            .iter()
            .filter(|(_, object)| object["metadata"]["labels"]["parallax.dev/preflight"].is_string());
        own.map(|((resource, _, name), _)| format!("{resource}/{name}"))
            .collect()
    }

    /// Returns the current state of an object.
    pub(crate) fn object(&self, resource: &str, namespace: &str, name: &str) -> Value {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.held().objects[&key].clone()
    }

    /// Returns every object of a resource that was ever created.
    pub(crate) fn created(&self, resource: &str) -> Vec<Value> {
        let held = self.held();
        let own = held.created.iter().filter(|(of, _)| of == resource);
        own.map(|(_, object)| object.clone()).collect()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        for address in [self.address, self.entry, self.aggregator] {
            let _ = TcpStream::connect(address)
                .and_then(|mut stream| stream.write_all(b"STOP / HTTP/1.1\r\n\r\n"));
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl ApiState {
    fn put(&mut self, resource: &str, mut object: Value) {
        self.uids += 1;
        object["metadata"]["uid"] = format!("uid-{}", self.uids).into();
        object["metadata"]["resourceVersion"] = self.uids.to_string().into();
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (resource.to_owned(), text("namespace"), text("name"));
        self.objects.insert(key, object);
    }

    /// Merges the fields that an edit in place may change, unless the resource version has changed.
    fn edit(&mut self, key: &(String, String, String), change: &Value) -> Response {
        let Some(mut object) = self.objects.get(key).cloned() else {
            return status(404, "not found");
        };
        if self.concurrent_writes > 0 {
            self.concurrent_writes -= 1;
            let meddled = json!({"path": format!("/{}", self.concurrent_writes), "backend": {"service": {"name": "other"}}});
            let paths = object["spec"]["rules"][0]["http"]["paths"]
                .as_array_mut()
                .unwrap();
            paths.insert(0, meddled);
            self.put(&key.0, object.clone());
            object = self.objects[key].clone();
        }
        if change["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return status(409, "the object has been modified");
        }
        object["spec"]["rules"] = change["spec"]["rules"].clone();
        self.put(&key.0, object);
        let rules = change["spec"]["rules"].as_array().cloned().unwrap_or_default();
        for path in rules
            .iter()
            .flat_map(|rule| rule["http"]["paths"].as_array().unwrap())
        {
            self.serve(path["backend"]["service"]["name"].as_str().unwrap());
        }
        (200, self.objects[key].to_string())
    }

    /// Serves the token of a solver's Pod from now on.
    fn serve(&mut self, name: &str) {
        let pod = self
            .objects
            .iter()
            .find(|((sort, _, pod), _)| sort == "pods" && pod == name);
        let args: Vec<String> = pod
            .map(|(_, pod)| serde_json::from_value(pod["spec"]["containers"][0]["args"].clone()).unwrap())
            .unwrap_or_default();
        let after = |flag: &str| {
            let at = args.iter().position(|arg| arg == flag);
            at.and_then(|at| args.get(at + 1)).cloned()
        };
        if let (Some(token), Some(key)) = (after("--token"), after("--key")) {
            self.served.insert(token, key);
        }
    }

    /// Acts as kubelet and ingress controller.
    fn apply_effects(&mut self, resource: &str, object: &mut Value) {
        match resource {
            "pods" if !self.pods_stay_pending => {
                object["status"] =
                    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            }
            "httproutes" => {
                object["status"] = json!({"parents": [{"parentRef": {"name": "gw"},
                    "conditions": [{"type": "Accepted", "status": "True"}, {"type": "ResolvedRefs", "status": "True"}]}]});
            }
            _ => {}
        }
        let routed = matches!(resource, "ingresses" | "httproutes") && !self.routes_ignored;
        if routed {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            self.serve(&name);
        }
    }
}

impl Request {
    fn answer(&self, held: &Mutex<ApiState>) -> Response {
        let (resource, namespace, name) = self.place();
        let verb = match (self.method.as_str(), &name) {
            ("GET", Some(_)) => "get",
            ("GET", None) => "list",
            ("POST", _) => "create",
            ("DELETE", _) => "delete",
            ("PATCH", Some(_)) => "patch",
            other => panic!("{other:?} {}", self.path),
        };
        if verb == "list" && self.query.contains("watch=true") {
            return self.watch(held);
        }
        let number = {
            let mut held = held.lock().unwrap();
            held.requests += 1;
            held.requests
        };
        let silent = |held: &Mutex<ApiState>| {
            held.lock()
                .unwrap()
                .max_answered_requests
                .is_some_and(|last| number > last)
        };
        let wait = || {
            while silent(held) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            status(503, "it was silent")
        };
        if held
            .lock()
            .unwrap()
            .max_answered_requests
            .is_some_and(|last| number > last + 1)
        {
            return wait();
        }
        let said = self.done(held, verb, (resource, namespace, name));
        if silent(held) { wait() } else { said }
    }

    fn done(
        &self,
        held: &Mutex<ApiState>,
        verb: &str,
        (resource, namespace, name): (String, String, Option<String>),
    ) -> Response {
        let mut held = held.lock().unwrap();
        if let Some((code, words)) = held.refused.get(&(verb.to_owned(), resource.clone())) {
            return status(*code, words);
        }
        match (verb, name) {
            ("list", _) => {
                let labels = self.labels();
                let fits = |object: &Value| {
                    labels.iter().all(|(label, value)| {
                        let own = object["metadata"]["labels"][label].as_str();
                        value.as_ref().map_or(own.is_some(), |value| own == Some(value))
                    })
                };
                let own = held.objects.iter().filter(|((sort, place, _), object)| {
                    *sort == resource && (namespace.is_empty() || *place == namespace) && fits(object)
                });
                let items: Vec<&Value> = own.map(|(_, object)| object).collect();
                let version = held.changes.version().to_string();
                let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items});
                (200, list.to_string())
            }
            ("create", _) => {
                let mut object: Value = serde_json::from_slice(&self.body).unwrap();
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                if held
                    .objects
                    .contains_key(&(resource.clone(), namespace.clone(), name.clone()))
                {
                    return status(409, "it is there already");
                }
                held.created.push((resource.clone(), object.clone()));
                held.apply_effects(&resource, &mut object);
                held.put(&resource, object);
                held.count_pods();
                (201, held.objects[&(resource, namespace, name)].to_string())
            }
            ("get", Some(name)) => match held.objects.get(&(resource, namespace, name)) {
                Some(object) => (200, object.to_string()),
                None => status(404, "not found"),
            },
            ("patch", Some(name)) if resource == "ingresses" => {
                let change: Value = serde_json::from_slice(&self.body).unwrap();
                held.edit(&(resource, namespace, name), &change)
            }
            ("delete", Some(name)) => match held.remove(&(resource, namespace, name)) {
                Some(object) => (200, object.to_string()),
                None => status(404, "not found"),
            },
            ("patch", Some(name)) => held.patch(&(resource, namespace, name), &self.body),
            other => panic!("{other:?}"),
        }
    }

    /// Response of an aggregator whose nodes all succeed.
    fn passing(&self, held: &Mutex<ApiState>) -> Response {
        let mut held = held.lock().unwrap();
        if self.method == "POST" && held.rejected_runs > 0 {
            held.rejected_runs -= 1;
            return (
                429,
                json!({"error": "too many runs; ask again in 6 s"}).to_string(),
            );
        }
        let run = json!({"id": "r-1", "target": "http://a/", "from": "nodes", "rounds": 1, "interval_us": 1, "timeout_us": 1,
            "requested_by": "t", "requested_at": 0, "deadline": 1, "state": "done", "expected": 1, "completed": 1, "vantages": [], "outcome": "passed"});
        if self.method == "POST" {
            return (201, run.to_string());
        }
        let result = json!({"event": "result", "vantage": "n1/pod", "channel": "vip", "round": 1, "t_us": 0, "target": "http://a/",
            "result": "ok", "status": 200, "challenge": {"passes": 1}, "placement": "same-node"});
        (
            200,
            format!("{result}\n{}\n", json!({"event": "done", "run": run})),
        )
    }
}
