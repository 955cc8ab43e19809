//! The claims of a sentence and the evidence that each one requires.
//!
//! A mechanism consists of clauses. A clause that only names the mechanism is covered by the probability and is always
//! allowed. A clause that states an observation, or something that the cluster publishes, carries it as a [`Claim`] and
//! is omitted if the claim does not hold, so no sentence says more than its table.

use parallax_model::{Channel, FailureKind, KindClass};

use super::{
    CauseContext,
    table::{PredictedFailure, RowKey, TablePart},
};
use crate::{
    evidence::cells::is_through_front,
    topology::{EndpointCondition, Service},
};

/// A verifiable statement that a clause makes in addition to the mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    // === about the table ===
    /// Every probe that certainly crosses the region failed.
    AllFail,
    /// At least 19 of 20 probes that certainly cross the region failed.
    NearlyAllFail,
    /// Probes of more than one channel failed in the region.
    SeveralChannels,
    /// More than one client sent probes, and every client failed in the region.
    EveryClient,
    /// Every probe through the address failed.
    AddressFails,
    /// Direct probes reached the endpoints.
    EndpointsPass,
    /// Every direct probe of the endpoints failed.
    EndpointsFail,
    /// Direct probes from the region's node reached the endpoints.
    EndpointsPassFromMember,
    /// Connections through the address that are known to have reached the region's endpoint failed.
    MemberFailsThroughAddress,
    /// Direct connections to the region's endpoint failed.
    MemberFailsDirectly,
    /// Probes of endpoints other than the region's passed.
    OtherEndpointsPass,
    /// Probes from the region's node to itself passed.
    PassesFromItself,
    /// Probes from the region's node to itself failed.
    FailsFromItself,
    /// Probes from the region's node that do not cross the region passed: for `client`, those to the Pods on the node.
    MemberReachesOwnPods,
    /// Probes that stayed within a node passed.
    WithinNodePasses,
    /// Probes between nodes passed.
    BetweenNodesPasses,
    /// The region's address answers clients on other nodes.
    AddressPassesElsewhere,
    /// The region's address answers clients inside the cluster.
    AddressPassesInside,
    /// Probes by IP address from the region's node passed.
    ByAddressPasses,
    /// Other names than the region's resolve, or names resolve on other nodes.
    OtherNamesPass,

    // === about the failures ===
    /// Most failures are of one class.
    MostlyClass(KindClass),
    /// Most failures carry a response: an HTTP status or content.
    Answered,
    /// At least one response redirected the client.
    Redirected,
    /// Most failures are of one of these kinds.
    MostlyKinds(&'static [FailureKind]),

    // === about published objects ===
    /// The entry belongs to a controller that forwards to the application.
    Routed,
    /// The Service has no usable endpoint.
    NoEndpoint,
    /// The Service behind the route has no ready endpoint.
    NoOrigin,
    /// The resolver's Service has no usable endpoint.
    NoResolver,
    /// Kubernetes withdrew the Service's endpoints because nodes were not ready.
    Withdrawn,
    /// The Service is that of the API server.
    ApiServer,
    /// The Service has endpoints, and all of them are ready.
    Ready,
    /// The region's endpoint is ready.
    MemberReady,
    /// The region's endpoint is not ready.
    MemberUnready,

    // === about DNS queries ===
    /// DNS queries over TCP were lost as well.
    LostOverTcp,
    /// One of two parallel DNS queries was lost while the other was answered, and a retry succeeded.
    OneOfTwoLost,
}

impl Claim {
    /// Reports whether the claim holds.
    pub(crate) fn holds(self, s: &CauseContext<'_>) -> bool {
        // Rows of a latency unit count slow probes, not failed ones.
        self.published_state(s)
            .unwrap_or_else(|| !s.is_latency && self.observed(s))
    }

    /// Evaluates claims about published state and resolver queries; `None` for claims about the table or the failures.
    fn published_state(self, s: &CauseContext<'_>) -> Option<bool> {
        let lacks = |service: Option<&Service>| service.is_some_and(|service| service.usable().is_empty());
        let member = |wanted: fn(EndpointCondition) -> bool| {
            let endpoints = s.service.map_or(&[][..], |service| service.endpoints.as_slice());
            let is = |pod: &String| {
                let endpoint = endpoints.iter().find(|endpoint| endpoint.pod.as_str() == pod);
                endpoint.is_some_and(|endpoint| wanted(endpoint.condition))
            };
            // Of a tie, any endpoint may be the one that is meant.
            match s.tied_endpoints.as_slice() {
                [] => s.members.first().is_some_and(is),
                tied => tied.iter().all(is),
            }
        };
        Some(match self {
            Self::Routed => s.controller.is_present(),
            Self::NoEndpoint => lacks(s.service),
            Self::NoOrigin => s.origin.is_some_and(|service| !service.has_ready_endpoint()),
            Self::NoResolver => lacks(s.resolver.service),
            Self::Withdrawn => s.withdrawal.is_some(),
            Self::ApiServer => s.service.is_some_and(Service::is_api_server),
            Self::Ready => s.pods_are_ready(),
            Self::MemberReady => member(|condition| condition == EndpointCondition::Ready),
            Self::MemberUnready => member(|condition| condition == EndpointCondition::Unready),
            Self::LostOverTcp => s.resolver.symptoms.lost_over_tcp(),
            Self::OneOfTwoLost => s.resolver.symptoms.indicates_race(),
            _ => return None,
        })
    }

