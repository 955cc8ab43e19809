//! One endpoint of a Service fails.

use super::{Cause, Claim, Wording, remedy};
use crate::{inference::kind_profiles, regions::RegionKind, topology::Service};

pub(crate) const CAUSES: &[Cause] = &[Cause {
    id: "P4",
    title: "one endpoint fails",
    regions: &[RegionKind::Backend],
    profile: |_| kind_profiles::BACKEND,
    // An API server is not a replaceable Pod: P12. A Pod of the resolver: P10.
    weight: |s| {
        if s.service.is_some_and(Service::is_api_server) || s.resolver.service.is_some() {
            0.0
        } else {
            1.0
        }
    },
    mechanism: |s| {
        let endpoint = s.endpoints_text().unwrap_or_else(|| "it".to_owned());
        Wording::new(s)
            .add_first([
                (
                    &[
                        Claim::MemberFailsThroughAddress,
                        Claim::MemberFailsDirectly,
                        Claim::OtherEndpointsPass,
                    ][..],
                    format!(
                        "endpoint {endpoint} fails through the address and directly, while the others answer"
                    ),
                ),
                (
                    &[Claim::MemberFailsDirectly, Claim::OtherEndpointsPass],
                    format!("endpoint {endpoint} fails on direct connections, while the others answer"),
                ),
                (
                    &[Claim::OtherEndpointsPass],
                    format!("endpoint {endpoint} fails, while the others answer"),
                ),
                (&[], format!("endpoint {endpoint} fails")),
            ])
            .add_if(
                &[Claim::MemberReady],
                "; it is ready nevertheless, so its readiness probe does not test what clients need",
            )
            .add_if(
                &[Claim::MemberUnready],
                "; its EndpointSlice marks it as not ready",
            )
            .clauses()
    },
    remedies: |s| {
        let pods = s.endpoints_text().unwrap_or_else(|| "the endpoint".to_owned());
        // A command deletes no Pod that may be healthy.
        let pod = s.member().filter(|_| s.tied_endpoints.is_empty());
        vec![
            remedy(
                format!("replace the Pod {pods}"),
                pod.and_then(|pod| {
                    s.service_command(|namespace, _| format!("kubectl -n {namespace} delete pod {pod}"))
                }),
                "its open connections are closed; one endpoint fewer until the new Pod is ready",
            )
            .with_ineffective_when("its node is the cause: the new Pod may be scheduled there again"),
            remedy(
                "make its readiness probe test what clients need",
                s.service_command(|namespace, name| {
                    format!("kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={name}")
                }),
                "a rollout of the workload",
            ),
        ]
    },
}];
