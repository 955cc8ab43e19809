//! The kernel that a lab runs on: its own (user-mode Linux), or this machine's.
//!
//! User-mode Linux has IPVS but no NAT in nftables; for many other kernels it is the other way round. Data planes with
//! nftables therefore run on this machine's kernel if possible, and use iptables rules otherwise. Data planes with
//! iptables run on this machine's kernel only if user-mode Linux does not boot. Both substitutes are announced.

mod trial;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use trial::uml as try_uml;

use crate::incident::{Dataplane, Incident};

/// The kernel of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Its own, as an ordinary process.
    Uml,
    /// This machine's, in private namespaces.
    Host,
}

/// The selected kernel, with a note about substitutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabKernel {
    /// The kernel.
    pub kernel: Kernel,
    /// Substitute and its reason, in one line.
    pub substitute: Option<String>,
}

/// No kernel on this machine can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoUsableKernel {
    /// This machine's kernel was requested.
    #[error("this machine's kernel cannot be used: {0}")]
    Host(String),
    /// Neither can be used.
    #[error(
        "user-mode Linux does not boot here: {uml}; and this machine's kernel cannot be used instead: {host}"
    )]
    Neither {
        /// Why user-mode Linux does not boot.
        uml: String,
        /// Why this machine's kernel cannot be used.
        host: String,
    },
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uml => "user-mode Linux",
            Self::Host => "this machine's, in namespaces",
        })
    }
}

/// Checks what can boot on this machine; errors are reasons for the user.
trait BootCheck {
    fn uml(&self) -> Result<(), String>;
    fn host(&self, dataplane: Dataplane) -> Result<(), String>;
}

struct ThisMachine;

impl BootCheck for ThisMachine {
    fn uml(&self) -> Result<(), String> {
        trial::uml()
    }

    fn host(&self, dataplane: Dataplane) -> Result<(), String> {
        trial::host(dataplane)
    }
}

impl LabKernel {
    /// Selects the kernel for an incident. Unless one is requested, nftables uses this machine's if possible, iptables
    /// only if user-mode Linux does not boot.
    pub fn choose(incident: &Incident, requested: Option<Kernel>) -> Result<Self, NoUsableKernel> {
        Self::on(&ThisMachine, incident, requested)
    }

    fn on(
        machine: &impl BootCheck,
        incident: &Incident,
        requested: Option<Kernel>,
    ) -> Result<Self, NoUsableKernel> {
        let dataplane = incident.dataplane;
        let own = incident.needs_own_kernel();
        match (requested, own) {
            (Some(Kernel::Host), Some(needs)) => Err(NoUsableKernel::Host(needs.to_owned())),
            (Some(Kernel::Host), None) => machine
                .host(dataplane)
                .map(|()| Self::without_substitute(Kernel::Host))
                .map_err(NoUsableKernel::Host),
            (Some(Kernel::Uml), _) if dataplane.is_nftables() => {
                Ok(Self::iptables_for_nftables("user-mode Linux was requested"))
            }
            (None, None) if dataplane.is_nftables() => Ok(match machine.host(dataplane) {
                Ok(()) => Self::without_substitute(Kernel::Host),
                Err(reason) => {
                    Self::iptables_for_nftables(&format!("no nftables on this machine's kernel ({reason})"))
                }
            }),
            (None, None) => match machine.uml() {
                Ok(()) => Ok(Self::without_substitute(Kernel::Uml)),
                Err(uml) => match machine.host(dataplane) {
                    Ok(()) => Ok(Self {
                        kernel: Kernel::Host,
                        substitute: Some(format!(
                            "user-mode Linux does not boot here: {uml}; iptables rules on this machine's kernel have the same effect on packets"
                        )),
                    }),
                    Err(host) => Err(NoUsableKernel::Neither { uml, host }),
                },
            },
            (None | Some(Kernel::Uml), _) => Ok(Self::without_substitute(Kernel::Uml)),
        }
    }

    const fn without_substitute(kernel: Kernel) -> Self {
        Self {
            kernel,
            substitute: None,
        }
    }

