//! Processes whose system calls fail as a test decides (seccomp_unotify(2)).
//!
//! A thread installs a filter for itself, and starts the command, which inherits the filter like
//! all its descendants. The kernel then asks this process about each selected call. No product
//! code takes part.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::{Duration, Instant};

// linux/seccomp.h; the size of the structure is a part of the number.
const NOTIF_RECV: libc::Ioctl = 0xc050_2100_u32 as libc::Ioctl;
const NOTIF_SEND: libc::Ioctl = 0xc018_2101_u32 as libc::Ioctl;

/// A system call that a process is about to make.
pub struct PendingCall {
    pub number: libc::c_long,
    /// Name of the calling process: the subcommand of ckptd, or the program.
    pub process: String,
}

/// Returns the error of a call, or `None` if the call is to be executed.
pub type Decision<'a> = dyn FnMut(&PendingCall) -> Option<i32> + 'a;

/// A command under supervision.
pub struct SupervisedCommand {
    pub child: Child,
    listener: OwnedFd,
}

impl SupervisedCommand {
    /// Starts a command; the kernel asks about these calls of the command and its descendants.
    pub fn start(
        mut command: Command,
        calls: &[libc::c_long],
        decide: &mut Decision<'_>,
    ) -> SupervisedCommand {
        let filter = filter(calls);
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let listener = install(&filter).expect("seccomp(2) has a listener");
            sender.send(listener).expect("the supervisor waits");
            command.spawn()
        });
        let listener = receiver.recv().expect("the thread has a listener");
        while !thread.is_finished() {
            serve(&listener, Duration::from_millis(1), decide);
        }
        let child = thread.join().expect("no panic").expect("an executable");
        SupervisedCommand { child, listener }
    }

    /// Decides about calls until no process is left.
    ///
    /// Returns false if some are left after `limit`.
    pub fn supervise(&mut self, limit: Duration, decide: &mut Decision<'_>) -> bool {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if !serve(&self.listener, Duration::from_millis(50), decide) {
                return true;
            }
            // A zombie keeps its filter, so the child must be reaped.
            let _ = self.child.try_wait();
        }
        false
    }
}

/// True if this process may supervise system calls, which a short-lived thread tries.
pub fn can_supervise() -> bool {
    // Only a new thread gets the filter, and ends at once.
    std::thread::spawn(|| install(&filter(&[])).is_ok())
        .join()
        .expect("no panic")
}

/// Decides about the next call within `limit`; returns false if no process is left.
fn serve(listener: &OwnedFd, limit: Duration, decide: &mut Decision<'_>) -> bool {
    let mut poll = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the count is 1, and the pointer is that of one pollfd, which outlives the call.
    unsafe { libc::poll(&mut poll, 1, limit.as_millis() as i32) };
    if poll.revents & libc::POLLIN == 0 {
        return poll.revents & libc::POLLHUP == 0;
    }
    // SAFETY: all zeros are a valid seccomp_notif, and the kernel requires zeros.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes no more than this structure, whose size is encoded in NOTIF_RECV.
    if unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_RECV, &mut asked) } != 0 {
        // The caller was killed meanwhile.
        return true;
    }
    let call = PendingCall {
        number: libc::c_long::from(asked.data.nr),
        process: process_name(asked.pid),
    };
    let error = decide(&call);
    let mut answer = libc::seccomp_notif_resp {
        id: asked.id,
        val: 0,
        error: -error.unwrap_or(0),
        flags: match error {
            Some(_) => 0,
            None => libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        },
    };
    // SAFETY: the kernel only reads the structure, which outlives the call. An error means that the
    // caller was killed.
    unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_SEND, &mut answer) };
    true
}

/// Returns the subcommand of a process of ckptd, or the file name of another program.
fn process_name(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).into_owned();
    let mut words = words.split('\0');
    let program = words.next().unwrap_or_default().rsplit('/').next();
    match program {
        Some("ckptd") => words.next().unwrap_or_default().to_owned(),
        program => program.unwrap_or_default().to_owned(),
    }
}

/// Returns a filter that asks about these calls, and permits all others.
fn filter(calls: &[libc::c_long]) -> Vec<libc::sock_filter> {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    // The number of the call is the first field of the data.
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (&call, left) in calls.iter().zip((1..=calls.len()).rev()) {
        filter.push(libc::sock_filter {
            jt: left as u8,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32)
        });
    }
    let result = libc::BPF_RET | libc::BPF_K;
    filter.push(statement(result, libc::SECCOMP_RET_ALLOW));
    filter.push(statement(result, libc::SECCOMP_RET_USER_NOTIF));
    filter
}

/// Installs a filter for the calling thread; returns the descriptor for its questions.
fn install(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: `program` and its filter of `len` statements live during the call, in which the
    // kernel copies them. PR_SET_NO_NEW_PRIVS takes no pointer.
    let listener = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &program,
        )
    };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made the descriptor, so no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}
