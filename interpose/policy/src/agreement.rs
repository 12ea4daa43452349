//! How workers agree on a cut wherever each of them is: the part of one of them, without messages.
//!
//! ```text
//!   asked ─► gathering ──────────────► standing ──────────────► confirming ─────────► cut
//!            all look at every call    all have stood still     all stand still
//!                 │ somebody objects        │ somebody objects,      │ has gone on
//!                 └──────────► over ◄───────┴────────────────────────┘
//! ```
//!
//! Three votes (the runtime's `rounds`), each over when everybody has voted. Whoever has voted in
//! the first looks at every call about messages, and waits in none without looking. So whoever
//! knows that the first is over may stand still: nobody waits for a message of his without hearing
//! of the second. What cannot be left half-way, such as a collective, somebody may enter who has
//! not voted in the third; he says so before ([`Agreement::goes_on`]), and those that stand still
//! for his vote go on. His vote then objects, so there is no cut. A program may wait outside of
//! MPI, for memory or a file, say, for one that stands still: who has stood for long before the
//! third vote goes on, too. Who has voted in that one needs not: all have come to a call in the
//! second, and vote or go on from there. Numbers of attempts are the same everywhere, since nobody
//! begins one before he knows that the one before is over.

#[cfg(test)]
mod tests;

/// What a worker may do at a call where it could stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// Go on with the program.
    GoOn,
    Stand,
    /// Take the cut, which all do.
    Cut,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Over,
    Gathering,
    /// The second one; whether this worker has agreed.
    Standing {
        agrees: bool,
    },
    /// The third one; whether this worker has stood still since.
    Confirming {
        agrees: bool,
    },
    /// It has come to a cut.
    Agreed,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement {
    number: u64,
    /// The last one in which somebody has gone on.
    off: u64,
    phase: Phase,
}

impl Agreement {
    /// There was no attempt.
    pub const NONE: Agreement = Agreement {
        number: 0,
        off: 0,
        phase: Phase::Over,
    };

    /// The number of the present attempt, or of the last.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The last attempt in which somebody has gone on.
    pub fn off(&self) -> u64 {
        self.off
    }

    /// Whether an attempt is under way.
    pub fn is_under_way(&self) -> bool {
        self.phase != Phase::Over
    }

    /// Begins an attempt: this worker votes in the first vote, and looks at every call from now on.
    pub fn begin(&mut self) {
        self.number += 1;
        self.phase = Phase::Gathering;
    }

    /// The first vote is over. What this worker says in the second: whether it agrees; `None` if
    /// the attempt is over.
    pub fn gathered(&mut self, all_agree: bool, agrees: bool) -> Option<bool> {
        let agrees = agrees && self.off < self.number;
        self.phase = match all_agree {
            true => Phase::Standing { agrees },
            false => Phase::Over,
        };
        all_agree.then_some(agrees)
    }

    /// The second vote is over. What this worker says in the third: whether it still stands; `None`
    /// if the attempt is over.
    pub fn stood(&mut self, all_agree: bool) -> Option<bool> {
        let agrees = self.off < self.number;
        self.phase = match all_agree {
            true => Phase::Confirming { agrees },
            false => Phase::Over,
        };
        all_agree.then_some(agrees)
    }

    /// The third vote is over.
    pub fn confirmed(&mut self, all_agree: bool) {
        self.phase = if all_agree {
            Phase::Agreed
        } else {
            Phase::Over
        };
    }

    /// Whether this worker, which stands still, may go on as it has waited for long.
    pub fn may_give_up(&self) -> bool {
        matches!(self.phase, Phase::Standing { .. })
    }

    /// The cut has been taken, or put off.
    pub fn end(&mut self) {
        self.phase = Phase::Over;
    }

    /// This worker enters what it cannot leave half-way, or gives up. Whether others are to be
    /// told.
    pub fn goes_on(&mut self) -> bool {
        self.is_under_way() && self.hears(self.number)
    }

    /// Somebody has gone on in this attempt. Whether others are to be told.
    pub fn hears(&mut self, attempt: u64) -> bool {
        let is_news = attempt > self.off;
        self.off = self.off.max(attempt);
        is_news
    }

    /// What this worker may do.
    pub fn may(&self) -> May {
        match self.phase {
            Phase::Agreed => May::Cut,
            // Where somebody is in a later attempt, this one is over, and the end of its vote on
            // the way.
            Phase::Standing { agrees: true } | Phase::Confirming { agrees: true }
                if self.off != self.number =>
            {
                May::Stand
            }
            _ => May::GoOn,
        }
    }

    /// Whether the end of a vote is near: all who look may have come to it.
    pub fn is_hopeful(&self) -> bool {
        match self.phase {
            Phase::Gathering => self.off < self.number,
            Phase::Standing { .. } | Phase::Confirming { .. } => true,
            Phase::Over | Phase::Agreed => false,
        }
    }
}
