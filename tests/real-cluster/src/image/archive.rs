//! A container image of one layer as a tarball in the format of `docker save`, which every container runtime can
//! import.

use std::{collections::BTreeSet, fs, io, path::Path};

use anyhow::Context;
use ring::digest::{SHA256, digest};
use serde_json::json;
use tar::{Builder, EntryType, Header};

/// Contents of an image.
#[derive(Debug, Clone)]
pub struct Archive {
    /// Names with tags.
    pub names: Vec<String>,
    /// The program that a container runs.
    pub entrypoint: &'static str,
    /// User and group by number.
    pub user: &'static str,
    /// Its files.
    pub files: Vec<File>,
}

/// One file of the image.
#[derive(Debug, Clone)]
pub struct File {
    path: &'static str,
    mode: u32,
    content: Vec<u8>,
}

impl File {
    /// Builds an executable file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn program(path: &'static str, source: &Path) -> anyhow::Result<Self> {
        let content = fs::read(source).with_context(|| format!("reading {}", source.display()))?;
        Ok(Self {
            path,
            mode: 0o755,
            content,
        })
    }

    /// Builds a text file.
    #[must_use]
    pub fn text(path: &'static str, content: String) -> Self {
        Self {
            path,
            mode: 0o644,
            content: content.into_bytes(),
        }
    }
}

impl Archive {
    /// Writes the image.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let layer = self.layer().context("packing the layer")?;
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Entrypoint": [self.entrypoint], "User": self.user, "WorkingDir": "/", "Env": ["PATH=/"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
        });
        let config = serde_json::to_vec(&config)?;
        let config_name = format!("{}.json", sha256(&config));
        let manifest = json!([{"Config": config_name, "RepoTags": self.names, "Layers": ["layer.tar"]}]);
        let mut archive = Builder::new(io::BufWriter::new(fs::File::create(path)?));
        append(&mut archive, &config_name, 0o644, &config)?;
        append(&mut archive, "layer.tar", 0o644, &layer)?;
        append(
            &mut archive,
            "manifest.json",
            0o644,
            &serde_json::to_vec(&manifest)?,
        )?;
        archive.into_inner()?;
        Ok(())
    }

    fn layer(&self) -> io::Result<Vec<u8>> {
        let mut layer = Builder::new(Vec::new());
        let mut folders = BTreeSet::new();
        for file in &self.files {
            let above = Path::new(file.path).ancestors().skip(1);
            let mut above: Vec<_> = above.filter(|folder| !folder.as_os_str().is_empty()).collect();
            above.reverse();
            for folder in above {
                if folders.insert(folder.to_owned()) {
                    let mut header = header(0o755, 0);
                    header.set_entry_type(EntryType::Directory);
                    layer.append_data(&mut header, folder, io::empty())?;
                }
            }
            append(&mut layer, file.path, file.mode, &file.content)?;
        }
        layer.into_inner()
    }
}

/// Builds a header with root as owner and a fixed time, so that equal content gives an equal image.
fn header(mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn append(to: &mut Builder<impl io::Write>, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
    let size = u64::try_from(content.len()).map_err(io::Error::other)?;
    to.append_data(&mut header(mode, size), path, content)
}

fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in digest(&SHA256, bytes).as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the architecture as container runtimes name it.
const fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn equal_content_makes_an_equal_archive_and_its_layer_holds_files_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive {
            names: vec![
                "docker.io/library/shop:1".to_owned(),
                "docker.io/library/shop:2".to_owned(),
            ],
            entrypoint: "/shop",
            user: "65532:65532",
            files: vec![
                File::text("etc/ssl/roots.pem", "roots".to_owned()),
                File::text("etc/ssl/more.pem", "more".to_owned()),
            ],
        };
        let (one, two) = (folder.path().join("one.tar"), folder.path().join("two.tar"));
        archive.write(&one).unwrap();
        archive.write(&two).unwrap();
        assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());

        let mut manifest = String::new();
        let mut layer = Vec::new();
        for entry in tar::Archive::new(fs::File::open(&one).unwrap())
            .entries()
            .unwrap()
        {
            let mut entry = entry.unwrap();
            match entry.path().unwrap().to_str().unwrap() {
                "manifest.json" => drop(entry.read_to_string(&mut manifest).unwrap()),
                "layer.tar" => drop(entry.read_to_end(&mut layer).unwrap()),
                _ => {}
            }
        }
        assert!(manifest.contains("docker.io/library/shop:2"), "{manifest}");
        let paths: Vec<String> = tar::Archive::new(layer.as_slice())
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(paths, ["etc", "etc/ssl", "etc/ssl/roots.pem", "etc/ssl/more.pem"]);
    }
}
