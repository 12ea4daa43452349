//! What libpmix asks of its host, on its own progress thread.
//!
//! libpmix passes its functions nothing that could lead to a server, so the one of this process is found in a static. A function that can answer
//! at once does so by its return value or by calling back before it returns, as libpmix allows on its own thread; a fence is answered
//! from whatever thread the [`Peers`] are on, which libpmix allows, too. A panic aborts the process (extern "C").
#![allow(unsafe_code)]

mod names;
mod spawn;

use super::abi::{EVERY_RANK, Info, ModexDone, Module, OpDone, Proc, Status, Type};
use super::connections::Connections;
use super::store::{Owner, Store};
use super::values::{bytes_at, text_in};
use crate::launch::peers::Recall;
use crate::launch::{
    Alone, Answer, Event, Fence, Members, Modex, Name, Namespace, Peers, Purpose, What,
};
use names::Lookup;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use understudy_numbers::Rank;

/// The server of this process, while libpmix may be called.
static HOST: RwLock<Option<Arc<Host>>> = RwLock::new(None);

/// What is known of the ranks' generations.
pub struct Host {
    events: Sender<Event>,
    peers: Arc<dyn Peers>,
    connections: Arc<Connections>,
    worlds: Mutex<BTreeMap<Name, World>>,
    /// How many fences of these members there have been.
    fences: Mutex<HashMap<(Purpose, Members), u64>>,
    store: Mutex<Store>,
    /// What is not published yet.
    lookups: Mutex<Vec<Lookup>>,
}

/// A generation that has begun.
struct World {
    size: u32,
    /// All ranks are on this node.
    is_here: bool,
    /// What other nodes have been asked for.
    asked: Vec<Recall>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Host {
    pub fn new(
        events: Sender<Event>,
        peers: Arc<dyn Peers>,
        connections: Arc<Connections>,
    ) -> Arc<Host> {
        Arc::new(Host {
            events,
            peers,
            connections,
            worlds: Mutex::default(),
            fences: Mutex::default(),
            store: Mutex::default(),
            lookups: Mutex::default(),
        })
    }

    /// From now on libpmix finds this host.
    pub fn open(self: &Arc<Host>) {
        *HOST.write() = Some(self.clone());
    }

    /// From now on libpmix finds none, and is not called back.
    pub fn close() {
        *HOST.write() = None;
    }

    fn current() -> Option<Arc<Host>> {
        HOST.read().clone()
    }

    /// False if there is one of that name.
    pub fn begin(&self, generation: &Namespace) -> bool {
        let mut worlds = lock(&self.worlds);
        if worlds.contains_key(&generation.name) {
            return false;
        }
        let world = World {
            size: generation.placement.size(),
            is_here: generation.ranks_here().count() == generation.placement.size() as usize,
            asked: Vec::new(),
        };
        worlds.insert(generation.name.clone(), world);
        true
    }

    /// Forgets a generation; who still waits for other nodes hears that nothing will come.
    pub fn end(&self, generation: &Name) {
        lock(&self.store).end(generation);
        lock(&self.fences)
            .retain(|(_, members), _| members.iter().all(|(name, _)| name != generation));
        lock(&self.lookups).retain(|lookup| lookup.is_not_of(generation));
        let world = lock(&self.worlds).remove(generation);
        world
            .into_iter()
            .flat_map(|world| world.asked)
            .for_each(Recall::fail);
    }

    fn tell(&self, (generation, rank): Owner, what: What) {
        // Nobody listens any more when the server's owner has gone.
        let _ = self.events.send(Event {
            generation,
            rank,
            what,
        });
    }

    /// Who it is, if it belongs to a generation that has not ended.
    fn known(&self, proc: &Proc) -> Option<Owner> {
        let worlds = lock(&self.worlds);
        let (name, world) = worlds.get_key_value(text_in(&proc.namespace)?)?;
        (proc.rank < world.size).then(|| (name.clone(), Rank(proc.rank)))
    }

    /// Who is meant, if their namespaces are known.
    fn members(&self, procs: &[Proc]) -> Option<Members> {
        let worlds = lock(&self.worlds);
        let mut members: BTreeMap<&Name, BTreeSet<Rank>> = BTreeMap::new();
        for proc in procs {
            let (name, world) = worlds.get_key_value(text_in(&proc.namespace)?)?;
            let ranks = members.entry(name).or_default();
            match proc.rank {
                EVERY_RANK => ranks.extend((0..world.size).map(Rank)),
                rank if rank < world.size => drop(ranks.insert(Rank(rank))),
                _ => return None,
            }
        }
        let members = members.into_iter();
        Some(
            members
                .map(|(name, ranks)| (name.clone(), ranks.into_iter().collect()))
                .collect(),
        )
    }

    /// Whether these namespaces are wholly on this node.
    fn are_here(&self, members: &Members) -> bool {
        let worlds = lock(&self.worlds);
        let is_here = |name: &Name| worlds.get(name).is_some_and(|world| world.is_here);
        members.iter().all(|(name, _)| is_here(name))
    }

    /// The ranks of this node have come to a fence. Completes it if all are; hands one with ranks of other nodes to those.
    fn exchange(
        &self,
        purpose: Purpose,
        members: Members,
        bytes: Vec<u8>,
        (answer, recall): (Answer, Recall),
    ) {
        let names = members.iter().map(|(name, _)| name);
        // Of one that has ended this moment, the answer's end says so.
        if !self.ask(names, &recall) {
            return;
        }
        let number = {
            let mut fences = lock(&self.fences);
            let before = fences.entry((purpose, members.clone())).or_default();
            std::mem::replace(before, *before + 1)
        };
        let are_here = self.are_here(&members);
        let fence = Fence {
            purpose,
            members,
            number,
            bytes,
            answer,
        };
        match are_here {
            true => Alone.fence(fence),
            false => self.peers.fence(fence),
        }
    }

    /// Notes that something is asked for, unless one of these namespaces has ended.
    fn ask<'a>(&self, mut names: impl Iterator<Item = &'a Name>, recall: &Recall) -> bool {
        let mut worlds = lock(&self.worlds);
        names.all(|name| {
            let Some(world) = worlds.get_mut(name) else {
                return false;
            };
            world.asked.retain(Recall::is_open);
            world.asked.push(recall.clone());
            true
        })
    }
}

