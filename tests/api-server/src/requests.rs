//! Requests: what they address, the failures that a test configured for it, and the part that answers.

use std::{collections::BTreeMap, convert::Infallible};

use axum::{
    body::{Body, Bytes},
    extract::{Query, Request, State},
    http::{Method, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;

use crate::{
    lists::{discovery, list, object_by_name},
    port_forward::forward,
    responses::{configured_failure, failure, resource_not_found},
    store::{Behaviour, Shared, Store},
    tokens::{own_access_review, review, token_request},
    watches::watch,
    writes::{change, create, replace},
};

/// The resource or object that a path addresses: after `/api/v1` or `/apis/GROUP/VERSION`, `RESOURCE[/NAME[/SUBRESOURCE]]`
/// or `namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]`.
struct Location<'a> {
    namespace: Option<&'a str>,
    resource: &'a str,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

impl<'a> Location<'a> {
    fn parse(path: &[&'a str]) -> Option<Self> {
        let rest = path.get(if path.first() == Some(&"api") { 2 } else { 3 }..)?;
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (resource, rest) = rest.split_first()?;
        Some(Self {
            namespace,
            resource,
            name: rest.first().copied(),
            subresource: rest.get(1).copied(),
        })
    }

    /// Returns the verb of RBAC.
    fn verb(&self, method: &Method, query: &BTreeMap<String, String>) -> &'static str {
        match *method {
            Method::GET if self.name.is_some() => "get",
            Method::GET if query.contains_key("watch") => "watch",
            Method::GET => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            _ => "delete",
        }
    }

    /// Returns the resource as rules of RBAC name it: `pods` or `pods/status`.
    fn rbac_resource(&self) -> String {
        self.subresource.map_or_else(
            || self.resource.to_owned(),
            |subresource| format!("{}/{subresource}", self.resource),
        )
    }

    /// Returns the failure of this request that a test configured, if any.
    fn rejection(&self, verb: &str, store: &Store) -> Option<Response> {
        let (status, message) = store.rejections.get(&(verb.to_owned(), self.rbac_resource()))?;
        Some(configured_failure(*status, message))
    }

    fn behaviour(&self, store: &Store) -> Behaviour {
        let own = store.behaviours.get(&self.rbac_resource());
        let of_resource = || store.behaviours.get(self.resource);
        own.or_else(of_resource).copied().unwrap_or_default()
    }
}

pub(crate) async fn answer(
    State(shared): State<Shared>,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    // A request counts once it is complete: from then on, it takes effect even if the client is killed.
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return failure(400, "BadRequest", "the client closed the connection");
    };
    let request = Request::from_parts(parts, Body::empty());
    let response = respond(shared.clone(), &query, request, &body);
    if query.contains_key("watch") {
        return response.await;
    }
    shared.counted(response).await
}

async fn respond(
    shared: Shared,
    query: &BTreeMap<String, String>,
    request: Request,
    body: &[u8],
) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let credential = request.headers().get(header::AUTHORIZATION);
    let credential = credential.map(|value| value.to_str().unwrap().to_owned());
    let unavailable = {
        let mut store = shared.store();
        store.last_credential = credential;
        store.unavailable
    };
    if unavailable {
        return failure(500, "InternalError", "etcdserver: no leader");
    }
    let path: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    if let (&Method::GET, ["apis", group, "v1"]) = (&method, &path[..]) {
        return discovery(&shared, group);
    }
    let Some(location) = Location::parse(&path) else {
        return resource_not_found();
    };
    let (behaviour, absent, rejection) = {
        let mut store = shared.store();
        let rejection = location.rejection(location.verb(&method, query), &store);
        let behaviour = location.behaviour(&store);
        if method != Method::GET && matches!(behaviour, Behaviour::Status(_)) {
            *store
                .rejected_writes
                .entry(location.resource.to_owned())
                .or_default() += 1;
        }
        (behaviour, store.absent.contains(location.resource), rejection)
    };
    match behaviour {
        Behaviour::Hangs => return std::future::pending().await,
        Behaviour::Status(code) => return configured_failure(code, "as the test has it"),
        Behaviour::Normal | Behaviour::Mute => {}
    }
    if let Some(rejection) = rejection {
        return rejection;
    }
    if method == Method::GET {
        if absent {
            return resource_not_found();
        }
        return read(shared, &location, behaviour, query, request);
    }
    let response = write(&shared, &method, &location, body);
    shared.changed.send_replace(());
    response
}

/// Answers a GET.
fn read(
    shared: Shared,
    location: &Location<'_>,
    behaviour: Behaviour,
    query: &BTreeMap<String, String>,
    request: Request,
) -> Response {
    let Location {
        namespace, resource, ..
    } = *location;
    match (location.name, location.subresource) {
        (Some(_), Some("portforward")) => forward(&shared, request),
        (Some(name), _) => object_by_name(&shared, resource, namespace.unwrap_or_default(), name),
        (None, _) if !query.contains_key("watch") => list(&shared, resource, namespace, query),
        (None, _) if behaviour == Behaviour::Mute => {
            Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()).into_response()
        }
        (None, _) => watch(shared, resource.to_owned(), namespace.map(str::to_owned), query),
    }
}

/// Answers a POST, PUT, PATCH or DELETE.
fn write(shared: &Shared, method: &Method, location: &Location<'_>, body: &[u8]) -> Response {
    let namespace = location.namespace.unwrap_or_default();
    match (method, location.resource, location.name, location.subresource) {
        (&Method::POST, "tokenreviews", None, _) => review(shared, body),
        (&Method::POST, "selfsubjectaccessreviews", None, _) => own_access_review(shared, body),
        (&Method::POST, "serviceaccounts", Some(account), Some("token")) => {
            token_request(shared, namespace, account, body)
        }
        (&Method::POST, resource, None, None) => create(shared, namespace, resource, body),
        (&Method::PUT, resource, Some(name), None) => replace(shared, namespace, resource, name, body),
        (_, resource, Some(name), subresource) => {
            change(shared, method, (resource, namespace, name), subresource, body)
        }
        _ => failure(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
    }
}
