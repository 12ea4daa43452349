//! Jobs, found by the ledgers of their ranks.
//!
//! Event files of a job are read if the launcher's command line or environment names the directory.

use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use understudy_formats::events::realtime_ns;
use understudy_formats::events::{ProcessNumber, Role};
use understudy_relay::{LedgerRank, RankStage, survey};
use understudy_report::described;
use understudy_report::{JobState, Live, count};
use understudy_settings::present_name;

/// A rank on this node.
#[derive(Debug, Serialize)]
pub struct RankStatus {
    #[serde(serialize_with = "described")]
    pub rank: ProcessNumber,
    pub pid: u32,
    pub lives: bool,
    /// `starting`, `in MPI_Init` or `running`.
    pub stage: &'static str,
    /// True for a spare that has not become a replacement.
    pub is_idle: bool,
    /// Role of the rank according to event files.
    #[serde(serialize_with = "described")]
    pub role: Option<Role>,
}

#[derive(Debug, Serialize)]
pub struct JobStatus {
    pub job: String,
    pub launcher: u32,
    pub ranks: Vec<RankStatus>,
    pub events: Option<PathBuf>,
    pub standing: Option<JobState>,
}

/// Finds the jobs of this node and follows the event files of each.
#[derive(Default)]
pub struct Finder {
    events: BTreeMap<PathBuf, Live>,
}

impl Finder {
    /// Returns the running jobs, and the number of jobs of which only files are left.
    pub fn jobs(&mut self) -> (Vec<JobStatus>, usize) {
        let mut jobs: BTreeMap<String, Vec<LedgerRank>> = BTreeMap::new();
        for entry_of_rank in survey() {
            jobs.entry(entry_of_rank.job.clone())
                .or_default()
                .push(entry_of_rank);
        }
        let job_count = jobs.len();
        jobs.retain(|_, entries| entries.iter().any(LedgerRank::is_in_use));
        let abandoned = job_count - jobs.len();
        let jobs: Vec<_> = jobs
            .into_iter()
            .map(|(job, entries)| self.status(job, &entries))
            .collect();
        self.events.retain(|directory, _| {
            jobs.iter()
                .any(|job| job.events.as_ref() == Some(directory))
        });
        (jobs, abandoned)
    }

    fn status(&mut self, job: String, entries: &[LedgerRank]) -> JobStatus {
        let launcher = entries
            .iter()
            .find_map(|entry_of_rank| entry_of_rank.entry.map(|entry| entry.launcher))
            .unwrap_or(0);
        let events = event_directory(launcher);
        let standing = events.as_ref().and_then(|directory| {
            let live = self.events.entry(directory.clone());
            let live = live.or_insert_with(|| Live::new(directory));
            live.poll().ok().flatten().cloned()
        });
        // While this job starts, the directory may contain the files of an earlier job.
        let standing = standing.filter(|standing| standing.job == job);
        let ranks = entries
            .iter()
            .map(|entry_of_rank| RankStatus::new(entry_of_rank, standing.as_ref()))
            .collect();
        JobStatus {
            job,
            launcher,
            ranks,
            events,
            standing,
        }
    }
}

impl JobStatus {
    /// Returns the job in one line.
    pub fn headline(&self) -> String {
        let Some(standing) = &self.standing else {
            return format!(
                "{}: {} here, no event files (--events)",
                self.job,
                count(self.ranks.len(), "rank", "ranks")
            );
        };
        let since = realtime_ns().saturating_sub(standing.started_ns) / 1_000_000_000;
        format!(
            "{}: {}, {}, {}, for {since} s | {}",
            self.job,
            standing.program,
            count(standing.workers, "worker", "workers"),
            count(standing.spares, "spare", "spares"),
            standing.to_line(realtime_ns())
        )
    }
}

impl RankStatus {
    fn new(entry_of_rank: &LedgerRank, standing: Option<&JobState>) -> Self {
        let process = standing.and_then(|standing| standing.processes.get(&entry_of_rank.rank));
        Self {
            rank: entry_of_rank.rank,
            pid: entry_of_rank.entry.map_or(0, |entry| entry.pid),
            lives: entry_of_rank.entry.is_some_and(|entry| entry.lives),
            stage: match entry_of_rank.entry.map(|entry| entry.stage) {
                None | Some(RankStage::Starting) => "starting",
                Some(RankStage::Initialising) => "in MPI_Init",
                Some(RankStage::Running) => "running",
            },
            is_idle: entry_of_rank.entry.is_some_and(|entry| entry.is_idle),
            role: process.map(|process| process.role),
        }
    }

    pub fn role_text(&self) -> String {
        match self.role {
            Some(role) => role.to_string(),
            None if self.is_idle => "spare".into(),
            None => "-".into(),
        }
    }

    pub fn state(&self) -> &'static str {
        match (self.lives, self.is_idle) {
            (false, _) if self.pid != 0 => "DEAD",
            (_, true) => "waits",
            _ => self.stage,
        }
    }

    pub fn line(&self) -> String {
        format!(
            "rank {:<4} {:<10} pid {:<8} {}",
            self.rank,
            self.role_text(),
            self.pid,
            self.state()
        )
    }
}

/// Returns the directory for event files that the launcher's command line or environment names.
fn event_directory(launcher: u32) -> Option<PathBuf> {
    let is_setting = |name: &str| present_name(name).unwrap_or(name) == "UNDERSTUDY_EVENTS";
    let process = Path::new("/proc").join(launcher.to_string());
    let find = |file: &str| {
        let text = std::fs::read(process.join(file)).ok()?;
        let words = text.split(|&byte| byte == 0).map(String::from_utf8_lossy);
        words
            .filter_map(|word| {
                let (name, value) = word.split_once('=')?;
                is_setting(name).then(|| PathBuf::from(value))
            })
            .next_back()
    };
    let named = find("cmdline").or_else(|| find("environ"))?;
    // A relative path is relative to the launcher's working directory.
    Some(std::fs::read_link(process.join("cwd")).ok()?.join(named))
}
