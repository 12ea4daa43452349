//! The program's requests after a rollback.

use super::check;
use crate::arch::Rewound;
use crate::posting;
use crate::requests::{self, Kind, State};

/// Makes the real requests of the restored records again, receives in the order in which they were posted.
pub fn repost() -> Result<(), Rewound> {
    for index in requests::table().by_age() {
        let Some(request) = requests::get(index) else { continue };
        let (kind, state) = (request.kind, request.state);
        match kind {
            Kind::Receive(envelope) if state == State::Active => {
                let (state, real_request, rc) = posting::receive(envelope);
                check(rc)?;
                *requests::real_mut(index) = real_request;
                if let Some(request) = requests::get(index) {
                    request.state = state;
                }
            }
            Kind::PersistentSend(..) | Kind::PersistentReceive(_) => {
                let (real_request, rc) = posting::persistent(&kind);
                check(rc)?;
                *requests::real_mut(index) = real_request;
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
