//! The CPU of a machine. User-mode Linux emulates a single one, and each system call inside switches between two processes
//! of the host: the guest's process and the kernel that traces it. On different CPUs of the host, each switch wakes another
//! CPU, and a guest with many probes is so slow that its queries time out. On one CPU, it is a context switch.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity};

/// Machines that this process has started.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Returns the command, to be followed by a program and its arguments, that keeps the program on one CPU. Machines take
/// turns; those of other processes begin with another CPU. Empty if the CPUs of this process are unknown.
pub(super) fn affinity_command() -> Vec<String> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let pid = usize::try_from(std::process::id()).unwrap_or_default();
    let turn = pid.wrapping_add(STARTED.fetch_add(1, Ordering::Relaxed));
    select(&allowed, turn).map_or_else(Vec::new, |cpu| {
        ["taskset", "--cpu-list", &cpu.to_string()]
            .map(str::to_owned)
            .into()
    })
}

fn select(allowed: &CpuSet, turn: usize) -> Option<usize> {
    let turn = turn.checked_rem(usize::try_from(allowed.count()).ok()?)?;
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).nth(turn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        for &cpu in cpus {
            set.set(cpu);
        }
        set
    }

    #[test]
    fn machines_take_turns_on_the_cpus_that_the_process_may_use() {
        let allowed = set(&[1, 4, 5]);
        let cpus: Vec<_> = (0..4).map(|turn| select(&allowed, turn)).collect();
        assert_eq!(cpus, [Some(1), Some(4), Some(5), Some(1)]);
    }

    #[test]
    fn no_cpu_is_selected_from_an_empty_set() {
        assert_eq!(select(&set(&[]), 3), None);
    }

    #[test]
    fn the_selected_cpu_is_one_that_this_process_may_use() {
        let command = affinity_command();
        let allowed = sched_getaffinity(None).unwrap();
        assert!(allowed.is_set(command.last().unwrap().parse().unwrap()));
    }
}
