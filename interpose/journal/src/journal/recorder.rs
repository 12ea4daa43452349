//! Records outcomes.
#![allow(unsafe_code)]

use super::accounts::Accounts;
use super::format::{END, Journal, Record, Site, Written};
use super::outputs::{Call, NotKnown, Piece};
use super::row::Unit;
use super::typemap::TypeMaps;
use crate::arch::Frame;
use crate::generated::{DOUBLES, EXECUTED, Proc, RECEIVES};
use crate::handles::VirtRequest;
use crate::requests::{self, State};
use crate::{events, world};
use std::collections::HashMap;
use std::ffi::c_void;
use understudy_formats::events::{Amount, Kind};
use understudy_objects::Runtime;

/// What is being recorded.
#[derive(Default)]
pub struct Recorder {
    journal: Journal,
    maps: TypeMaps,
    /// What is written when the request with this index ends.
    later: HashMap<u32, Vec<Piece>>,
    /// What has been written by requests that ended in the present call.
    ended: Vec<Piece>,
    /// How many bytes a receive of the present call has received.
    received: Option<usize>,
    /// What the journal is made of, if anybody wants to know.
    accounts: Option<Accounts>,
}

impl Recorder {
    /// One that has nothing recorded yet.
    pub fn new(with_accounts: bool) -> Recorder {
        Recorder {
            accounts: with_accounts.then(Accounts::default),
            ..Recorder::default()
        }
    }

    /// Records the call that a frame holds and that has come to its end, made from `place`.
    pub fn call(
        &mut self,
        rt: &Runtime,
        frame: &Frame,
        place: u64,
        integer: u64,
        double: u64,
    ) -> Result<(), NotKnown> {
        let received = self.received.take();
        let mut pieces = std::mem::take(&mut self.ended);
        let call = Call::of(frame).ok_or(NotKnown)?;
        // Or one of libc's.
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
            self.keep(rt, &call, later)?;
        }
        if procedure == Some(Proc::MPI_Type_free) {
            self.maps.forget();
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
            accounts.call((record.slot, place));
        }
        self.journal
            .add(record, place, |site, bytes| became(accounts, site, bytes));
    }

    /// Tells what the journal is made of: its length as it is kept, if it is.
    pub fn tell(&mut self, rt: &Runtime, kept: Option<usize>) {
        if let Some(accounts) = &mut self.accounts {
            let journal = Amount {
                count: self.journal.calls,
                bytes: self.journal.size() as u64,
            };
            let table = accounts.table(world::worker(rt), journal, kept.map(|kept| kept as u64));
            events::emit(Kind::JournalCalls { calls: table });
        }
    }

    /// Keeps what a request will have written when it ends. Its handle is the last output of the
    /// call that made it.
    fn keep(&mut self, rt: &Runtime, call: &Call<'_>, pieces: Vec<Piece>) -> Result<(), NotKnown> {
        let place = call.request().ok_or(NotKnown)? as *const *mut c_void;
        // SAFETY: the procedure has written the handle there.
        let handle = VirtRequest(unsafe { *place });
        if let Some(index) = requests::index(rt, handle) {
            self.later.insert(index, pieces);
        }
        Ok(())
    }

    /// A receive of the present call got this many bytes.
    pub fn received(&mut self, bytes: usize) {
        self.received = Some(bytes);
    }

    /// A request has ended, or is seen to have; a receive got this many bytes. Its index is given
    /// away again unless `stays`.
    pub fn ended(&mut self, index: u32, bytes: Option<usize>, stays: bool) {
        let Some(pieces) = self.later.get(&index) else {
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
            self.later.remove(&index);
        }
    }

    /// At the last cut: what receives have written that have ended without the program's asking, as
    /// the last record.
    pub fn finish(&mut self, rt: &Runtime) {
        let mut ended: Vec<u32> = self.later.keys().copied().collect();
        ended.sort_unstable();
        self.ended.clear();
        for index in ended {
            let Some(request) = requests::get(rt, index) else {
                continue;
            };
            if let State::Done { status, .. } = request.state {
                let bytes = request.kind.envelope().map(|_| status.4 as usize);
                self.ended(index, bytes, true);
            }
        }
        let written = std::mem::take(&mut self.ended)
            .into_iter()
            .map(read)
            .collect();
        let record = Record {
            slot: END,
            written,
            ..Record::default()
        };
        self.add(record, 0);
        self.close();
    }

    /// Nothing more is recorded.
    pub fn close(&mut self) {
        let accounts = &mut self.accounts;
        self.journal
            .flush(|site, bytes| became(accounts, site, bytes));
    }

    /// The journal so far.
    pub fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }
}

fn became(accounts: &mut Option<Accounts>, site: Site, bytes: usize) {
    if let Some(accounts) = accounts {
        accounts.became(site, bytes);
    }
}

fn read((address, length): Piece) -> Written {
    // SAFETY: memory of the program that the call has written.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, length) };
    Written {
        address: address as u64,
        bytes: bytes.to_vec(),
    }
}
