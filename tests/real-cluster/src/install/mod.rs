//! What the suite installs: Parallax as users install it, the test application, and the control client.

mod application;
mod authority;
mod destinations;
mod helm_release;
mod leftovers;
mod product;

pub use application::{APPLICATION, Application, CLIENTS, write_certificate};
pub use authority::Authority;
pub use destinations::Destinations;
pub use leftovers::leftovers;
pub use product::{MissingComponent, NAMESPACE, ParallaxInstallation, PreviousVersion, ProductImages};

/// Label of everything that the suite creates; objects with it are deleted, others are not touched.
pub const SUITE_LABEL: &str = "parallax-real-cluster";