    fn observed(self, s: &CauseContext<'_>) -> bool {
        let sum = |meant: &dyn Fn(&RowKey) -> bool| s.table.sum(meant);
        let own = |key: &RowKey| key.part == TablePart::Own;
        let sure = |key: &RowKey| own(key) && key.prediction == PredictedFailure::Certain;
        let address =
            |key: &RowKey| own(key) && is_through_front(key.channel) && key.channel != Channel::Proxied;
        let direct = |key: &RowKey| own(key) && key.channel == Channel::Direct;
        match self {
            Self::AllFail => sum(&sure).all_fail(),
            Self::NearlyAllFail => {
                let sum = sum(&sure);
                sum.probes > 0 && sum.failures * 20 >= sum.probes * 19
            }
            Self::SeveralChannels => {
                let failing = |channel: &&Channel| {
                    sum(&|key: &RowKey| sure(key) && key.channel == **channel).some_fail()
                };
                Channel::ALL.iter().filter(failing).count() > 1
            }
            Self::EveryClient => s.clients.probing > 1 && s.clients.failing == s.clients.probing,
            Self::AddressFails => {
                sum(&|key: &RowKey| address(key) && key.prediction == PredictedFailure::Certain).all_fail()
            }
            Self::EndpointsPass => sum(&direct).pass(),
            Self::EndpointsFail => sum(&direct).all_fail(),
            Self::EndpointsPassFromMember => {
                sum(&|key: &RowKey| direct(key) && key.from_member == Some(true)).pass()
            }
            Self::MemberFailsThroughAddress => {
                sum(&|key: &RowKey| address(key) && key.to_member == Some(true)).some_fail()
            }
            Self::MemberFailsDirectly => {
                sum(&|key: &RowKey| direct(key) && key.to_member == Some(true)).some_fail()
            }
            Self::OtherEndpointsPass => sum(&|key: &RowKey| own(key) && key.to_member == Some(false)).pass(),
            Self::PassesFromItself => {
                let sum = sum(&|key: &RowKey| own(key) && to_itself(key));
                // A single probe may predate the fault.
                sum.probes > 1 && sum.pass()
            }
            Self::FailsFromItself => sum(&|key: &RowKey| own(key) && to_itself(key)).all_fail(),
            Self::MemberReachesOwnPods => sum(&|key: &RowKey| {
                own(key) && key.from_member == Some(true) && key.prediction == PredictedFailure::Outside
            })
            .pass(),
            Self::WithinNodePasses => sum(&|key: &RowKey| own(key) && key.within_node == Some(true)).pass(),
            Self::BetweenNodesPasses => {
                sum(&|key: &RowKey| own(key) && key.within_node == Some(false)).pass()
            }
            Self::AddressPassesElsewhere | Self::AddressPassesInside => {
                sum(&|key: &RowKey| address(key) && key.prediction == PredictedFailure::Outside).pass()
            }
            Self::ByAddressPasses => {
                let by_address = |key: &RowKey| key.channel != Channel::Dns && key.from_member == Some(true);
                sum(&by_address).pass()
            }
            Self::OtherNamesPass => sum(&|key: &RowKey| {
                key.channel == Channel::Dns && key.prediction == PredictedFailure::Outside
            })
            .pass(),
            Self::MostlyClass(class) => s.share(&[class]) > 0.5,
            Self::Answered => s.share(&[KindClass::Http4xx, KindClass::Http5xx]) > 0.5,
            Self::Redirected => s.kind_share(is_redirect) > 0.0,
            Self::MostlyKinds(kinds) => s.share_of_kinds(kinds) > 0.5,
            _ => false,
        }
    }
}

fn to_itself(key: &RowKey) -> bool {
    key.to_member == Some(true) && key.from_member == Some(true)
}

/// Reports whether a failure shows that the response redirected the client.
pub(crate) fn is_redirect(kind: &FailureKind, status: Option<u16>) -> bool {
    matches!(
        kind,
        FailureKind::RedirectRefused | FailureKind::RedirectLoop | FailureKind::RedirectTooMany
    ) || status.is_some_and(|status| (300..400).contains(&status) && status != 304)
}

/// A part of a sentence with its claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) text: String,
    pub(crate) claims: Vec<Claim>,
}

/// Builder of a sentence; a clause is added only if its claims hold.
#[derive(Debug)]
pub(crate) struct Wording<'s, 'a> {
    context: &'s CauseContext<'a>,
    clauses: Vec<Clause>,
}

/// Alternative text with its claims.
pub(crate) type ClaimedText<'t> = (&'t [Claim], String);

impl<'s, 'a> Wording<'s, 'a> {
    pub(crate) const fn new(situation: &'s CauseContext<'a>) -> Self {
        Self {
            context: situation,
            clauses: Vec::new(),
        }
    }

    /// Adds a clause that names the mechanism and claims nothing else.
    pub(crate) fn add(self, text: impl Into<String>) -> Self {
        self.add_if(&[], text)
    }

    /// Adds a clause if all of its claims hold.
    pub(crate) fn add_if(mut self, claims: &[Claim], text: impl Into<String>) -> Self {
        if claims.iter().all(|claim| claim.holds(self.context)) {
            self.clauses.push(Clause {
                text: text.into(),
                claims: claims.to_vec(),
            });
        }
        self
    }

    /// Adds the first alternative whose claims all hold.
    pub(crate) fn add_first<'t>(mut self, ways: impl IntoIterator<Item = ClaimedText<'t>>) -> Self {
        let holds = |(claims, _): &ClaimedText<'_>| claims.iter().all(|claim| claim.holds(self.context));
        if let Some((claims, text)) = ways.into_iter().find(holds) {
            self.clauses.push(Clause {
                text,
                claims: claims.to_vec(),
            });
        }
        self
    }

    pub(crate) fn clauses(self) -> Vec<Clause> {
        self.clauses
    }
}

/// Joins clauses into a sentence.
pub(crate) fn join_clauses(clauses: &[Clause]) -> String {
    clauses.iter().map(|clause| clause.text.as_str()).collect()
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
