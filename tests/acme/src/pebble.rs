//! Debian's Pebble, and an account with it.

use std::{fs, net::SocketAddr, process::Stdio, time::Duration};

use anyhow::{Context, bail};
use instant_acme::{Account, NewAccount};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time,
};

/// Address of its directory.
const DIRECTORY_ADDRESS: &str = "127.0.0.1:14000";

/// Timeout of its start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running Pebble. Stops on drop.
#[derive(Debug)]
pub struct Pebble {
    _process: Child,
    folder: TempDir,
}

impl Pebble {
    /// Starts it with real ports and this resolver.
    ///
    /// # Errors
    /// If it is missing, or does not start.
    pub async fn start(resolver: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("creating a directory for Pebble")?;
        certificates(&folder).context("creating Pebble's certificate")?;
        let path = |name: &str| folder.path().join(name);
        let settings = serde_json::json!({"pebble": {
            "listenAddress": DIRECTORY_ADDRESS,
            "managementListenAddress": "",
            "certificate": path("leaf.pem"),
            "privateKey": path("leaf.key"),
            "httpPort": 80,
            "tlsPort": 443,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": false,
        }});
        fs::write(path("pebble.json"), settings.to_string()).context("writing Pebble's settings")?;
        let log = fs::File::create(path("pebble.log")).context("creating Pebble's log")?;
        let mut process = Command::new("pebble")
            .arg("-config")
            .arg(path("pebble.json"))
            .args(["-dnsserver", resolver])
            .envs([
                ("PEBBLE_VA_NOSLEEP", "1"),
                ("PEBBLE_VA_ALWAYS_VALID", "0"),
                ("PEBBLE_WFE_NONCEREJECT", "0"),
                ("PEBBLE_AUTHZREUSE", "0"),
            ])
            .stdin(Stdio::null())
            .stderr(log.try_clone().context("sharing Pebble's log")?)
            .stdout(log)
            .kill_on_drop(true)
            .spawn()
            .context("starting pebble (tests/install-tools acme installs it)")?;
        wait_until_listening(
            DIRECTORY_ADDRESS.parse().context("parsing an address")?,
            &mut process,
        )
        .await?;
        Ok(Self {
            _process: process,
            folder,
        })
    }

    /// Creates an account.
    ///
    /// # Errors
    /// An error of the client or of Pebble.
    pub async fn account(&self) -> anyhow::Result<Account> {
        let wanted = NewAccount {
            contact: &[],
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let (account, _) = Account::builder_with_root(self.folder.path().join("ca.pem"))
            .context("trusting Pebble's certificate")?
            .create(&wanted, format!("https://{DIRECTORY_ADDRESS}/dir"), None)
            .await
            .context("creating an account with Pebble")?;
        Ok(account)
    }
}

/// Waits until a process listens, by connecting repeatedly: an external program does not announce that it is ready.
///
/// # Errors
/// If it exits first, or takes too long.
pub async fn wait_until_listening(address: SocketAddr, process: &mut Child) -> anyhow::Result<()> {
    let asking = async {
        loop {
            if TcpStream::connect(address).await.is_ok() {
                return Ok(());
            }
            if let Some(status) = process.try_wait().context("checking a process")? {
                bail!("it exited with {status} before it listened on {address}");
            }
            time::sleep(Duration::from_millis(20)).await;
        }
    };
    time::timeout(START_TIMEOUT, asking)
        .await
        .with_context(|| format!("nothing listens on {address} after {START_TIMEOUT:?}"))?
}

fn certificates(folder: &TempDir) -> anyhow::Result<()> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let leaf = leaf.signed_by(&key, &issuer)?;
    for (name, text) in [
        ("ca.pem", certificate.pem()),
        ("leaf.pem", leaf.pem()),
        ("leaf.key", key.serialize_pem()),
    ] {
        fs::write(folder.path().join(name), text)?;
    }
    Ok(())
}
