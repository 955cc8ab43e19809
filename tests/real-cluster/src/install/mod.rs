//! What the suite installs: Parallax as users install it, the test application, and the control client.

mod application;
mod authority;
mod destinations;
mod product;

pub use application::{APPLICATION, Application, CLIENTS, certify};
pub use authority::Authority;
pub use destinations::Destinations;
pub use product::{MissingComponent, NAMESPACE, ParallaxInstallation};

/// The label of everything that the suite makes; what has it is removed, what lacks it is left alone.
pub const MARK: &str = "parallax-real-cluster";
