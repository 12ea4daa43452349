//! Recorder of the outcomes of calls.
#![allow(unsafe_code)]

use super::call_outputs::{Call, Piece, UnknownOutputs};
use super::format::{END_SLOT, Journal, Record, Site, Written};
use super::row::Unit;
use super::site_sizes::SiteSizes;
use super::typemap::TypeMaps;
use crate::arch::Frame;
use crate::generated::{DOUBLES, EXECUTED, Proc, RECEIVES};
use crate::handles::VirtRequest;
use crate::requests::{self, RequestState};
use crate::{events, world};
use std::collections::HashMap;
use std::ffi::c_void;
use understudy_formats::events::{Amount, Kind};
use understudy_objects::Runtime;

/// Recorder of a phase.
#[derive(Default)]
pub struct Recorder {
    journal: Journal,
    maps: TypeMaps,
    /// Pieces that are written when the request with this index completes.
    pieces_by_request: HashMap<u32, Vec<Piece>>,
    /// Pieces that were written by requests which completed in the present call.
    ended: Vec<Piece>,
    /// Number of bytes that a receive of the present call has received.
    received: Option<usize>,
    /// Sizes by call site, if event files are kept.
    accounts: Option<SiteSizes>,
}

impl Recorder {
    /// Returns a recorder without calls.
    pub fn new(with_accounts: bool) -> Recorder {
        Recorder {
            accounts: with_accounts.then(SiteSizes::default),
            ..Recorder::default()
        }
    }

    /// Records the completed call of a frame, made from `place`.
    pub fn call(
        &mut self,
        rt: &Runtime,
        frame: &Frame,
        place: u64,
        integer: u64,
        double: u64,
    ) -> Result<(), UnknownOutputs> {
        let received = self.received.take();
        let mut pieces = std::mem::take(&mut self.ended);
        let call = Call::of(frame).ok_or(UnknownOutputs)?;
        // `None` for a function of libc.
        let procedure = Proc::from_slot(frame.slot as u32);
        let is_one_of = |slots: &[u32]| slots.contains(&(frame.slot as u32));
        if is_one_of(&EXECUTED) {
            return Ok(());
        }
        let mut later = Vec::new();
        for output in call.outputs() {
            let is_message = matches!(output.unit, Unit::Datatype(_)) && is_one_of(&RECEIVES);
            let most = received.filter(|_| is_message).unwrap_or(usize::MAX);
            let list = if output.later {
                &mut later
            } else {
                &mut pieces
            };
            call.pieces(rt, output, most, &mut self.maps, |address, length| {
                list.push((address, length))
            })?;
        }
        if !later.is_empty() {
            self.store_later(rt, &call, later)?;
        }
        if procedure == Some(Proc::MPI_Type_free) {
            self.maps.clear();
        }
        let record = Record {
            slot: frame.slot as u16,
            arguments: call.hash(),
            result: if is_one_of(&DOUBLES) { double } else { integer },
            written: pieces.into_iter().map(read).collect(),
        };
        self.add(record, place);
        Ok(())
    }

    fn add(&mut self, record: Record, place: u64) {
        let accounts = &mut self.accounts;
        if let Some(accounts) = accounts {
            accounts.count_call((record.slot, place));
        }
        self.journal.add(record, place, |site, bytes| {
            count_bytes(accounts, site, bytes)
        });
    }

    /// Reports the sizes of the journal by call site.
    ///
    /// `kept` is the length of the stored journal, if it is stored.
    pub fn report_sizes(&mut self, rt: &Runtime, kept: Option<usize>) {
        if let Some(accounts) = &mut self.accounts {
            let journal = Amount {
                count: self.journal.calls,
                bytes: self.journal.size() as u64,
            };
            let table = accounts.table(world::worker(rt), journal, kept.map(|kept| kept as u64));
            events::emit(Kind::JournalCalls { calls: table });
        }
    }

    /// Stores the pieces that a request writes when it completes.
    ///
    /// The request's handle is the last output of the call that started it.
    fn store_later(
        &mut self,
        rt: &Runtime,
        call: &Call<'_>,
        pieces: Vec<Piece>,
    ) -> Result<(), UnknownOutputs> {
        let place = call.request().ok_or(UnknownOutputs)? as *const *mut c_void;
        // SAFETY: the procedure has written the handle at this address.
        let handle = VirtRequest(unsafe { *place });
        if let Some(index) = requests::index(rt, handle) {
            self.pieces_by_request.insert(index, pieces);
        }
        Ok(())
    }

    /// Records the number of bytes that a receive of the present call got.
    pub fn received(&mut self, bytes: usize) {
        self.received = Some(bytes);
    }

    /// Records that a request has completed, or was found complete.
    ///
    /// `bytes` is the number of bytes that a receive got. The request's index is reused later
    /// unless `stays` is true.
    pub fn record_completion(&mut self, index: u32, bytes: Option<usize>, stays: bool) {
        let Some(pieces) = self.pieces_by_request.get(&index) else {
            return;
        };
        let mut left = bytes.unwrap_or(usize::MAX);
        for &(address, length) in pieces {
            let length = length.min(left);
            left -= length;
            if length > 0 {
                self.ended.push((address, length));
            }
        }
        if !stays {
            self.pieces_by_request.remove(&index);
        }
    }

    /// Records the data of completed receives whose completion the program has not seen.
    ///
    /// The last cut calls this function. The data are the last record.
    pub fn finish(&mut self, rt: &Runtime) {
        let mut ended: Vec<u32> = self.pieces_by_request.keys().copied().collect();
        ended.sort_unstable();
        self.ended.clear();
        for index in ended {
            let Some(request) = requests::get(rt, index) else {
                continue;
            };
            if let RequestState::Done { status, .. } = request.state {
                let bytes = request.kind.message_arguments().map(|_| status.bytes as usize);
                self.record_completion(index, bytes, true);
            }
        }
        let written = std::mem::take(&mut self.ended)
            .into_iter()
            .map(read)
            .collect();
        let record = Record {
            slot: END_SLOT,
            written,
            ..Record::default()
        };
        self.add(record, 0);
        self.close();
    }

    /// Ends the journal.
    pub fn close(&mut self) {
        let accounts = &mut self.accounts;
        self.journal
            .flush(|site, bytes| count_bytes(accounts, site, bytes));
    }

    /// Returns the journal up to now.
    pub fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }
}

fn count_bytes(accounts: &mut Option<SiteSizes>, site: Site, bytes: usize) {
    if let Some(accounts) = accounts {
        accounts.add_bytes(site, bytes);
    }
}

fn read((address, length): Piece) -> Written {
    // SAFETY: the call has written this memory of the program.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, length) };
    Written {
        address: address as u64,
        bytes: bytes.to_vec(),
    }
}
