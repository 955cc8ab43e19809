//! Objects become probes: how fast, and the effect of a killed API server.

use std::{net::Ipv4Addr, time::Duration};

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Namespace, Pod, Service},
    networking::v1::{Ingress, IngressClass},
};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use parallax_control_plane::{ControlPlane, Manifest, RunningProgram, TokenHolder, print_uncaptured};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    lock,
    names::NameServer,
    objects::{create, endpoint_slice, installation, node, pod, write_status},
    parallax::{AUDIENCE, InstalledAggregator, until},
    plane,
};

/// Promised limit from an Ingress to its first probe, and from an EndpointSlice to the new placement.
const FIRST_PROBE_LIMIT: Duration = Duration::from_secs(3);
const NEW_PLACEMENT_LIMIT: Duration = Duration::from_secs(1);

/// Defines the Gateway API's kinds, as far as their fields are read.
pub(crate) async fn define_gateways(client: &Client) {
    let definitions = Manifest::read(include_str!("gateways.yaml")).unwrap();
    definitions.apply(client).await.unwrap();
    for kind in ["Gateway", "HTTPRoute"] {
        let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind);
        until("the definition is established", async || {
            kube::discovery::pinned_kind(client, &kind).await.ok()
        })
        .await;
    }
}

/// Defines cert-manager's kinds, as far as their fields are read.
pub(crate) async fn define_cert_manager(client: &Client) {
    let definitions = Manifest::read(include_str!("cert-manager.yaml")).unwrap();
    definitions.apply(client).await.unwrap();
    for (group, kind) in [
        ("cert-manager.io", "Certificate"),
        ("cert-manager.io", "Issuer"),
        ("cert-manager.io", "ClusterIssuer"),
        ("acme.cert-manager.io", "Challenge"),
    ] {
        let kind = GroupVersionKind::gvk(group, "v1", kind);
        until("the definition is established", async || {
            kube::discovery::pinned_kind(client, &kind).await.ok()
        })
        .await;
    }
}

