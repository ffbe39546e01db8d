//! Numbers that look random and are a pure function of other numbers.

/// The increment of the SplitMix64 generator.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// One number from several: every bit of each moves every bit of the result.
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |state, &part| splitmix(state ^ splitmix(part)))
}

/// SplitMix64's output function.
pub(crate) fn splitmix(mut x: u64) -> u64 {
    x = x.wrapping_add(GOLDEN_GAMMA);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Number `index` of the SplitMix64 sequence that starts at `key`.
pub(crate) fn nth(key: u64, index: u64) -> u64 {
    splitmix(key.wrapping_add(index.wrapping_mul(GOLDEN_GAMMA)))
}