/// What libpmix is given.
pub fn module() -> Module {
    Module {
        connected: None,
        finalized: Some(finalized),
        abort: Some(abort),
        fence: Some(fence),
        direct_modex: Some(direct_modex),
        publish: Some(names::publish),
        lookup: Some(names::lookup),
        unpublish: Some(names::unpublish),
        spawn: Some(spawn::spawn),
        connect: Some(connect),
        disconnect: Some(disconnect),
        register_events: None,
        deregister_events: None,
        listener: None,
        notify_event: None,
        query: None,
        tool_connected: None,
        log: None,
        allocate: None,
        job_control: None,
        monitor: None,
        get_credential: None,
        validate_credential: None,
        forward_output: None,
        push_input: None,
        group: None,
        fabric: None,
        connected2: Some(connected),
        later: [None; 64],
    }
}

/// Connects processes when all have come that are on this node. It must be there: when a process dies that has asked for it, libpmix calls it
/// unseen.
unsafe extern "C" fn connect(
    procs: *const Proc,
    count: usize,
    infos: *const Info,
    info_count: usize,
    done: Option<OpDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix gives so many processes and infos.
    unsafe {
        let (procs, infos) = (
            std::slice::from_raw_parts(procs, count),
            slice(infos, info_count),
        );
        meet(Purpose::Connect, procs, infos, Met { done, context })
    }
}

unsafe extern "C" fn disconnect(
    procs: *const Proc,
    count: usize,
    infos: *const Info,
    info_count: usize,
    done: Option<OpDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix gives so many processes and infos.
    unsafe {
        let (procs, infos) = (
            std::slice::from_raw_parts(procs, count),
            slice(infos, info_count),
        );
        meet(Purpose::Disconnect, procs, infos, Met { done, context })
    }
}

