//! Storage that survives the aggregator's Pod.

use k8s_openapi::{
    api::core::v1::{
        EmptyDirVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec,
        PersistentVolumeClaimVolumeSource, Volume, VolumeResourceRequirements,
    },
    apimachinery::pkg::api::resource::Quantity,
};

use super::{meta::Component, values::Values};

/// Mount path of the volume.
pub(super) const MOUNT_PATH: &str = "/var/lib/parallax";
const CLAIM: &str = "parallax-data";

/// Builds the claim, if a volume is configured.
pub(super) fn persistent_volume_claim(values: &Values) -> Option<PersistentVolumeClaim> {
    let volume = values.volume.as_ref()?;
    Some(PersistentVolumeClaim {
        metadata: Component::Aggregator.metadata(CLAIM, values),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: volume.storage_class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), Quantity(volume.size.clone()))].into()),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}

/// Returns the claim's volume, or an `emptyDir`.
pub(super) fn volume(values: &Values) -> Volume {
    let bare = Volume {
        name: "data".to_owned(),
        ..Volume::default()
    };
    if values.volume.is_some() {
        Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: CLAIM.to_owned(),
                read_only: None,
            }),
            ..bare
        }
    } else {
        Volume {
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: Some(Quantity("1Gi".to_owned())),
                ..EmptyDirVolumeSource::default()
            }),
            ..bare
        }
    }
}
