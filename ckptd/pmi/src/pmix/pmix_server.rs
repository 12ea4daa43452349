//! The PMIx server of this process.
#![allow(unsafe_code)]

use super::abi::{DmodexDone, Module, NAMESPACE_SIZE, Proc, Status};
use super::connections::Connections;
use super::host::{Host, module};
use super::libpmix::{Functions, checked, libpmix_of};
use super::values::{Infos, bytes_at, fixed};
use crate::placement::comma_separated;
use crate::{Error, GenerationName, Namespace, Peers, RankEvent};
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{getegid, geteuid};
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString, c_char, c_void};
use std::fs::DirBuilder;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use understudy_numbers::Rank;

/// Inputs of a server.
pub struct PmixSettings {
    /// File name of a libmpi.so.40, or its directory.
    pub libmpi: PathBuf,
    /// Directory for session directories that only this user can access (0700).
    pub directory: PathBuf,
    /// Name of this node in placements.
    pub host: String,
    /// Servers of other nodes.
    pub peers: Arc<dyn Peers>,
}

/// The PMIx server of this process.
pub struct PmixServer {
    functions: Functions,
    host: Arc<Host>,
    connections: Arc<Connections>,
    name: String,
    directory: PathBuf,
    generations: Mutex<BTreeMap<GenerationName, Namespace>>,
}

static STARTED: AtomicBool = AtomicBool::new(false);

/// The server's own namespace.
///
/// Names of generations differ from it, because they end with a dot and a number.
const OWN_NAMESPACE: &[u8] = b"ckptd";

impl PmixServer {
    /// Opens libpmix and starts the server; events of the ranks are sent to the channel.
    ///
    /// # Errors
    /// [`Error::SecondServer`], [`Error::Inherited`], [`Error::Load`], [`Error::Version`],
    /// [`Error::Pmix`], [`Error::System`].
    pub fn start(settings: &PmixSettings) -> Result<(PmixServer, Receiver<RankEvent>), Error> {
        // libpmix would connect to the process that has set these variables.
        for name in ["PMIX_LAUNCHER_RNDZ_URI", "PMIX_KEEPALIVE_PIPE"] {
            if std::env::var_os(name).is_some() {
                return Err(Error::Inherited(name));
            }
        }
        let libmpi = match settings.libmpi.is_dir() {
            true => settings.libmpi.join("libmpi.so.40"),
            false => settings.libmpi.clone(),
        };
        let functions = Functions::open(&libpmix_of(&libmpi)?)?;
        if STARTED.swap(true, Ordering::Relaxed) {
            return Err(Error::SecondServer);
        }
        let directory = settings.directory.as_os_str().as_bytes();
        let mut infos = Infos::new();
        infos.string("pmix.srv.nspace", OWN_NAMESPACE);
        infos.rank("pmix.srv.rank", 0);
        infos.string("pmix.srvr.tmpdir", directory);
        infos.string("pmix.sys.tmpdir", directory);
        infos.string("pmix.hname", settings.host.as_bytes());
        // Without this entry, libpmix prints output that clients write to its channels a second
        // time.
        infos.flag("pmix.iof.local", false);
        let (events, received) = mpsc::channel();
        let connections = Arc::new(Connections::new()?);
        let host = Host::new(events, settings.peers.clone(), Arc::clone(&connections));
        let mut module: Module = module();
        host.open();
        // SAFETY: module and infos have the layout of this version, and the call copies them.
        let status = unsafe { (functions.init)(&mut module, infos.as_mut_ptr(), infos.len()) };
        if !status.is_good() {
            Host::close();
        }
        checked("PMIx_server_init", status)?;
        let server = PmixServer {
            functions,
            host,
            connections,
            name: settings.host.clone(),
            directory: settings.directory.clone(),
            generations: Mutex::default(),
        };
        Ok((server, received))
    }

