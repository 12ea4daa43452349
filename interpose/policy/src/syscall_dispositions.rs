//! Treatment of each system call of x86-64 during a replay.
//!
//! All numbers are listed; an unlisted number aborts the replay. An aborted replay costs memory,
//! but a replay that changes a file of the user costs data. The numbers are those of
//! `syscall_64.tbl` in Linux 6.16.

use std::ffi::c_long;

/// Treatment of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// Executed: the call only reads, or changes only this process.
    Pass,
    /// Query about files or the machine.
    ///
    /// The first trial replay executes the query; later replays return the recorded answer
    /// (`syscall_filter::queries`).
    Query,
    /// Reported as successful (0) without execution. The call returns no data.
    ReportSuccess,
    /// Depends on the arguments (`syscall_filter::emulate`).
    Emulate,
    Abort,
}

macro_rules! numbers {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

const PASS: &[c_long] = numbers! {
    SYS_close SYS_poll SYS_lseek SYS_mprotect SYS_munmap SYS_brk SYS_pipe SYS_select SYS_sched_yield
    SYS_mremap SYS_msync
    SYS_mincore SYS_madvise SYS_dup SYS_dup2 SYS_getitimer SYS_getpid SYS_getsockname
    SYS_getpeername SYS_socketpair
    SYS_getsockopt SYS_wait4 SYS_uname SYS_chdir SYS_fchdir SYS_umask SYS_gettimeofday SYS_getrusage
    SYS_times SYS_getuid SYS_getgid SYS_geteuid SYS_getegid SYS_getppid SYS_getpgrp SYS_getgroups
    SYS_getresuid SYS_getresgid SYS_getpgid SYS_getsid SYS_capget SYS_rt_sigpending SYS_personality
    SYS_sched_getparam SYS_sched_getscheduler SYS_sched_get_priority_max SYS_sched_get_priority_min
    SYS_sched_rr_get_interval SYS_mlock SYS_munlock SYS_mlockall SYS_munlockall SYS_arch_prctl
    SYS_setrlimit SYS_gettid
    SYS_readahead SYS_time SYS_futex SYS_epoll_create SYS_epoll_create1 SYS_set_tid_address
    SYS_restart_syscall SYS_fadvise64 SYS_timer_create SYS_timer_gettime SYS_timer_getoverrun
    SYS_timer_delete
    SYS_clock_gettime SYS_clock_getres SYS_mbind SYS_set_mempolicy SYS_get_mempolicy SYS_waitid
    SYS_ioprio_get
    SYS_set_robust_list SYS_get_robust_list SYS_pselect6 SYS_ppoll SYS_eventfd SYS_eventfd2
    SYS_timerfd_create
    SYS_timerfd_gettime SYS_pipe2 SYS_dup3 SYS_getcpu SYS_sched_getattr SYS_getrandom SYS_membarrier
    SYS_mlock2
    SYS_pkey_mprotect SYS_pkey_alloc SYS_pkey_free SYS_rseq SYS_pidfd_open SYS_close_range
    SYS_futex_waitv
    SYS_set_mempolicy_home_node SYS_mseal
};

const QUERY: &[c_long] = numbers! {
    SYS_stat SYS_fstat SYS_lstat SYS_newfstatat SYS_statx SYS_access SYS_faccessat SYS_faccessat2
    SYS_readlink
    SYS_readlinkat SYS_statfs SYS_fstatfs SYS_getdents SYS_getdents64 SYS_getcwd SYS_getxattr
    SYS_lgetxattr SYS_fgetxattr
    SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_sysinfo SYS_sched_getaffinity SYS_getpriority
    SYS_getrlimit
};

const REPORT_SUCCESS: &[c_long] = numbers! {
    SYS_unlink SYS_unlinkat SYS_rename SYS_renameat SYS_renameat2 SYS_mkdir SYS_mkdirat SYS_rmdir
    SYS_link SYS_linkat
    SYS_symlink SYS_symlinkat SYS_chmod SYS_fchmodat SYS_fchmodat2 SYS_chown SYS_lchown SYS_fchownat
    SYS_truncate
    SYS_utimensat SYS_utime SYS_utimes SYS_futimesat SYS_mknod SYS_mknodat SYS_setxattr
    SYS_lsetxattr SYS_fsetxattr
    SYS_removexattr SYS_lremovexattr SYS_fremovexattr SYS_sync SYS_syncfs SYS_sync_file_range
    SYS_nanosleep SYS_clock_nanosleep SYS_alarm
    SYS_setpriority SYS_ioprio_set SYS_sched_setparam SYS_sched_setscheduler SYS_sched_setattr
};

const EMULATE: &[c_long] = numbers! {
    SYS_open SYS_openat SYS_creat SYS_read SYS_readv SYS_pread64 SYS_preadv SYS_preadv2 SYS_write
    SYS_writev SYS_pwrite64
    SYS_pwritev SYS_pwritev2 SYS_ftruncate SYS_fallocate SYS_fsync SYS_fdatasync SYS_fchmod
    SYS_fchown SYS_flock SYS_mmap
    SYS_fcntl SYS_ioctl SYS_prctl SYS_memfd_create SYS_rt_sigaction SYS_rt_sigprocmask
    SYS_rt_sigreturn SYS_sigaltstack
    SYS_setitimer SYS_timer_settime SYS_sched_setaffinity SYS_prlimit64
};

const ABORT: &[c_long] = numbers! {
    SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semctl SYS_semtimedop
    SYS_msgget SYS_msgsnd SYS_msgrcv
    SYS_msgctl SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify
    SYS_mq_getsetattr
    SYS_pause SYS_rt_sigtimedwait SYS_rt_sigsuspend SYS_kill SYS_tkill SYS_tgkill
    SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo
    SYS_pidfd_send_signal SYS_pidfd_getfd SYS_process_madvise SYS_process_mrelease
    SYS_process_vm_readv
    SYS_process_vm_writev SYS_kcmp SYS_ptrace SYS_migrate_pages SYS_move_pages
    SYS_sendfile SYS_splice SYS_tee SYS_vmsplice SYS_copy_file_range SYS_openat2
    SYS_open_by_handle_at
    SYS_name_to_handle_at SYS_remap_file_pages SYS_memfd_secret
    SYS_socket SYS_connect SYS_accept SYS_accept4 SYS_bind SYS_listen SYS_shutdown SYS_setsockopt
    SYS_sendto SYS_sendmsg
    SYS_sendmmsg SYS_recvfrom SYS_recvmsg SYS_recvmmsg
    SYS_clone SYS_clone3 SYS_fork SYS_vfork SYS_execve SYS_execveat SYS_exit SYS_exit_group
    SYS_unshare SYS_setns
    SYS_setuid SYS_setgid SYS_setpgid SYS_setsid SYS_setreuid SYS_setregid SYS_setgroups
    SYS_setresuid SYS_setresgid
    SYS_setfsuid SYS_setfsgid SYS_capset SYS_seccomp SYS_landlock_create_ruleset
    SYS_landlock_add_rule
    SYS_landlock_restrict_self SYS_add_key SYS_request_key SYS_keyctl
    SYS_io_setup SYS_io_destroy SYS_io_getevents SYS_io_submit SYS_io_cancel SYS_io_uring_setup
    SYS_io_uring_enter
    SYS_io_uring_register SYS_epoll_ctl SYS_epoll_wait SYS_epoll_pwait SYS_epoll_pwait2
    SYS_epoll_ctl_old
    SYS_epoll_wait_old SYS_timerfd_settime SYS_signalfd SYS_signalfd4 SYS_inotify_init
    SYS_inotify_init1
    SYS_inotify_add_watch SYS_inotify_rm_watch SYS_fanotify_init SYS_fanotify_mark SYS_userfaultfd
    SYS_perf_event_open SYS_bpf
    SYS_syslog SYS_uselib SYS_ustat SYS_sysfs SYS_vhangup SYS_modify_ldt SYS_pivot_root SYS__sysctl
    SYS_adjtimex SYS_chroot
    SYS_acct SYS_settimeofday SYS_mount SYS_umount2 SYS_swapon SYS_swapoff SYS_reboot
    SYS_sethostname SYS_setdomainname
    SYS_iopl SYS_ioperm SYS_init_module SYS_delete_module SYS_finit_module SYS_quotactl
    SYS_quotactl_fd SYS_nfsservctl
    SYS_getpmsg SYS_putpmsg SYS_afs_syscall SYS_tuxcall SYS_security SYS_set_thread_area
    SYS_get_thread_area
    SYS_lookup_dcookie SYS_clock_settime SYS_clock_adjtime SYS_vserver SYS_kexec_load
    SYS_kexec_file_load SYS_open_tree
    SYS_move_mount SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr
};

/// Numbers without a name in the libc crate.
const UNNAMED: &[(c_long, Disposition)] = &[
    (174, Disposition::Abort),         // create_module
    (177, Disposition::Abort),         // get_kernel_syms
    (178, Disposition::Abort),         // query_module
    (333, Disposition::Abort),         // io_pgetevents
    (335, Disposition::Abort),         // uretprobe
    (336, Disposition::Abort),         // uprobe
    (451, Disposition::Pass),          // cachestat
    (453, Disposition::Abort),         // map_shadow_stack
    (454, Disposition::Pass),          // futex_wake
    (455, Disposition::Pass),          // futex_wait
    (456, Disposition::Pass),          // futex_requeue
    (457, Disposition::Abort),         // statmount
    (458, Disposition::Abort),         // listmount
    (459, Disposition::Abort),         // lsm_get_self_attr
    (460, Disposition::Abort),         // lsm_set_self_attr
    (461, Disposition::Abort),         // lsm_list_modules
    (463, Disposition::ReportSuccess), // setxattrat
    (464, Disposition::Abort),         // getxattrat
    (465, Disposition::Abort),         // listxattrat
    (466, Disposition::ReportSuccess), // removexattrat
    (467, Disposition::Abort),         // open_tree_attr
    (468, Disposition::Abort),         // file_getattr
    (469, Disposition::Abort),         // file_setattr
];

const LISTS: [(Disposition, &[c_long]); 5] = [
    (Disposition::Pass, PASS),
    (Disposition::Query, QUERY),
    (Disposition::ReportSuccess, REPORT_SUCCESS),
    (Disposition::Emulate, EMULATE),
    (Disposition::Abort, ABORT),
];

/// Limit of the numbers of system calls.
const NUMBER_LIMIT: usize = 470;

static TABLE: [Disposition; NUMBER_LIMIT] = {
    let mut table = [Disposition::Abort; NUMBER_LIMIT];
    let mut list = 0;
    while list < LISTS.len() {
        let (disposition, numbers) = LISTS[list];
        let mut at = 0;
        while at < numbers.len() {
            table[numbers[at] as usize] = disposition;
            at += 1;
        }
        list += 1;
    }
    let mut at = 0;
    while at < UNNAMED.len() {
        table[UNNAMED[at].0 as usize] = UNNAMED[at].1;
        at += 1;
    }
    table
};

/// Returns the disposition of the system call with this number.
pub fn disposition_of(number: c_long) -> Disposition {
    let at = usize::try_from(number).ok();
    at.and_then(|at| TABLE.get(at))
        .copied()
        .unwrap_or(Disposition::Abort)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn all() -> impl Iterator<Item = (c_long, Disposition)> {
        let named = LISTS
            .iter()
            .flat_map(|&(disposition, list)| list.iter().map(move |&number| (number, disposition)));
        named.chain(UNNAMED.iter().copied())
    }

    /// The lists name each number once.
    ///
    /// Linux on x86-64 uses the numbers 0 to 336 and, since 5.1, 424 and higher.
    #[test]
    fn every_system_call_is_named_once() {
        let mut named: Vec<c_long> = all().map(|(number, _)| number).collect();
        named.sort_unstable();
        let expected: Vec<c_long> = (0..=336).chain(424..NUMBER_LIMIT as c_long).collect();
        assert_eq!(named, expected);
    }

    #[test]
    fn each_disposition_has_its_number_of_system_calls() {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (number, disposition) in all() {
            assert_eq!(disposition_of(number), disposition, "{number}");
            let name = match disposition {
                Disposition::Pass => "pass",
                Disposition::Query => "query",
                Disposition::ReportSuccess => "report success",
                Disposition::Emulate => "emulate",
                Disposition::Abort => "abort",
            };
            *counts.entry(name).or_default() += 1;
        }
        let counts: Vec<_> = counts.into_iter().collect();
        assert_eq!(
            counts,
            [
                ("abort", 179),
                ("emulate", 33),
                ("pass", 102),
                ("query", 25),
                ("report success", 44)
            ]
        );
    }

    #[test]
    fn unknown_system_calls_abort_the_replay() {
        for number in [-1, 337, 423, NUMBER_LIMIT as c_long, c_long::MAX] {
            assert_eq!(disposition_of(number), Disposition::Abort, "{number}");
        }
    }

    /// Calls that affect files, other processes or the machine are not executed.
    ///
    /// All of these calls were once executed in a replay, because they were not listed.
    #[test]
    fn changes_of_the_outside_world_are_never_made() {
        let changes = numbers! {
            SYS_openat2 SYS_fchmodat2 SYS_lremovexattr SYS_fremovexattr SYS_futimesat SYS_shmctl
            SYS_semctl SYS_msgctl SYS_mq_open
            SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_rt_sigqueueinfo
            SYS_rt_tgsigqueueinfo SYS_pidfd_send_signal
            SYS_vmsplice SYS_tee SYS_setsockopt SYS_shutdown SYS_recvfrom SYS_umount2
            SYS_sched_setscheduler SYS_setpriority
        };
        for &number in changes {
            let disposition = disposition_of(number);
            assert!(
                matches!(disposition, Disposition::Abort | Disposition::ReportSuccess),
                "{number}: {disposition:?}"
            );
        }
    }
}
