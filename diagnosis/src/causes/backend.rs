//! One endpoint fails while the EndpointSlice offers it.

use super::{Cause, remedy};
use crate::{kinds, region::RegionKind};

pub(crate) const CAUSES: &[Cause] = &[Cause {
    id: "P4",
    title: "an endpoint fails although it is offered as ready",
    regions: &[RegionKind::Backend],
    profile: |_| kinds::BACKEND,
    likelier: |_| 1.0,
    mechanism: |s| {
        format!(
            "endpoint {} fails through the address and directly, while the others answer: its readiness probe does not \
             test what clients need",
            s.member()
        )
    },
    remedies: |s| {
        let (namespace, name) = s.service_args();
        vec![
            remedy(
                format!("replace the pod {}", s.member()),
                Some(format!("kubectl -n {namespace} delete pod {}", s.member())),
                "its open connections end; one endpoint less until the new one is ready",
            )
            .not_when("the node under it is the cause: the new pod may land there again"),
            remedy(
                "make its readiness probe ask what clients ask",
                Some(format!(
                    "kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={name}"
                )),
                "a roll-out of the workload",
            ),
        ]
    },
}];