    fn generations(&self) -> MutexGuard<'_, BTreeMap<GenerationName, Namespace>> {
        self.generations.lock()
    }

    /// Registers a generation; its ranks may start from now on.
    ///
    /// # Errors
    /// [`Error::GenerationExists`], [`Error::BadPlacement`] if `here` is another host,
    /// [`Error::Pmix`], [`Error::System`].
    pub fn begin(&self, generation: &Namespace) -> Result<(), Error> {
        if generation.placement.hosts().get(generation.here) != Some(&self.name) {
            return Err(Error::BadPlacement);
        }
        if !self.host.begin(generation) {
            return Err(Error::GenerationExists(generation.name.to_string()));
        }
        self.generations()
            .insert(generation.name.clone(), generation.clone());
        let begun = self
            .make_directories(generation)
            .and_then(|()| self.register(generation));
        if begun.is_err() {
            let _ = self.end(&generation.name);
        }
        begun
    }

    fn make_directories(&self, generation: &Namespace) -> Result<(), Error> {
        let session = self.session(&generation.name);
        let ranks = generation
            .ranks_here()
            .map(|rank| session.join(rank.to_string()));
        for directory in std::iter::once(session.clone()).chain(ranks) {
            let made = DirBuilder::new().mode(0o700).create(&directory);
            let what = format!("the directory {}", directory.display());
            made.map_err(Error::system(what))?;
        }
        Ok(())
    }

    /// Returns the directory that the libraries of a generation may use.
    fn session(&self, generation: &GenerationName) -> PathBuf {
        self.directory.join(generation.as_str())
    }

    fn register(&self, generation: &Namespace) -> Result<(), Error> {
        let functions = &self.functions;
        let mut infos = describe(generation, &self.session(&generation.name));
        let name = proc(&generation.name, Rank(0)).namespace;
        let here = generation.ranks_here().count() as i32;
        // SAFETY: the name ends with a zero; without a callback the call does not use the infos
        // after it returns.
        let status = unsafe {
            (functions.register_namespace)(
                name.as_ptr(),
                here,
                infos.as_mut_ptr(),
                infos.len(),
                None,
                ptr::null_mut(),
            )
        };
        checked("PMIx_server_register_nspace", status)?;
        for rank in generation.ranks_here() {
            let proc = proc(&generation.name, rank);
            let (user, group) = (geteuid().as_raw(), getegid().as_raw());
            // SAFETY: `proc` is valid during the call; without a callback the call does not use it
            // after the return.
            let status = unsafe {
                (functions.register_client)(
                    &proc,
                    user,
                    group,
                    ptr::null_mut(),
                    None,
                    ptr::null_mut(),
                )
            };
            checked("PMIx_server_register_client", status)?;
        }
        Ok(())
    }

    /// Returns the variables by which the process of a rank finds this server.
    ///
    /// # Errors
    /// [`Error::UnknownGeneration`], [`Error::NotHere`], [`Error::Pmix`].
    pub fn environment(
        &self,
        generation: &GenerationName,
        rank: Rank,
    ) -> Result<Vec<(OsString, OsString)>, Error> {
        let unknown = || Error::UnknownGeneration(generation.to_string());
        let known = self
            .generations()
            .get(generation)
            .cloned()
            .ok_or_else(unknown)?;
        let local = known.local_rank(rank)?;
        let proc = proc(generation, rank);
        let mut list: *mut *mut c_char = ptr::null_mut();
        // SAFETY: the call allocates the list, because the pointer is null.
        let status = unsafe { (self.functions.setup_fork)(&proc, &mut list) };
        // SAFETY: libpmix has allocated the list with malloc.
        let mut variables = unsafe { take_variables(list) };
        checked("PMIx_server_setup_fork", status)?;
        if !self
            .connections
            .redirect_variables(&(generation.clone(), rank), &mut variables)?
        {
            checked("PMIx_server_setup_fork", Status::NOT_FOUND)?;
        }
        // Without this variable Open MPI 4 assumes that it is a singleton. The address is never
        // used.
        variables.push((
            "OMPI_MCA_orte_local_daemon_uri".into(),
            "0.0;tcp://127.0.0.1:1".into(),
        ));
        // Variables for programs that read their rank before MPI_Init.
        for (name, number) in [
            ("OMPI_COMM_WORLD_SIZE", known.placement.size() as usize),
            ("OMPI_COMM_WORLD_RANK", rank.0 as usize),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", known.ranks_here().count()),
            ("OMPI_COMM_WORLD_LOCAL_RANK", local),
            ("OMPI_COMM_WORLD_NODE_RANK", local),
            ("OMPI_UNIVERSE_SIZE", known.placement.size() as usize),
        ] {
            variables.push((name.into(), number.to_string().into()));
        }
        Ok(variables)
    }

    /// Removes a generation and the files of its ranks in its session directory.
    ///
    /// Open connections are closed. A generation should end before processes of the next one start:
    /// if a connection is being accepted meanwhile, libpmix keeps a descriptor number that the next
    /// connection receives, and would close that connection.
    ///
    /// # Errors
    /// [`Error::UnknownGeneration`].
    pub fn end(&self, generation: &GenerationName) -> Result<(), Error> {
        let unknown = || Error::UnknownGeneration(generation.to_string());
        let known = self.generations().remove(generation).ok_or_else(unknown)?;
        // The open requests must end first, because libpmix keeps their objects.
        self.host.end(generation);
        for rank in known.ranks_here() {
            self.lose(generation, rank);
            self.deregister_client(&proc(generation, rank));
        }
        let name = proc(generation, Rank(0)).namespace;
        // SAFETY: the name ends with a zero.
        unsafe { (self.functions.deregister_namespace)(name.as_ptr(), None, ptr::null_mut()) };
        let _ = std::fs::remove_dir_all(self.session(generation));
        Ok(())
    }

    /// Reports the end of a rank's process that has not called PMIx_Finalize.
    ///
    /// libpmix removes the rank from the fences in which it is awaited.
    pub fn lose(&self, generation: &GenerationName, rank: Rank) {
        self.connections
            .end(&(generation.clone(), rank), || self.await_handled());
    }

    /// Waits until libpmix has handled a connection that it has closed.
    ///
    /// libpmix may complete a fence by a separate event. Each call here waits for an event that the
    /// call itself creates. The thread of libpmix handles events in order, so that earlier events
    /// were handled before.
    fn await_handled(&self) {
        let nobody = Proc {
            namespace: fixed::<NAMESPACE_SIZE>("ckptd-nobody"),
            rank: 0,
        };
        // The first call may be handled before the event of the fence.
        for _ in 0..2 {
            self.deregister_client(&nobody);
        }
    }

    fn deregister_client(&self, proc: &Proc) {
        // SAFETY: without a callback the call waits until it is done.
        unsafe { (self.functions.deregister_client)(proc, None, ptr::null_mut()) };
    }

    /// Requests data that a rank of this node has put for other nodes.
    ///
    /// Answers a [`crate::ModexRequest`] of another node. A thread of libpmix calls `then` as soon
    /// as the rank has put data, or with `None` after an error. If the generation is unknown or
    /// libpmix refuses the request, this thread calls `then` with `None`.
    pub fn modex(
        &self,
        generation: &GenerationName,
        rank: Rank,
        then: impl FnOnce(Option<Vec<u8>>) + Send + 'static,
    ) {
        // For an unknown namespace, libpmix would wait.
        if !self.generations().contains_key(generation) {
            return then(None);
        }
        let then: Box<ModexReceiver> = Box::new(Box::new(then));
        let context = Box::into_raw(then);
        let done: DmodexDone = modex_done;
        // SAFETY: the context is passed back once: to the callback, or here if the callback will
        // not be called.
        unsafe {
            let status = (self.functions.dmodex_request)(
                &proc(generation, rank),
                Some(done),
                context.cast(),
            );
            if status != Status::SUCCESS {
                Box::from_raw(context)(None);
            }
        }
    }
}

