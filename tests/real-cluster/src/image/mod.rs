//! Images for the nodes: the product's, and one with the suite's own binary.

mod archive;
mod program;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

pub use archive::{Archive, File};
pub use program::link_statically;

/// Name and tag of the product's image if it is built here; the default of the chart.
pub const PRODUCT: &str = "localhost/parallax:0.1.0";
/// The same content with another tag, for an upgrade.
pub const RENAMED: &str = "localhost/parallax:0.1.0-again";
/// The previous version of the product.
pub const PREVIOUS: &str = "localhost/parallax:previous";
/// The suite's own binary: test application and control client.
pub const SUITE: &str = "localhost/parallax-real-cluster:1";

/// Root certificates in the product's image, as in `deploy/build-image`.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Images as tarballs.
#[derive(Debug, Clone)]
pub struct ImageTarballs {
    /// One per program.
    pub archives: Vec<PathBuf>,
    /// The product's binary.
    pub product: PathBuf,
}

/// Builds the images of the product and of its previous version if there is one, and the suite's if requested, as tarballs in a
/// directory. The product's image also trusts the suite's CA.
///
/// # Errors
/// A binary that cannot be linked or is missing, or a file that cannot be written.
pub async fn build(
    folder: &Path,
    (product, previous): (Option<&Path>, Option<&Path>),
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
    let archive = |names: &[&str], binary: &Path| -> anyhow::Result<Archive> {
        Ok(Archive {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            entrypoint: "/parallax",
            user: "65532:65532",
            files: vec![
                File::program("parallax", binary)?,
                File::text("etc/ssl/certs/ca-certificates.crt", roots.clone()),
            ],
        })
    };
    let mut archives = vec![written(
        folder,
        "product.tar",
        &archive(&[PRODUCT, RENAMED], &product)?,
    )?];
    if let Some(previous) = previous {
        let (binary, chart) = (previous.join("parallax"), previous_chart(previous));
        for needed in [&binary, &chart.join("Chart.yaml")] {
            anyhow::ensure!(
                needed.is_file(),
                "expected the previous version in {}, with the files parallax and chart/Chart.yaml",
                previous.display()
            );
        }
        archives.push(written(folder, "previous.tar", &archive(&[PREVIOUS], &binary)?)?);
    }
    if suite {
        let suite = link_statically("parallax-real-cluster", "parallax-real-cluster", folder).await?;
        let suite_archive = Archive {
            names: vec![SUITE.to_owned()],
            entrypoint: "/parallax-real-cluster",
            user: "65532:65532",
            files: vec![File::program("parallax-real-cluster", &suite)?],
        };
        archives.push(written(folder, "suite.tar", &suite_archive)?);
    }
    Ok(ImageTarballs { archives, product })
}

/// The chart of the previous version, in its directory.
#[must_use]
pub fn previous_chart(folder: &Path) -> PathBuf {
    folder.join("chart")
}

fn written(folder: &Path, name: &str, archive: &Archive) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    archive
        .write(&path)
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// Returns the product's binary for this machine, which queries the status: the given one, or the one next to this
/// program.
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
            "cannot find {}; build it with: cargo build --workspace",
            path.display()
        );
    }
    path.canonicalize()
        .with_context(|| format!("finding {}", path.display()))
}

/// Returns the directory of this program, or for a test the one above it.
fn target_folder() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("finding the path of this program")?;
    let folder = program
        .parent()
        .context("this program's path has no parent directory")?;
    let folder = if folder.ends_with("deps") {
        folder
            .parent()
            .context("the directory of tests has no parent directory")?
    } else {
        folder
    };
    Ok(folder.to_owned())
}
