//! The Gateway API, as far as it is of use.

use serde::Deserialize;

use super::{
    KeptMetadata, SOLVER, WatchedObject,
    core::{object, tolerant},
};

tolerant!(Gateway {
    metadata: KeptMetadata,
    spec: GatewaySpec,
    status: GatewayStatus,
});
object!(Gateway);
tolerant!(GatewaySpec {
    gateway_class_name: String,
    listeners: Vec<Listener>,
});
tolerant!(Listener {
    name: String,
    hostname: String,
    port: i64,
    protocol: String,
});
tolerant!(GatewayStatus { addresses: Vec<GatewayAddress> });
tolerant!(GatewayAddress {
    #[serde(rename = "type")]
    kind: String,
    value: String,
});

tolerant!(HttpRoute {
    metadata: KeptMetadata,
    spec: HttpRouteSpec,
    status: RouteStatus,
});
object!(HttpRoute, labels: |name| name == SOLVER);
tolerant!(HttpRouteSpec {
    hostnames: Vec<String>,
    parent_refs: Vec<ParentRef>,
    rules: Vec<RouteRule>,
});
tolerant!(
    /// The Gateway a route hangs on.
    ParentRef {
        kind: String,
        namespace: String,
        name: String,
        section_name: String,
        port: Option<i64>,
    }
);
tolerant!(RouteRule { backend_refs: Vec<BackendRef> });
tolerant!(BackendRef {
    kind: String,
    namespace: String,
    name: String,
});
tolerant!(RouteStatus { parents: Vec<RouteParent> });
tolerant!(RouteParent {
    parent_ref: ParentRef,
    conditions: Vec<RouteCondition>,
});
tolerant!(RouteCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
});
