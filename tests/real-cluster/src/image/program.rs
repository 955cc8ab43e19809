//! Programs that need nothing from the image they run in.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

/// Links a binary of the workspace statically, like `deploy/build-image --dev`, and copies it without debug
/// information to a directory.
///
/// # Errors
/// cargo or strip fail, or the toolchain did not link statically.
pub async fn link_statically(package: &str, binary: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // cargo sets this variable for programs that it runs.
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .args(["rustc", "--quiet", "--locked", "-p", package, "--bin", binary])
        .args(["--message-format", "json-render-diagnostics"])
        .args(["--", "-C", "target-feature=+crt-static"])
        .current_dir(&workspace)
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("starting {}", cargo.display()))?;
    if !output.status.success() {
        bail!(
            "linking {binary}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let linked = executable(&output.stdout, binary)
        .with_context(|| format!("cargo did not report the path of {binary}"))?;
    let copy = folder.join(binary);
    let stripped = Command::new("strip")
        .arg("--strip-debug")
        .arg("-o")
        .arg(&copy)
        .arg(&linked)
        .status()
        .await
        .context("starting strip; install binutils")?;
    ensure!(stripped.success(), "strip {}: {stripped}", linked.display());
    ensure_static(&copy).await?;
    Ok(copy)
}

/// Finds the path in cargo's messages, one JSON document per line.
fn executable(messages: &[u8], binary: &str) -> Option<PathBuf> {
    String::from_utf8_lossy(messages)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == binary)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

async fn ensure_static(program: &Path) -> anyhow::Result<()> {
    let headers = Command::new("readelf")
        .args(["--wide", "--program-headers"])
        .arg(program)
        .output()
        .await
        .context("starting readelf; install binutils")?;
    ensure!(
        !String::from_utf8_lossy(&headers.stdout).contains("INTERP"),
        "{} is not statically linked, and an image from scratch has no dynamic loader",
        program.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_says_where_a_binary_is() {
        let messages =
            br#"{"reason":"compiler-artifact","target":{"name":"parallax-model"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"parallax"},"executable":"/w/target/debug/parallax"}
{"reason":"build-finished","success":true}"#;
        let found = executable(messages, "parallax");
        assert_eq!(found.as_deref(), Some(Path::new("/w/target/debug/parallax")));
        assert_eq!(executable(messages, "other"), None);
    }
}
