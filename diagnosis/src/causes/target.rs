//! The target fails whichever way it is approached.

use parallax_model::KindClass;

use super::{Cause, remedy};
use crate::{kinds, region::RegionKind};

const REGIONS: &[RegionKind] = &[RegionKind::Target];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F26",
        title: "no endpoints at all",
        // Without endpoints nothing is dialled directly, so the evidence is of the address alone.
        regions: &[RegionKind::Target, RegionKind::Vip],
        profile: |_| [1.0, 10.0, 0.1, 1.0, 0.1, 0.1, 0.1, 1.0, 0.1, 0.1],
        likelier: |s| {
            if s.service.is_some_and(|service| service.usable().is_empty()) {
                50.0
            } else {
                0.0
            }
        },
        mechanism: |s| {
            format!(
                "{} has no usable endpoint, so every node refuses",
                s.service_name()
            )
        },
        remedies: |s| {
            let (namespace, name) = s.service_args();
            vec![remedy(
                "bring an endpoint up: compare the Service's selector with its pods and their readiness",
                Some(format!(
                    "kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={name} -o yaml"
                )),
                "nothing: reading only",
            )]
        },
    },
    Cause {
        id: "F19",
        title: "ingress class, host conflict or path rewrite: nobody serves this host",
        regions: REGIONS,
        profile: |_| [0.1, 0.1, 0.2, 0.1, 0.1, 0.5, 8.0, 0.3, 0.1, 0.1],
        likelier: |s| {
            if s.share(&[KindClass::Http4xx]) > 0.0 {
                1.0
            } else {
                0.02
            }
        },
        mechanism: |_| "the controller answers and has no route for the host, or another's".to_owned(),
        remedies: |_| {
            vec![remedy(
                "compare the class, host and path of the Ingress with those of the controller that answers",
                Some("kubectl get ingress -A -o wide".to_owned()),
                "moving a host to another class moves all of its paths at once",
            )]
        },
    },
    Cause {
        id: "F20",
        title: "the pods behind the route do not serve",
        regions: REGIONS,
        profile: |_| [0.5, 0.3, 0.5, 0.1, 0.5, 0.1, 0.5, 8.0, 0.1, 0.1],
        likelier: |s| {
            if s.share(&[KindClass::Http5xx]) > 0.0 {
                1.0
            } else {
                0.02
            }
        },
        mechanism: |_| {
            "the controller answers for the host and finds no application pod that serves".to_owned()
        },
        remedies: |_| {
            vec![remedy(
                "look at the pods of the Service that the route leads to",
                Some("kubectl get pods -A --field-selector status.phase!=Running".to_owned()),
                "nothing: reading only",
            )]
        },
    },
    Cause {
        id: "P6",
        title: "every endpoint fails",
        regions: REGIONS,
        profile: |_| kinds::TARGET,
        likelier: |_| 0.5,
        mechanism: |_| "address and endpoints fail alike: the workload itself is down".to_owned(),
        remedies: |s| {
            let (namespace, name) = s.service_args();
            vec![remedy(
                "look at the workload behind the Service, its latest roll-out first",
                Some(format!(
                    "kubectl -n {namespace} get endpointslices,pods -l kubernetes.io/service-name={name} -o wide"
                )),
                "rolling back loses what the roll-out brought",
            )]
        },
    },
];