impl Drop for PmixServer {
    fn drop(&mut self) {
        let names: Vec<GenerationName> = self.generations().keys().cloned().collect();
        for name in names {
            let _ = self.end(&name);
        }
        Host::close();
        // SAFETY: the server was initialised once, and no function is called afterwards.
        unsafe { (self.functions.finalize)() };
    }
}

type ModexReceiver = Box<dyn FnOnce(Option<Vec<u8>>) + Send>;

unsafe extern "C" fn modex_done(
    status: Status,
    bytes: *mut c_char,
    size: usize,
    context: *mut c_void,
) {
    // SAFETY: libpmix passes back, once, the context that `PmixServer::modex` has made, and a null
    // pointer or the address of `size` bytes that are valid during the call.
    let (then, bytes) = unsafe {
        (
            Box::from_raw(context.cast::<ModexReceiver>()),
            bytes_at(bytes, size),
        )
    };
    then(status.is_good().then_some(bytes));
}

fn proc(generation: &GenerationName, rank: Rank) -> Proc {
    Proc {
        namespace: fixed::<NAMESPACE_SIZE>(generation.as_str()),
        rank: rank.0,
    }
}

/// Moves `NAME=VALUE` strings out of a list that libpmix has allocated.
///
/// # Safety
/// `list` is null, or a list made with malloc that ends with a null pointer.
unsafe fn take_variables(list: *mut *mut c_char) -> Vec<(OsString, OsString)> {
    let mut variables = Vec::new();
    if list.is_null() {
        return variables;
    }
    // SAFETY: the caller guarantees that the list and its strings are valid and made with malloc.
    unsafe {
        let mut at = list;
        while !(*at).is_null() {
            let text = OsStr::from_bytes(CStr::from_ptr(*at).to_bytes());
            if let Some(equals) = text.as_bytes().iter().position(|&byte| byte == b'=') {
                let (name, value) = text.as_bytes().split_at(equals);
                variables.push((
                    OsString::from_vec(name.to_vec()),
                    OsString::from_vec(value[1..].to_vec()),
                ));
            }
            libc::free((*at).cast());
            at = at.add(1);
        }
        libc::free(list.cast());
    }
    variables
}

