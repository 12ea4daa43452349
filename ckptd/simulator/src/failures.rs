//! Times of node failures.
//!
//! Nodes fail independently, with exponentially distributed times between failures.

/// The next failure of each node.
#[derive(Clone, Debug)]
pub struct Failures {
    seed: u64,
    mtbf: f64,
    next: Vec<f64>,
}

impl Failures {
    pub fn new(seed: u64, nodes: usize, mtbf: f64) -> Self {
        let mut failures = Self {
            seed,
            mtbf,
            next: vec![0.0; nodes],
        };
        (0..nodes).for_each(|node| failures.draw_next(node));
        failures
    }

    /// Returns failures of the listed nodes at the listed times only.
    pub fn listed(nodes: usize, listed: &[(usize, f64)]) -> Self {
        let mut next = vec![f64::INFINITY; nodes];
        listed.iter().for_each(|&(node, at)| next[node] = at);
        let mtbf = f64::INFINITY;
        Self {
            seed: 0,
            mtbf,
            next,
        }
    }

    /// Returns the time of the node's next failure.
    #[inline]
    pub fn next(&self, node: usize) -> f64 {
        self.next[node]
    }

    /// Returns the time of the next failure of any node.
    pub fn earliest(&self) -> f64 {
        self.next.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Draws the next failure of the node that replaces this node.
    pub fn draw_next(&mut self, node: usize) {
        let before = self.next[node];
        let bits = mixed(self.seed ^ mixed(node as u64 ^ mixed(before.to_bits())));
        // In (0, 1].
        let part = ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64;
        self.next[node] = if self.mtbf.is_finite() {
            before - self.mtbf * part.ln()
        } else {
            f64::INFINITY
        };
    }
}

/// Returns the next number of SplitMix64.
///
/// Source: Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014.
fn mixed(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
