//! Images for the nodes: the product's, and that of the suite's own binary.

mod archive;
mod program;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

pub use archive::{Archive, File};
pub use program::link_statically;

/// Name and tag of the product's image where it is built here; the manifests name the same by default.
pub const PRODUCT: &str = "parallax:0.1.0";
/// The same content under another tag, for an upgrade.
pub const UPGRADE: &str = "parallax:0.1.0-again";
/// The suite's own binary: test application and control client.
pub const SUITE: &str = "parallax-real-cluster:1";

/// Root certificates that the product's image holds, as `deploy/build-image` takes them.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Images as tarballs.
#[derive(Debug, Clone)]
pub struct ImageTarballs {
    /// One a program.
    pub archives: Vec<PathBuf>,
    /// The product's binary.
    pub product: PathBuf,
}

/// Builds the product's image, and the suite's where it is wanted, as tarballs in a folder. The product trusts one root more: that of the suite.
///
/// # Errors
/// A binary that cannot be linked or is missing, or a file that cannot be written.
pub async fn build(
    folder: &Path,
    product: Option<&Path>,
    root_pem: &str,
    suite: bool,
) -> anyhow::Result<ImageTarballs> {
    let product = match product {
        Some(path) => path.to_owned(),
        None => link_statically("parallax-cli", "parallax", folder).await?,
    };
    let roots = std::fs::read_to_string(ROOTS)
        .with_context(|| format!("reading {ROOTS}; install ca-certificates"))?
        + root_pem;
    let product_archive = Archive {
        names: vec![canonical(PRODUCT), canonical(UPGRADE)],
        entrypoint: "/parallax",
        user: "65532:65532",
        files: vec![
            File::program("parallax", &product)?,
            File::text("etc/ssl/certs/ca-certificates.crt", roots),
        ],
    };
    let mut archives = vec![written(folder, "product.tar", &product_archive)?];
    if suite {
        let suite = link_statically("parallax-real-cluster", "parallax-real-cluster", folder).await?;
        let suite_archive = Archive {
            names: vec![canonical(SUITE)],
            entrypoint: "/parallax-real-cluster",
            user: "65532:65532",
            files: vec![File::program("parallax-real-cluster", &suite)?],
        };
        archives.push(written(folder, "suite.tar", &suite_archive)?);
    }
    Ok(ImageTarballs { archives, product })
}

fn written(folder: &Path, name: &str, archive: &Archive) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    archive
        .write(&path)
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// The name as a container runtime keeps it.
fn canonical(name: &str) -> String {
    format!("docker.io/library/{name}")
}

/// The product's binary for this machine, which prints manifests and asks for the status: the one that was named, or the
/// one beside this program.
///
/// # Errors
/// No such file.
pub fn command_line(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => target_folder()?.join("parallax"),
    };
    if !path.is_file() {
        bail!(
            "there is no {}; build it with: cargo build --workspace",
            path.display()
        );
    }
    path.canonicalize()
        .with_context(|| format!("finding {}", path.display()))
}

/// The folder of this program, or the one above it for a test.
fn target_folder() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("finding this program")?;
    let folder = program.parent().context("this program has no folder")?;
    let folder = if folder.ends_with("deps") {
        folder.parent().context("the folder of tests has no parent")?
    } else {
        folder
    };
    Ok(folder.to_owned())
}
