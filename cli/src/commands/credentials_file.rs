//! The file of `--credentials`: which credentials a prober has, where their files are, and the hosts that they are for.
//!
//! It contains no secrets, and no message quotes it, in case that someone writes one into it.

use std::path::{Path, PathBuf};

use parallax_model::CredentialName;
use parallax_prober::{CredentialFiles, CredentialHeader, CredentialSource, CredentialStore, HostRule};
use serde::Deserialize;

use crate::exit::Failure;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CredentialsFile {
    credentials: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Entry {
    name: CredentialName,
    /// A mounted Secret; relative to the folder of the file.
    directory: PathBuf,
    /// The request header of the secret; without it, `Authorization`.
    header: Option<String>,
    hosts: Vec<String>,
    #[serde(default)]
    allow_plaintext: bool,
}

/// Reads and validates the file. The secrets themselves are read when a probe needs them, and may appear later.
pub(super) fn read(path: Option<&Path>) -> Result<Vec<CredentialSource>, Failure> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let wrong = |reason: &dyn std::fmt::Display| Failure::Usage(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the credentials file {}: {error}",
            path.display()
        ))
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let sources = parse(&text, folder).map_err(|reason| wrong(&reason))?;
    CredentialStore::new(sources.clone()).map_err(|error| wrong(&error))?;
    for source in &sources {
        if let CredentialFiles::Directory(directory) = &source.files
            && !directory.is_dir()
        {
            tracing::warn!(credential = %source.name, directory = %directory.display(),
                "the directory of a credential does not exist yet; its probes are not made until it does");
        }
    }
    Ok(sources)
}

fn parse(text: &str, folder: &Path) -> Result<Vec<CredentialSource>, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    let file: CredentialsFile =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    let entries = file.credentials.into_iter();
    let sources = entries.map(|entry| {
        let hosts = entry.hosts.iter().map(|host| host.parse::<HostRule>());
        let hosts = hosts
            .collect::<Result<_, _>>()
            .map_err(|error| format!("hosts of the credential {}: {error}", entry.name))?;
        let header = entry.header.as_deref().map(str::parse::<CredentialHeader>);
        let header = header
            .transpose()
            .map_err(|error| format!("header of the credential {}: {error}", entry.name))?;
        Ok(CredentialSource {
            header,
            name: entry.name,
            files: CredentialFiles::Directory(folder.join(entry.directory)),
            hosts,
            allow_plaintext: entry.allow_plaintext,
        })
    });
    sources.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_credential_has_a_directory_and_the_hosts_it_is_for() {
        let text = "credentials:\n- name: shop\n  directory: shop\n  hosts: [shop.example.com, '*.shop.example.com']\n- {name: proxy, directory: /run/proxy, hosts: [proxy.example.com], allowPlaintext: true}\n- {name: key, directory: key, header: X-Api-Key, hosts: [api.example.com]}\n";
        let sources = parse(text, Path::new("/etc/parallax")).unwrap();
        assert_eq!(sources.len(), 3);
        assert_eq!(
            sources[0].files,
            CredentialFiles::Directory("/etc/parallax/shop".into())
        );
        assert_eq!((sources[0].hosts.len(), sources[0].allow_plaintext), (2, false));
        assert_eq!(sources[1].files, CredentialFiles::Directory("/run/proxy".into()));
        assert!(sources[1].allow_plaintext && sources[1].header.is_none());
        assert_eq!(sources[2].header, "x-api-key".parse().ok());
        assert_eq!(parse("credentials: []", Path::new(".")).unwrap(), []);
    }

    #[test]
    fn a_mistake_is_named_and_a_secret_in_the_file_is_not_repeated() {
        for (entry, expected) in [
            (
                "{name: Shop, directory: a, hosts: [a.test]}",
                "the name of a credential",
            ),
            ("{name: shop, hosts: [a.test]}", "directory"),
            (
                "{name: shop, directory: a, hosts: ['*']}",
                "hosts of the credential shop",
            ),
            (
                "{name: shop, directory: a, hosts: [a.test], header: 'X-Api-Key: s3cret'}",
                "header of the credential shop: expected a header name",
            ),
            (
                "{name: shop, directory: a, hosts: [a.test], header: host}",
                "the header host cannot carry a credential",
            ),
            (
                "{name: shop, directory: a, hosts: [a.test], token: s3cret}",
                "token",
            ),
            (
                "{name: 'Bearer s3cret', directory: a, hosts: [a.test]}",
                "the name of a credential",
            ),
        ] {
            let message = parse(&format!("credentials: [{entry}]"), Path::new(".")).unwrap_err();
            assert!(
                message.contains(expected) && !message.contains("s3cret"),
                "{entry}: {message}"
            );
        }
    }
}
