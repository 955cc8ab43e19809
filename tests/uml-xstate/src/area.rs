//! The XSAVE area of a process in the standard format, as `ptrace` expects it for `NT_X86_XSTATE`. Pure.
//!
//! Intel SDM, volume 1, chapter 13.4: 512 bytes of legacy region, a header of 64 bytes, then the state components at
//! the offsets given by CPUID. A component whose bit in `XSTATE_BV` (the first 8 bytes of the header) is clear is in
//! its initial configuration, and its bytes are ignored.

use std::ops::Range;

/// Size of the buffer in user-mode Linux up to 6.12, in bytes: `HOST_FP_SIZE` in `arch/x86/um/user-offsets.c`.
pub const UML_AREA: usize = 2696;

/// Maximum size to which an area can be extended, in bytes. With AMX an area has 11 008.
pub const LARGEST: usize = 64 * 1024;

/// Legacy region and header; a shorter area contains no component bits.
const HEADER_END: usize = 576;

/// Bit `i` is set if the area contains component `i`.
const XSTATE_BV: Range<usize> = 512..520;

/// x87 and SSE: in the legacy region.
const LEGACY: u64 = 0b11;

/// End offsets of a CPU's state components in the standard format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XstateLayout {
    /// By component number; 0 for components that the CPU does not have or does not store in this area.
    ends: [usize; 64],
}

impl XstateLayout {
    /// A CPU with nothing beyond x87 and SSE.
    pub const LEGACY: Self = Self { ends: [0; 64] };

    /// Builds a layout from the number, offset and size of each component; numbers from 64 on do not exist.
    pub fn new(components: impl IntoIterator<Item = (usize, usize, usize)>) -> Self {
        let mut layout = Self::LEGACY;
        for (number, offset, size) in components {
            if let Some(end) = layout.ends.get_mut(number) {
                *end = offset.saturating_add(size);
            }
        }
        layout
    }

    /// Returns the components within the first `length` bytes, as bits of `XSTATE_BV`.
    #[must_use]
    pub fn within(&self, length: usize) -> u64 {
        let fits = |(number, end): (usize, &usize)| {
            let fits = (HEADER_END..=length).contains(end);
            u64::from(fits) << number
        };
        LEGACY | self.ends.iter().enumerate().map(fits).sum::<u64>()
    }
}

/// Reports whether the kernel rejects an area of `length` bytes only because it is shorter than the host's. Areas
/// rejected for other reasons (without a header, not a multiple of 8 bytes) or long enough are not extended.
#[must_use]
pub const fn is_too_short(length: usize, host: usize) -> bool {
    length >= HEADER_END && length.is_multiple_of(8) && length < host && host <= LARGEST
}

/// Copies an area that is [too short](is_too_short) into `extended`, which has the host's length. Components beyond
/// the short area are in their initial configuration.
pub fn extend(short: &[u8], extended: &mut [u8], layout: &XstateLayout) {
    let (kept, beyond) = extended.split_at_mut(short.len());
    kept.copy_from_slice(short);
    beyond.fill(0);
    let within = layout.within(short.len()).to_le_bytes();
    for (byte, mask) in kept[XSTATE_BV].iter_mut().zip(within) {
        *byte &= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Length of an area with AMX.
    const AMX: usize = 11_008;

    /// Sapphire Rapids: AVX, MPX (absent, its space is reserved), AVX-512, PKRU, tile configuration and data.
    fn sapphire_rapids() -> XstateLayout {
        XstateLayout::new([
            (2, 576, 256),
            (5, 1088, 64),
            (6, 1152, 512),
            (7, 1664, 1024),
            (9, 2688, 8),
            (17, 2752, 64),
            (18, 2816, 8192),
        ])
    }

    /// Bytes that differ from their neighbours, with the bits of `XSTATE_BV` that `bits` has.
    fn area(length: usize, bits: u64) -> Vec<u8> {
        let mut area: Vec<u8> = (1..=251_u8).cycle().take(length).collect();
        area[XSTATE_BV].copy_from_slice(&bits.to_le_bytes());
        area
    }

    fn bits(area: &[u8]) -> u64 {
        u64::from_le_bytes(area[XSTATE_BV].try_into().unwrap())
    }

    #[test]
    fn a_short_area_is_kept_byte_by_byte_and_followed_by_zeros() {
        let short = area(UML_AREA, 0x2e7);
        let mut extended = vec![0xff; AMX];
        extend(&short, &mut extended, &sapphire_rapids());
        assert_eq!(extended[..UML_AREA], short);
        assert!(extended[UML_AREA..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn tile_configuration_and_data_become_initial_and_what_lies_within_stays() {
        let short = area(UML_AREA, 0x2e7 | 1 << 17 | 1 << 18);
        let mut extended = vec![0; AMX];
        extend(&short, &mut extended, &sapphire_rapids());
        assert_eq!(bits(&extended), 0x2e7);
    }

    #[test]
    fn a_component_is_held_only_if_all_of_its_bytes_are() {
        let layout = sapphire_rapids();
        assert_eq!(layout.within(UML_AREA), 0x2e7, "PKRU ends at byte 2696");
        assert_eq!(layout.within(UML_AREA - 8), 0xe7);
        assert_eq!(
            layout.within(2815),
            0x2e7,
            "a byte of the tile configuration is missing"
        );
        assert_eq!(layout.within(2816), 0x2e7 | 1 << 17);
        assert_eq!(layout.within(AMX), 0x2e7 | 1 << 17 | 1 << 18);
        assert_eq!(layout.within(576), 0b11);
    }

    #[test]
    fn a_bit_that_the_cpu_does_not_know_is_cleared() {
        let short = area(UML_AREA, u64::MAX);
        let mut extended = vec![0; AMX];
        extend(&short, &mut extended, &XstateLayout::LEGACY);
        assert_eq!(bits(&extended), 0b11);
    }

    #[test]
    fn components_of_the_supervisor_and_impossible_numbers_are_in_no_area() {
        let layout = XstateLayout::new([(11, 0, 16), (64, 576, 8), (63, usize::MAX, 1)]);
        assert_eq!(layout.within(LARGEST), 0b11);
    }

    #[test]
    fn only_an_area_that_is_sound_and_shorter_than_the_hosts_is_too_short() {
        assert!(is_too_short(UML_AREA, AMX));
        assert!(is_too_short(576, 832));
        assert!(!is_too_short(UML_AREA, UML_AREA), "same length as the host's");
        assert!(
            !is_too_short(AMX, UML_AREA),
            "longer: the kernel reads what it needs"
        );
        assert!(!is_too_short(0, AMX));
        assert!(!is_too_short(568, AMX), "without a whole header");
        assert!(!is_too_short(2690, AMX), "not a multiple of 8");
        assert!(!is_too_short(UML_AREA, 0), "the host's length is unknown");
        assert!(!is_too_short(UML_AREA, LARGEST + 8), "larger than the maximum");
    }
}