/// Answers in any case: of what its host refuses, libpmix releases more than once, or lets the processes wait.
///
/// # Safety
/// libpmix has made the infos, and waits for the call of the function.
unsafe fn meet(purpose: Purpose, procs: &[Proc], infos: &[Info], waiting: Met) -> Status {
    // SAFETY: as the caller says.
    match unsafe { gathered(procs, infos) } {
        None => waiting.answer(false),
        Some((members, host)) if host.are_here(&members) => waiting.answer(true),
        Some((members, host)) => {
            let answer = Answer::new(Box::new(move |reply| waiting.answer(reply.is_some())));
            host.exchange(purpose, members, Vec::new(), answer);
        }
    }
    Status::SUCCESS
}

/// A function of libpmix that waits until processes of other nodes have come, too.
struct Met {
    done: Option<OpDone>,
    context: *mut c_void,
}

// SAFETY: libpmix takes the call from any thread; the context is only handed back.
unsafe impl Send for Met {}

impl Met {
    /// Calls it, unless libpmix has been shut down.
    fn answer(self, have_come: bool) {
        let host = HOST.read();
        if let (Some(_), Some(done)) = (&*host, self.done) {
            let status = match have_come {
                true => Status::SUCCESS,
                false => Status::LOST_CONNECTION,
            };
            // SAFETY: it is called once; the lock keeps libpmix up meanwhile.
            unsafe { done(status, self.context) };
        }
    }
}

/// Tells of a process, if it is known.
///
/// # Safety
/// `proc` points to a process.
unsafe fn event(proc: *const Proc, what: What) -> Status {
    // SAFETY: as the caller says.
    let proc = unsafe { &*proc };
    let Some(host) = Host::current() else {
        return Status::ERROR;
    };
    match host.known(proc) {
        Some(owner) => {
            if what == What::Finalized {
                host.connections.farewell(owner.clone());
            }
            host.tell(owner, what);
        }
        None => return Status::NOT_FOUND,
    }
    Status::OPERATION_SUCCEEDED
}

/// Says yes to all, also to a process of a generation that ends this moment: if it were refused, libpmix would release its connection twice.
unsafe extern "C" fn connected(
    proc: *const Proc,
    _: *mut c_void,
    _: *mut Info,
    _: usize,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: libpmix says which process it is.
    unsafe { event(proc, What::Connected) };
    Status::OPERATION_SUCCEEDED
}

unsafe extern "C" fn finalized(
    proc: *const Proc,
    _: *mut c_void,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: as above.
    unsafe { event(proc, What::Finalized) }
}

/// Never answers: the process waits in its library until it is taken out of there, or killed. It would end itself, and what it gives up for may be
/// another's death.
unsafe extern "C" fn abort(
    proc: *const Proc,
    _: *mut c_void,
    status: c_int,
    message: *const c_char,
    _: *mut Proc,
    _: usize,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    let message = match message.is_null() {
        true => String::new(),
        // SAFETY: what is not null is a string.
        false => unsafe { CStr::from_ptr(message) }
            .to_string_lossy()
            .into_owned(),
    };
    // SAFETY: libpmix says which process it is.
    match unsafe { event(proc, What::Abort { status, message }) } {
        Status::OPERATION_SUCCEEDED => Status::SUCCESS,
        refused => refused,
    }
}

/// A function of libpmix that waits for bytes, with what it wants back.
struct Waiting {
    done: ModexDone,
    context: *mut c_void,
}

// SAFETY: libpmix takes the call from any thread; the context is only handed back.
unsafe impl Send for Waiting {}

impl Waiting {
    /// Calls it, unless libpmix has been shut down.
    fn answer(self, reply: Option<Vec<u8>>) {
        let host = HOST.read();
        if host.is_none() {
            return;
        }
        let status = match reply {
            Some(_) => Status::SUCCESS,
            None => Status::LOST_CONNECTION,
        };
        let bytes = Box::new(reply.unwrap_or_default());
        let (start, size) = (bytes.as_ptr().cast(), bytes.len());
        let owner = Box::into_raw(bytes).cast();
        // SAFETY: the bytes stay until `release` is called with their owner; the lock keeps libpmix up meanwhile.
        unsafe { (self.done)(status, start, size, self.context, Some(release), owner) };
    }
}

