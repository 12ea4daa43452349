//! Random moments that can be repeated.

/// splitmix64 (Steele, Lea, Flood 2014).
pub struct Random(u64);

impl Random {
    /// Takes the seed from `FFI_TESTS_SEED` or the clock, and prints it.
    ///
    /// A failed test can be repeated with the printed seed.
    pub fn announced(test: &str) -> Random {
        let clock = || {
            std::time::UNIX_EPOCH
                .elapsed()
                .map_or(1, |time| time.as_nanos() as u64)
        };
        let seed = std::env::var("FFI_TESTS_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(clock);
        println!("{test}: FFI_TESTS_SEED={seed}");
        Random(seed)
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % limit
    }
}
