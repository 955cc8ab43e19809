//! XSAVE areas of this machine according to CPUID leaf 0xD (Intel SDM, volume 2, "CPUID").

use crate::area::XstateLayout;

/// Returns the size of a process's XSAVE area on this machine in bytes; 0 if the CPU has none.
///
/// CPUID leaf 0xD, EBX: the size for the components that the kernel has enabled. The kernel requires the same size in
/// `ptrace` (`get_xsave_size_user` in `arch/x86/kernel/fpu/xstate.c`).
#[must_use]
pub fn host_area() -> usize {
    leaf(0).map_or(0, |leaf| leaf.ebx)
}

impl XstateLayout {
    /// Returns the layout of this machine's CPU.
    #[must_use]
    pub fn of_this_cpu() -> Self {
        // Sub-leaf i describes component i: EAX is its size, EBX its offset, bit 0 of ECX is set for supervisor
        // components.
        let component = |number: u32| {
            let leaf = leaf(number)?;
            let user = leaf.eax > 0 && leaf.ecx & 1 == 0;
            user.then_some((usize::try_from(number).ok()?, leaf.ebx, leaf.eax))
        };
        Self::new((2..64).filter_map(component))
    }
}

struct CpuidLeaf {
    eax: usize,
    ebx: usize,
    ecx: usize,
}

#[cfg(target_arch = "x86_64")]
fn leaf(number: u32) -> Option<CpuidLeaf> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    const XSTATE: u32 = 0xd;
    if __cpuid(0).eax < XSTATE {
        return None;
    }
    let leaf = __cpuid_count(XSTATE, number);
    let wide = |register: u32| usize::try_from(register).ok();
    Some(CpuidLeaf {
        eax: wide(leaf.eax)?,
        ebx: wide(leaf.ebx)?,
        ecx: wide(leaf.ecx)?,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn leaf(_number: u32) -> Option<CpuidLeaf> {
    None
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn the_area_holds_a_header_and_all_that_this_cpu_can_put_into_it() {
        let area = host_area();
        assert!(area >= 576 && area.is_multiple_of(8), "{area}");
        if is_x86_feature_detected!("avx") {
            assert!(area >= 832, "{area}");
            let layout = XstateLayout::of_this_cpu();
            assert_eq!(
                layout.within(832),
                0b111,
                "the upper halves of YMM end at byte 832"
            );
            assert_eq!(layout.within(831), 0b11);
        }
    }
}