unsafe extern "C" fn release(owner: *mut c_void) {
    // SAFETY: it is what `Waiting::answer` has made, and comes back once.
    drop(unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) });
}

/// A list of texts that ends with a null pointer.
///
/// # Safety
/// It is null or such a list.
unsafe fn texts(mut list: *mut *mut c_char) -> Vec<String> {
    let mut texts = Vec::new();
    // SAFETY: as the caller says; it is not read past its end.
    unsafe {
        while !list.is_null() && !(*list).is_null() {
            texts.push(CStr::from_ptr(*list).to_string_lossy().into_owned());
            list = list.add(1);
        }
    }
    texts
}

/// So many elements.
///
/// # Safety
/// They are there, or the address is null.
unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    match first.is_null() {
        true => &[],
        // SAFETY: as the caller says.
        false => unsafe { std::slice::from_raw_parts(first, count) },
    }
}

/// Whether all ranks of this node that take part have come to a fence: libpmix calls, too, when those have come that are left.
///
/// # Safety
/// libpmix has made the infos.
unsafe fn is_complete(infos: &[Info]) -> bool {
    let status = infos
        .iter()
        .find(|info| text_in(&info.key) == Some("pmix.loc.col.st"));
    let is_success = |info: &Info| {
        // SAFETY: the type tells which field is there.
        info.value.of != Type::STATUS || unsafe { info.value.data.status } == Status::SUCCESS
    };
    status.is_none_or(is_success)
}

/// Who comes to a fence, and to which host; nothing if it is not [complete](is_complete), or one of their namespaces has ended.
///
/// # Safety
/// libpmix has made the infos.
unsafe fn gathered(procs: &[Proc], infos: &[Info]) -> Option<(Members, Arc<Host>)> {
    // SAFETY: as the caller says.
    let host = Host::current().filter(|_| unsafe { is_complete(infos) })?;
    Some((host.members(procs)?, host))
}

/// Answers as [`meet`] does.
unsafe extern "C" fn fence(
    procs: *const Proc,
    count: usize,
    infos: *const Info,
    info_count: usize,
    bytes: *mut c_char,
    size: usize,
    done: Option<ModexDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix gives so many processes and infos, and so many bytes, which are the host's from now on.
    let (gathered, bytes) = unsafe {
        let copy = bytes_at(bytes, size);
        libc::free(bytes.cast());
        let (procs, infos) = (
            std::slice::from_raw_parts(procs, count),
            slice(infos, info_count),
        );
        (gathered(procs, infos), copy)
    };
    let Some(done) = done else {
        return Status::ERROR;
    };
    let waiting = Waiting { done, context };
    match gathered {
        None => waiting.answer(None),
        Some((members, host)) => {
            let answer = Answer::new(Box::new(move |reply| waiting.answer(reply)));
            host.exchange(Purpose::Exchange, members, bytes, answer);
        }
    }
    Status::SUCCESS
}

unsafe extern "C" fn direct_modex(
    proc: *const Proc,
    _: *const Info,
    _: usize,
    done: Option<ModexDone>,
    context: *mut c_void,
) -> Status {
    // SAFETY: libpmix says whose data it wants.
    let proc = unsafe { &*proc };
    let (Some(host), Some(done)) = (Host::current(), done) else {
        return Status::ERROR;
    };
    let Some((generation, rank)) = host.known(proc) else {
        return Status::NOT_FOUND;
    };
    let waiting = Waiting { done, context };
    let (answer, recall) = Answer::new(Box::new(move |reply| waiting.answer(reply)));
    if host.ask(std::iter::once(&generation), &recall) {
        host.peers.modex(Modex {
            generation,
            rank,
            answer,
        });
    }
    Status::SUCCESS
}
