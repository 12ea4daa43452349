//! The program's requests after a rollback.

use super::check;
use crate::arch::Rewound;
use crate::posting;
use crate::requests::{self, Kind, State};

/// Makes the real requests of the restored records again, receives in the order in which they were posted.
pub fn repost() -> Result<(), Rewound> {
    let indices = requests::table().by_age();
    for index in indices {
        let Some((kind, state)) = requests::get(index).map(|request| (request.kind, request.state)) else {
            continue;
        };
        match kind {
            Kind::Receive(envelope) if state == State::Active => {
                let (state, real_request, rc) = posting::receive(envelope);
                check(rc)?;
                requests::set_real(index, real_request);
                requests::set_state(index, state);
            }
            Kind::PersistentSend(..) | Kind::PersistentReceive(_) => {
                let (real_request, rc) = posting::persistent(&kind);
                check(rc)?;
                requests::set_real(index, real_request);
                // A receive: at a cut all sends have ended.
                if state == State::Active {
                    check(posting::start_again(index))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
