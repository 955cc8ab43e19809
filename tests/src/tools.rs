//! Programs that the lab needs, and how to install missing ones.

use std::path::{Path, PathBuf};

use crate::kernel::Kernel;

/// Command that installs all of them on Debian and Ubuntu.
pub const INSTALL_COMMAND: &str = "install with: apt-get install user-mode-linux slirp iptables ipvsadm iproute2 kmod dnsmasq-base \
    tcpdump nginx-light haproxy unbound nftables";

/// Needed on either kernel. `nsenter`, `setpriv` and `unshare` belong to util-linux, which every Debian has.
const COMMON_PROGRAMS: [&str; 10] = [
    "ip", "dnsmasq", "tcpdump", "nginx", "haproxy", "unbound", "nft", "nsenter", "setpriv", "unshare",
];

/// Needed for user-mode Linux.
const UML_PROGRAMS: [&str; 5] = [
    "linux.uml",
    "slirp-fullbolt",
    "xtables-legacy-multi",
    "ipvsadm",
    "modprobe",
];

/// Needed on this machine's kernel.
const HOST_PROGRAMS: [&str; 1] = ["xtables-nft-multi"];

/// Searched too, because an ordinary user's `PATH` often lacks them.
const SYSTEM_PATHS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Missing programs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the lab needs {}; {INSTALL_COMMAND}", missing.join(", "))]
pub struct MissingPrograms {
    missing: Vec<&'static str>,
}

/// Checks that everything is installed that a lab on this kernel needs.
pub fn check(kernel: Kernel) -> Result<(), MissingPrograms> {
    let more: &[&str] = match kernel {
        Kernel::Uml => &UML_PROGRAMS,
        Kernel::Host => &HOST_PROGRAMS,
    };
    let needed = more.iter().chain(&COMMON_PROGRAMS);
    let missing: Vec<_> = needed.copied().filter(|tool| find(tool).is_none()).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(MissingPrograms { missing })
    }
}

/// Returns the path of a program.
#[must_use]
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_PATHS.iter().map(PathBuf::from))
        .map(|folder| folder.join(tool))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_one_line_with_the_way_to_install_it() {
        let line = MissingPrograms {
            missing: vec!["linux.uml", "dnsmasq"],
        }
        .to_string();
        assert_eq!(
            line,
            "the lab needs linux.uml, dnsmasq; install with: apt-get install user-mode-linux slirp iptables \
             ipvsadm iproute2 kmod dnsmasq-base tcpdump nginx-light haproxy unbound nftables"
        );
    }

    #[test]
    fn a_program_is_found_and_a_folder_is_none() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
        assert!(!is_program(Path::new("/tmp")));
    }
}
