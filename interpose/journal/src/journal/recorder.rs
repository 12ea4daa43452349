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
    /// Pieces of requests that completed in the present call.
    ended: Vec<Piece>,
    /// Number of bytes that a receive of the present call has received.
    received: Option<usize>,
    /// Sizes by call site, if event files are written.
    site_sizes: Option<SiteSizes>,
}

impl Recorder {
    /// Returns a recorder without calls.
    pub fn new(with_site_sizes: bool) -> Recorder {
        Recorder {
            site_sizes: with_site_sizes.then(SiteSizes::default),
            ..Recorder::default()
        }
    }

    /// Records the completed call of a frame, made from `call_site`.
    pub fn call(
        &mut self,
        rt: &Runtime,
        frame: &Frame,
        call_site: u64,
        integer: u64,
        double: u64,
    ) -> Result<(), UnknownOutputs> {
        let received = self.received.take();
        let mut pieces = std::mem::take(&mut self.ended);
        let call = Call::from_frame(frame).ok_or(UnknownOutputs)?;
        // `None` for a function of libc.
        let procedure = Proc::from_slot(frame.slot as u32);
        let is_one_of = |slots: &[u32]| slots.contains(&(frame.slot as u32));
        if is_one_of(&EXECUTED) {
            return Ok(());
        }
        let mut later = Vec::new();
        for output in call.outputs() {
            let is_message = matches!(output.unit, Unit::Datatype(_)) && is_one_of(&RECEIVES);
            let max_bytes = received.filter(|_| is_message).unwrap_or(usize::MAX);
            let list = if output.later {
                &mut later
            } else {
                &mut pieces
            };
            call.pieces(rt, output, max_bytes, &mut self.maps, |address, length| {
                list.push((address, length))
            })?;
        }
        if !later.is_empty() {
            self.store_request_pieces(rt, &call, later)?;
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
        self.add(record, call_site);
        Ok(())
    }

    fn add(&mut self, record: Record, call_site: u64) {
        let site_sizes = &mut self.site_sizes;
        if let Some(site_sizes) = site_sizes {
            site_sizes.count_call((record.slot, call_site));
        }
        self.journal.add(record, call_site, |site, bytes| {
            count_bytes(site_sizes, site, bytes)
        });
    }

    /// Reports the sizes of the journal by call site.
    ///
    /// `stored` is the length in bytes of the compressed journal, if it is stored.
    pub fn report_sizes(&mut self, rt: &Runtime, stored: Option<usize>) {
        if let Some(site_sizes) = &mut self.site_sizes {
            let journal = Amount {
                count: self.journal.calls,
                bytes: self.journal.size() as u64,
            };
            let table =
                site_sizes.table(world::worker(rt), journal, stored.map(|bytes| bytes as u64));
            events::emit(Kind::JournalCalls { calls: table });
        }
    }

    /// Stores the pieces that a request writes when it completes.
    ///
    /// The call has written the request's handle, from which the request's index follows.
    fn store_request_pieces(
        &mut self,
        rt: &Runtime,
        call: &Call<'_>,
        pieces: Vec<Piece>,
    ) -> Result<(), UnknownOutputs> {
        let address = call.request().ok_or(UnknownOutputs)? as *const *mut c_void;
        // SAFETY: the procedure has written the handle at this address.
        let handle = VirtRequest(unsafe { *address });
        if let Some(index) = requests::index(rt, handle) {
            self.pieces_by_request.insert(index, pieces);
        }
        Ok(())
    }

    /// Records the number of bytes that a receive of the present call has received.
    pub fn received(&mut self, bytes: usize) {
        self.received = Some(bytes);
    }

    /// Records that a call has completed a request, or has reported its completion.
    ///
    /// `bytes` is the number of bytes that a receive has received. The request still exists if
    /// `stays` is true: the request is persistent, or `MPI_Request_get_status` was called.
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

    /// Ends the journal at the last cut.
    ///
    /// The last record contains the data of receives that are complete, although the program has
    /// not yet made the calls that complete them.
    pub fn finish(&mut self, rt: &Runtime) {
        let mut indices: Vec<u32> = self.pieces_by_request.keys().copied().collect();
        indices.sort_unstable();
        self.ended.clear();
        for index in indices {
            let Some(request) = requests::get(rt, index) else {
                continue;
            };
            if let RequestState::Done { status, .. } = request.state {
                let bytes = request
                    .kind
                    .message_arguments()
                    .map(|_| status.bytes as usize);
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

    /// Writes all calls to the journal.
    pub fn close(&mut self) {
        let site_sizes = &mut self.site_sizes;
        self.journal
            .flush(|site, bytes| count_bytes(site_sizes, site, bytes));
    }

    /// Returns the journal.
    pub fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }
}

fn count_bytes(site_sizes: &mut Option<SiteSizes>, site: Site, bytes: usize) {
    if let Some(site_sizes) = site_sizes {
        site_sizes.add_bytes(site, bytes);
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
