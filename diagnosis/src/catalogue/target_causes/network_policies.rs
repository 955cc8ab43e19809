//! Traffic to the Pods that a `NetworkPolicy` or another filter blocks.

use parallax_model::FailureKind;

use crate::{
    catalogue::{CauseContext, Claim, Clause, Wording},
    topology::Service,
    verdict::Fact,
};

/// Reports whether connections to Pods that are all ready time out: something drops the packets.
pub(super) fn is_filtered(s: &CauseContext<'_>) -> bool {
    let silent = s.kind_share(|kind, _| *kind == FailureKind::ConnectTimeout) > 0.9;
    silent && s.pods_are_ready() && !s.controller.is_present()
}

pub(super) fn filtered_mechanism(s: &CauseContext<'_>) -> Vec<Clause> {
    if is_filtered(s) {
        let port = s
            .endpoint_port()
            .map_or_else(String::new, |port| format!(" on port {port}"));
        let service = s.service_text();
        let policy_text = match selecting_policies(s) {
            SelectingPolicies::Named(_, names) => format!(" (NetworkPolicy {names} selects the Pods)"),
            SelectingPolicies::Unknown | SelectingPolicies::None(_) => String::new(),
        };
        return Wording::new(s)
            .add_first([
                (
                    &[Claim::Ready, Claim::AddressFails, Claim::EndpointsFail][..],
                    format!("no connection to the ready Pods of {service}{port} succeeds: "),
                ),
                (
                    &[Claim::Ready],
                    format!("the Pods of {service} are ready but do not respond{port}: "),
                ),
            ])
            .add(format!(
                "a filter such as a NetworkPolicy, security group or host firewall drops the packets{policy_text}"
            ))
            .clauses();
    }
    let policy_text = match selecting_policies(s) {
        SelectingPolicies::Named(_, names) => {
            format!(": NetworkPolicy {names} selects them and may not allow it")
        }
        SelectingPolicies::Unknown | SelectingPolicies::None(_) => {
            ", as if a NetworkPolicy did not allow it".to_owned()
        }
    };
    Wording::new(s)
        .add_first([
            (
                &[Claim::Routed, Claim::Answered][..],
                format!(
                    "the controller answers for the host, but cannot reach the application's Pods{policy_text}"
                ),
            ),
            (
                &[Claim::Routed],
                format!("the controller cannot reach the application's Pods{policy_text}"),
            ),
            (
                &[],
                "a filter such as a NetworkPolicy, security group or host firewall blocks clients from the Pods"
                    .to_owned(),
            ),
        ])
        .clauses()
}

/// The `NetworkPolicies` that select the Pods of the final Service.
pub(super) enum SelectingPolicies<'a> {
    Unknown,
    None(&'a Service),
    /// `namespace/name`, separated by commas.
    Named(&'a Service, String),
}

pub(super) fn selecting_policies<'a>(s: &CauseContext<'a>) -> SelectingPolicies<'a> {
    let service = s.origin.or(s.service);
    let Some((service, policies)) = service.and_then(|service| Some((service, service.guarded_by.as_ref()?)))
    else {
        return SelectingPolicies::Unknown;
    };
    let names: Vec<String> = policies
        .iter()
        .map(|name| format!("{}/{name}", service.key.namespace))
        .collect();
    if names.is_empty() {
        SelectingPolicies::None(service)
    } else {
        SelectingPolicies::Named(service, names.join(", "))
    }
}

/// The fact about network policies of these Pods that moves F13 among the causes of its region. That a policy exists
/// does not prove that it blocks the traffic, and filters that a provider keeps outside of these objects are not
/// visible.
pub(in crate::catalogue) fn network_policy_fact(s: &CauseContext<'_>) -> Option<Fact> {
    let (text, multiplier) = match selecting_policies(s) {
        SelectingPolicies::Unknown => return None,
        SelectingPolicies::None(service) => (
            format!("no NetworkPolicy selects the Pods of Service {}", service.key),
            0.2,
        ),
        SelectingPolicies::Named(service, names) => (
            format!(
                "NetworkPolicy {names} restricts ingress to the Pods of Service {}",
                service.key
            ),
            3.0,
        ),
    };
    Some(Fact {
        text,
        multiplier,
        cause: Some("F13".to_owned()),
    })
}