/// Creates two nodes, an ingress controller on the second, and a prober on each.
async fn cluster(client: &Client, installation: &Manifest) -> Vec<Pod> {
    installation.apply(client).await.unwrap();
    let daemons: DaemonSet = installation.object("DaemonSet", "parallax-prober").unwrap();
    let template = daemons.spec.unwrap().template;
    let mut probers = Vec::new();
    for (n, name) in [(1, "n1"), (2, "n2")] {
        node(client, name, &format!("192.0.2.{n}"), json!({}), json!([])).await;
        let pod_name = format!("prober-{n}");
        let address = format!("192.0.2.{}", n + 16);
        probers.push(pod(client, "parallax", &template, (&pod_name, name), &address).await);
    }
    for name in ["ingress", "shop"] {
        create(
            &Api::<Namespace>::all(client.clone()),
            json!({"metadata": {"name": name}}),
        )
        .await;
    }
    let services = Api::<Service>::namespaced(client.clone(), "ingress");
    create(
        &services,
        json!({"metadata": {"name": "nginx"}, "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}),
    )
    .await;
    let balancer = json!({"loadBalancer": {"ingress": [{"ip": BALANCER.to_string()}]}});
    write_status(&services, "nginx", balancer).await;
    entry_on(client, "n2").await;
    create(
        &Api::<IngressClass>::all(client.clone()),
        json!({"metadata": {"name": "public"}, "spec": {"controller": "k8s.io/ingress-nginx"}}),
    )
    .await;
    probers
}

/// Address of every name: nothing listens on the usual ports, and a refused connection is a result.
pub(crate) const BALANCER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 99);

async fn entry_on(client: &Client, node: &str) {
    let endpoints = json!([{"addresses": ["192.0.2.33"], "nodeName": node, "conditions": {"ready": true},
        "targetRef": {"kind": "Pod", "name": format!("nginx-on-{node}"), "namespace": "ingress"}}]);
    endpoint_slice(client, "ingress", "nginx", 8080, endpoints).await;
}

pub(crate) async fn publish(client: &Client, host: &str) {
    let api = Api::<Ingress>::namespaced(client.clone(), "shop");
    let name = host.split('.').next().unwrap();
    create(
        &api,
        json!({"metadata": {"name": name}, "spec": {"ingressClassName": "public", "rules": [{"host": host}]}}),
    )
    .await;
    let balancer = json!({"loadBalancer": {"ingress": [{"ip": BALANCER.to_string()}]}});
    write_status(&api, name, balancer).await;
}

/// Waits until a target has been probed.
pub(crate) async fn wait_until_probed(aggregator: &InstalledAggregator, host: &str) {
    let series = format!("parallax_probes_total{{target=\"http://{host}/\",channel=\"vip\"");
    until(&format!("{host} is probed"), async || {
        (aggregator.metric(&series).await > 0.0).then_some(())
    })
    .await;
}

/// The small cluster with an aggregator and a prober on each node.
pub(crate) struct SmallMesh {
    pub(crate) aggregator: InstalledAggregator,
    pub(crate) pods: Vec<Pod>,
    pub(crate) probers: Vec<RunningProgram>,
    _names: NameServer,
}

impl SmallMesh {
    pub(crate) async fn start(plane: &ControlPlane, client: &Client) -> Self {
        Self::with_installation(plane, client, &installation(), "").await
    }

    /// Starts one with another installation and additional configuration.
    pub(crate) async fn with_installation(
        plane: &ControlPlane,
        client: &Client,
        installation: &Manifest,
        more: &str,
    ) -> Self {
        let pods = cluster(client, installation).await;
        let aggregator = InstalledAggregator::with_installation(plane, installation, more).await;
        aggregator.wait_until_watching().await;
        let names = NameServer::at(BALANCER).await;
        let mut probers = Vec::new();
        for (pod, node) in pods.iter().zip(["n1", "n2"]) {
            let identity = ("parallax-prober", &*format!("{node}/pod"));
            probers.push(
                aggregator
                    .prober(client, pod, identity, &names.resolv_conf())
                    .await,
            );
        }
        Self {
            aggregator,
            pods,
            probers,
            _names: names,
        }
    }
}

#[tokio::test]
async fn an_ingress_is_probed_within_three_seconds_and_a_moved_endpoint_is_placed_within_one() {
    let _turn = lock().await;
    let Some(plane) = plane("from objects to probes").await else {
        return;
    };
    let client = plane.admin().await.unwrap();
    let mesh = SmallMesh::start(&plane, &client).await;
    let (aggregator, pods) = (&mesh.aggregator, &mesh.pods);
    publish(&client, "first.example.test").await;
    wait_until_probed(aggregator, "first.example.test").await;

    // Five times, and the slowest counts: the prober's position in its interval is random.
    let mut slowest = Duration::ZERO;
    for n in 1..=5 {
        let host = format!("host-{n}.example.test");
        let created = Instant::now();
        publish(&client, &host).await;
        wait_until_probed(aggregator, &host).await;
        slowest = slowest.max(created.elapsed());
    }
    print_uncaptured(&format!(
        "MEASURED: an Ingress is probed for the first time {slowest:?} after it was created, at the slowest of five"
    ));
    assert!(slowest < FIRST_PROBE_LIMIT);

    let authority = aggregator.published_ca(&client).await;
    let holder = TokenHolder {
        namespace: "parallax",
        account: "parallax-prober",
        audience: Some(AUDIENCE),
        pod: Some(&pods[0]),
    };
    let token = holder.token(client.clone()).await.unwrap();
    let mut plan = aggregator.follow(&authority, &token, "n1/pod").await;
    let mut slowest = Duration::ZERO;
    for node in ["n1", "n2", "n1"] {
        let moved = Instant::now();
        entry_on(&client, node).await;
        plan.read_until(&format!("direct|http://first.example.test/|nginx-on-{node}"))
            .await;
        slowest = slowest.max(moved.elapsed());
    }
    print_uncaptured(&format!(
        "MEASURED: a moved endpoint is placed {slowest:?} after its EndpointSlice changed, at the slowest of three"
    ));
    assert!(slowest < NEW_PLACEMENT_LIMIT);
}

#[tokio::test]
async fn gateways_that_are_defined_later_are_found_and_an_api_server_that_is_killed_costs_nothing() {
    let _turn = lock().await;
    let Some(mut plane) = plane("a killed API server").await else {
        return;
    };
    let client = plane.admin().await.unwrap();
    let mesh = SmallMesh::start(&plane, &client).await;
    let aggregator = &mesh.aggregator;
    publish(&client, "shop.example.test").await;
    wait_until_probed(aggregator, "shop.example.test").await;

    define_gateways(&client).await;
    gateway(&client, "gate.example.test").await;
    until("a route's host is a target", async || {
        let state = aggregator.state().await;
        let targets = state["targets"].as_array()?;
        targets
            .contains(&json!("http://gate.example.test/"))
            .then_some(())
    })
    .await;

    let before = aggregator.state().await["targets"].clone();
    plane.kill_api_server();
    until("the page shows the age of the topology", async || {
        let state = aggregator.state().await;
        (!state["topology_error"].is_null() && aggregator.metric("parallax_topology_age_seconds").await > 0.0)
            .then_some(())
    })
    .await;
    let probes = aggregator.metric("parallax_probes_total").await;
    until("probing continues", async || {
        (aggregator.metric("parallax_probes_total").await > probes).then_some(())
    })
    .await;
    assert_eq!(aggregator.state().await["targets"], before);

    plane.start_api_server().await.unwrap();
    publish(&client, "after.example.test").await;
    wait_until_probed(aggregator, "after.example.test").await;
    aggregator.wait_until_watching().await;
    assert!(aggregator.metric("parallax_topology_age_seconds").await <= 0.0);
    let after = aggregator.state().await["targets"].clone();
    let lost: Vec<&Value> = before
        .as_array()
        .unwrap()
        .iter()
        .filter(|id| !after.as_array().unwrap().contains(id))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

async fn gateway(client: &Client, host: &str) {
    let api = |kind: &str| {
        let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind);
        Api::<DynamicObject>::namespaced_with(client.clone(), "shop", &ApiResource::from_gvk(&kind))
    };
    let params = PatchParams::apply("test");
    let gateway = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "gate"},
        "spec": {"gatewayClassName": "public", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
        "status": {"addresses": [{"type": "IPAddress", "value": BALANCER.to_string()}]}});
    api("Gateway")
        .patch("gate", &params, &Patch::Apply(gateway))
        .await
        .unwrap();
    let route = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "gate"},
        "spec": {"parentRefs": [{"name": "gate"}], "hostnames": [host]}});
    api("HTTPRoute")
        .patch("gate", &params, &Patch::Apply(route))
        .await
        .unwrap();
}
