//! Whose kernel a lab runs on: one of its own (user-mode Linux), or this machine's.
//!
//! User-mode Linux has IPVS and no translation by nftables; many other kernels have it the other way round. So what is of
//! nftables runs on this machine's kernel where that is possible, and is made with rules of iptables elsewhere, which is
//! said.

use std::{fmt, path::Path, process::Command};

use serde::{Deserialize, Serialize};

use crate::{host, incident::Dataplane};

/// The kernel of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// One of its own, as an ordinary process.
    Uml,
    /// This machine's, in namespaces of the lab's own.
    Host,
}

/// Where a lab is built, and what to know about that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// The kernel.
    pub kernel: Kernel,
    /// What was not possible, and what is done instead; one line.
    pub instead: Option<String>,
}

/// This machine's kernel was asked for and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this machine's kernel cannot be used: {0}")]
pub struct Unusable(String);

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uml => "user-mode Linux",
            Self::Host => "this machine's, in namespaces",
        })
    }
}

impl Ground {
    /// The ground for a data plane. Where nobody asks for a kernel, what is of nftables takes this machine's if it can.
    pub fn choose(dataplane: Dataplane, asked: Option<Kernel>) -> Result<Self, Unusable> {
        Self::from(dataplane, asked, usable)
    }

    fn from(
        dataplane: Dataplane,
        asked: Option<Kernel>,
        usable: impl FnOnce() -> Result<(), String>,
    ) -> Result<Self, Unusable> {
        let on = |kernel| Self {
            kernel,
            instead: None,
        };
        match asked {
            Some(Kernel::Host) if !dataplane.is_nftables() => Err(Unusable(
                "only the data planes of nftables are made on it; the others need what is in user-mode Linux"
                    .to_owned(),
            )),
            Some(Kernel::Host) => usable().map(|()| on(Kernel::Host)).map_err(Unusable),
            None if dataplane.is_nftables() => Ok(match usable() {
                Ok(()) => on(Kernel::Host),
                Err(why) => Self {
                    kernel: Kernel::Uml,
                    instead: Some(format!(
                        "no nftables on this machine's kernel ({why}): rules of iptables in user-mode Linux do the same \
                         to packets"
                    )),
                },
            }),
            Some(Kernel::Uml) if dataplane.is_nftables() => Ok(Self {
                kernel: Kernel::Uml,
                instead: Some(
                    "nftables was not asked for: rules of iptables in user-mode Linux do the same to packets"
                        .to_owned(),
                ),
            }),
            None | Some(Kernel::Uml) => Ok(on(Kernel::Uml)),
        }
    }
}

/// Tries what a lab needs of this machine's kernel, in namespaces that are gone afterwards. The error is the reason, for
/// people.
fn usable() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("that takes root".to_owned());
    }
    // Not to be made by us: loading it changes what the bridges of this machine do.
    if !Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables").exists() {
        return Err("br_netfilter is not loaded; if you want it, run modprobe br_netfilter".to_owned());
    }
    let output = Command::new("unshare")
        .args(host::NAMESPACES)
        .args(["sh", "-c", host::TRIAL])
        .output()
        .map_err(|error| format!("running unshare: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    Err(match last {
        Some(line) => format!("a trial of it failed: {}", crate::packets::printable(line)),
        None => format!("a trial of it ended with {}", output.status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Result<(), String> {
        panic!("nothing is to be tried")
    }

    #[test]
    fn what_is_of_nftables_takes_this_machines_kernel_where_it_can_and_says_why_where_not() {
        let can = Ground::from(Dataplane::Nftables, None, || Ok(())).unwrap();
        assert_eq!((can.kernel, can.instead), (Kernel::Host, None));
        let cannot = Ground::from(Dataplane::NftablesOld, None, || Err("that takes root".into())).unwrap();
        assert_eq!(cannot.kernel, Kernel::Uml);
        let line = cannot.instead.unwrap();
        assert!(
            line.contains("that takes root") && line.contains("iptables in user-mode Linux"),
            "{line}"
        );
        assert!(!line.contains('\n'));
    }

    #[test]
    fn every_other_data_plane_has_a_kernel_of_its_own_and_cannot_ask_for_another() {
        for dataplane in [Dataplane::Ipvs, Dataplane::Iptables] {
            let ground = Ground::from(dataplane, None, never).unwrap();
            assert_eq!((ground.kernel, ground.instead), (Kernel::Uml, None));
            let error = Ground::from(dataplane, Some(Kernel::Host), never).unwrap_err();
            assert!(error.to_string().contains("only the data planes of nftables"));
        }
    }

    #[test]
    fn who_asks_for_this_machines_kernel_gets_no_other() {
        let error = Ground::from(Dataplane::Nftables, Some(Kernel::Host), || {
            Err("that takes root".into())
        });
        assert_eq!(
            error.unwrap_err().to_string(),
            "this machine's kernel cannot be used: that takes root"
        );
        let uml = Ground::from(Dataplane::Nftables, Some(Kernel::Uml), never).unwrap();
        assert_eq!(uml.kernel, Kernel::Uml);
        assert!(uml.instead.is_some());
    }
}
