//! The Helm chart, rendered by a real Helm: it creates the objects of `parallax manifests`, and refuses wrong values.

mod files;
pub(crate) mod helm;
mod refused;
mod rendered;