    fn iptables_for_nftables(reason: &str) -> Self {
        Self {
            kernel: Kernel::Uml,
            substitute: Some(format!(
                "{reason}: iptables rules in user-mode Linux have the same effect on packets"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    struct FakeKernel {
        uml: Option<Result<(), String>>,
        host: Option<Result<(), String>>,
    }

    impl BootCheck for FakeKernel {
        fn uml(&self) -> Result<(), String> {
            self.uml.clone().expect("user-mode Linux is not to be tried")
        }

        fn host(&self, _: Dataplane) -> Result<(), String> {
            self.host
                .clone()
                .expect("this machine's kernel is not to be tried")
        }
    }

    const UNTRIED: FakeKernel = FakeKernel {
        uml: None,
        host: None,
    };

    fn host(answer: Result<(), &str>) -> FakeKernel {
        FakeKernel {
            uml: None,
            host: Some(answer.map_err(str::to_owned)),
        }
    }

    fn both(uml: Result<(), &str>, host: Option<Result<(), &str>>) -> FakeKernel {
        FakeKernel {
            uml: Some(uml.map_err(str::to_owned)),
            host: host.map(|host| host.map_err(str::to_owned)),
        }
    }

    fn choose(
        machine: &FakeKernel,
        dataplane: Dataplane,
        requested: Option<Kernel>,
    ) -> Result<LabKernel, NoUsableKernel> {
        let text = include_str!("../incidents/f2.yaml");
        let mut incident = crate::incident_file::parse(Path::new("f2.yaml"), text).unwrap();
        incident.dataplane = dataplane;
        LabKernel::on(machine, &incident, requested)
    }

    #[test]
    fn nftables_takes_this_machines_kernel_where_it_can_and_says_why_where_not() {
        let can = choose(&host(Ok(())), Dataplane::Nftables, None).unwrap();
        assert_eq!((can.kernel, can.substitute), (Kernel::Host, None));
        let cannot = choose(&host(Err("root is required")), Dataplane::NftablesOld, None).unwrap();
        assert_eq!(cannot.kernel, Kernel::Uml);
        let line = cannot.substitute.unwrap();
        assert!(
            line.contains("root is required") && line.contains("iptables rules in user-mode Linux"),
            "{line}"
        );
        assert!(!line.contains('\n'));
    }

    #[test]
    fn ipvs_has_a_kernel_of_its_own_and_cannot_ask_for_another() {
        let ground = choose(&UNTRIED, Dataplane::IpvsOld, None).unwrap();
        assert_eq!((ground.kernel, ground.substitute), (Kernel::Uml, None));
        let error = choose(&UNTRIED, Dataplane::Ipvs, Some(Kernel::Host)).unwrap_err();
        assert!(error.to_string().contains("IPVS"), "{error}");
    }

    #[test]
    fn iptables_takes_this_machines_kernel_if_it_is_asked_for_or_user_mode_linux_does_not_boot() {
        let boots = choose(&both(Ok(()), None), Dataplane::Iptables, None).unwrap();
        assert_eq!((boots.kernel, boots.substitute), (Kernel::Uml, None));
        let chosen = choose(&host(Ok(())), Dataplane::Iptables, Some(Kernel::Host)).unwrap();
        assert_eq!((chosen.kernel, chosen.substitute), (Kernel::Host, None));
        let machine = both(Err("ptrace is not permitted"), Some(Ok(())));
        let instead = choose(&machine, Dataplane::IptablesNoClusterCidr, None).unwrap();
        assert_eq!(instead.kernel, Kernel::Host);
        assert!(instead.substitute.unwrap().contains("ptrace is not permitted"));
    }

    #[test]
    fn where_neither_serves_both_reasons_are_given() {
        let machine = both(Err("ptrace is not permitted"), Some(Err("root is required")));
        let error = choose(&machine, Dataplane::Iptables, None)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("here: ptrace is not permitted") && error.ends_with("instead: root is required"),
            "{error}"
        );
    }

    #[test]
    fn a_clock_of_its_own_takes_a_kernel_of_its_own() {
        let text = include_str!("../incidents/f2.yaml");
        let mut incident = crate::incident_file::parse(Path::new("f2.yaml"), text).unwrap();
        let op = serde_saphyr::from_str("step-clock: {seconds: 5}").unwrap();
        incident.faults[0].ops.push(op);
        let error = LabKernel::on(&UNTRIED, &incident, Some(Kernel::Host)).unwrap_err();
        assert!(error.to_string().contains("step-clock"), "{error}");
        let ground = LabKernel::on(&UNTRIED, &incident, None).unwrap();
        assert_eq!((ground.kernel, ground.substitute), (Kernel::Uml, None));
    }

    #[test]
    fn a_kernel_that_is_asked_for_is_never_replaced() {
        let error = choose(
            &host(Err("root is required")),
            Dataplane::Nftables,
            Some(Kernel::Host),
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "this machine's kernel cannot be used: root is required"
        );
        let uml = choose(&UNTRIED, Dataplane::Nftables, Some(Kernel::Uml)).unwrap();
        assert_eq!(uml.kernel, Kernel::Uml);
        assert!(uml.substitute.is_some());
    }
}