/// Returns the data about a generation for its ranks (PMIx Standard, "Job-level information").
fn describe(generation: &Namespace, session: &Path) -> Infos {
    let placement = &generation.placement;
    let size = placement.size();
    let here: Vec<Rank> = generation.ranks_here().collect();
    let mut infos = Infos::new();
    infos.string("pmix.jobid", generation.name.as_str().as_bytes());
    infos.string("pmix.nmap", placement.node_map().as_bytes());
    infos.string("pmix.pmap", placement.process_map().as_bytes());
    infos.uint32("pmix.job.size", size);
    infos.uint32("pmix.univ.size", size);
    infos.uint32("pmix.max.size", size);
    infos.uint32("pmix.job.napps", 1);
    infos.uint32("pmix.num.nodes", placement.used_hosts() as u32);
    // Open MPI cannot handle an empty list, which occurs for processes that were spawned on another
    // node.
    if let Some(first) = here.first() {
        infos.uint32("pmix.local.size", here.len() as u32);
        infos.uint32("pmix.node.size", here.len() as u32);
        infos.string(
            "pmix.lpeers",
            comma_separated(here.iter().copied()).as_bytes(),
        );
        infos.rank("pmix.lldr", first.0);
    }
    infos.string("pmix.tmpdir", session.as_os_str().as_bytes());
    infos.string("pmix.nsdir", session.as_os_str().as_bytes());
    if generation.is_crowded {
        // With this flag, waiting ranks yield; without it, a small Allreduce takes 18 ms where
        // ranks share cores. Open MPI tests whether the flag exists, not its value, and yields
        // against the user's settings.
        infos.flag("pmix.ndosub", true);
    }
    let mut on_host = vec![0u16; placement.hosts().len()];
    for (rank, host) in placement.ranks() {
        let local = on_host[host];
        on_host[host] = local.saturating_add(1);
        let mut of_rank = Infos::new();
        // This entry must be the first.
        of_rank.rank("pmix.rank", rank.0);
        of_rank.rank("pmix.grank", rank.0);
        of_rank.rank("pmix.apprank", rank.0);
        of_rank.uint32("pmix.appnum", generation.program(rank));
        of_rank.uint16("pmix.lrank", local);
        of_rank.uint16("pmix.nrank", local);
        of_rank.uint32("pmix.nodeid", host as u32);
        of_rank.string("pmix.hname", placement.hosts()[host].as_bytes());
        if host == generation.here {
            let own = session.join(rank.to_string());
            of_rank.string("pmix.pdir", own.as_os_str().as_bytes());
        }
        infos.list("pmix.pdata", of_rank);
    }
    infos
}
