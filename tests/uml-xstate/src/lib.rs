//! Lets user-mode Linux run on CPUs whose XSAVE area is larger than its buffer.
//!
//! User-mode Linux sets the floating-point state of its processes with `ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE,
//! …)` from a buffer of 2 696 bytes ([`UML_AREA`]). The host kernel requires exactly the size of the CPU's state
//! components and fails with `EFAULT` otherwise (`xstateregs_set` in `arch/x86/kernel/fpu/regset.c`). With AMX the
//! area has 11 008 bytes, so user-mode Linux panics when it starts its first process. Linux 6.13 queries the size from
//! the host instead (`host_fp_size`).
//!
//! The shared library of this crate is preloaded into `linux.uml` (`LD_PRELOAD`). Its `ptrace` extends an area that is
//! too short with components in their initial configuration, and passes every other request on unchanged. Nothing
//! inside the machine can use those components: tile data requires `arch_prctl(ARCH_REQ_XCOMP_PERM)`, which user-mode
//! Linux does not have.
//!
//! * [`area`]: the bytes of an area, pure;
//! * [`host_area`], [`XstateLayout::of_this_cpu`]: the CPU's properties, by CPUID;
//! * `preload`: the `ptrace` that is preloaded, the only file with `unsafe`.

pub mod area;
mod cpu;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod preload;

pub use area::{UML_AREA, XstateLayout};
pub use cpu::host_area;

/// File name of the shared library, as built by cargo.
pub const LIBRARY: &str = "libuml_xstate.so";
