//! Relevant fields of the Gateway API.

use serde::Deserialize;

use super::{
    KeptMetadata, SOLVER_LABEL, WatchedObject,
    core::{object, tolerant},
};

tolerant!(pub Gateway {
    metadata: KeptMetadata,
    spec: GatewaySpec,
    status: GatewayStatus,
});
object!(Gateway);
tolerant!(pub(crate) GatewaySpec {
    gateway_class_name: String,
    listeners: Vec<Listener>,
});
tolerant!(pub(crate) Listener {
    name: String,
    hostname: String,
    port: i64,
    protocol: String,
});
tolerant!(pub(crate) GatewayStatus { addresses: Vec<GatewayAddress> });
tolerant!(pub(crate) GatewayAddress {
    #[serde(rename = "type")]
    kind: String,
    value: String,
});

tolerant!(pub HttpRoute {
    metadata: KeptMetadata,
    spec: HttpRouteSpec,
    status: RouteStatus,
});
object!(HttpRoute, labels: |name| name == SOLVER_LABEL);
tolerant!(pub(crate) HttpRouteSpec {
    hostnames: Vec<String>,
    parent_refs: Vec<ParentRef>,
    rules: Vec<RouteRule>,
});
tolerant!(
    /// The Gateway that a route is attached to.
    pub(crate) ParentRef {
        kind: String,
        namespace: String,
        name: String,
        section_name: String,
        port: Option<i64>,
    }
);
tolerant!(pub(crate) RouteRule { backend_refs: Vec<BackendRef> });
tolerant!(pub(crate) BackendRef {
    kind: String,
    namespace: String,
    name: String,
});
tolerant!(pub(crate) RouteStatus { parents: Vec<RouteParent> });
tolerant!(pub(crate) RouteParent {
    parent_ref: ParentRef,
    conditions: Vec<RouteCondition>,
});
tolerant!(pub(crate) RouteCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
});
