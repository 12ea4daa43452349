//! Share of a node in a job that is started by ckptd: its guardians.

use super::plan::Plan;
use crate::Error;
use crate::find_program::find_program;
use crate::job_environment::Text;
use crate::process_context::ProcessContext;
use crate::tied_child::die_with_parent;
use bincode::{Decode, Encode};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use understudy_numbers::Guardian;
use understudy_pmi::{Identity, adopt};
use understudy_wire::line::PRELOAD_VARIABLE;

/// Share of a node in a job.
#[derive(Clone, Debug, Encode, Decode)]
pub struct NodeShare {
    pub job: String,
    /// Number of processes of the whole job.
    pub size: u32,
    /// Ranks of this node's guardians.
    pub ranks: Vec<Guardian>,
    /// File of the program.
    file: Text,
    /// Name of the program, followed by its arguments.
    program: Vec<Text>,
    preload: Text,
    variables: Vec<(Text, Text)>,
}

impl NodeShare {
    /// Returns the share that contains the whole job.
    ///
    /// # Errors
    /// [`Error::NoProgram`], [`Error::Missing`].
    pub fn of(plan: &Plan, job: String) -> Result<NodeShare, Error> {
        let name = &plan.program[0];
        let file = find_program(name).ok_or_else(|| Error::NoProgram(name.into()))?;
        let prepended = |value: OsString, name: &str, under: &str| {
            let mut list = value;
            if let Some(others) = std::env::var_os(name).filter(|others| !others.is_empty()) {
                list.push(":");
                list.push(others);
            }
            (under.as_bytes().to_vec(), list.into_vec())
        };
        let directory = plan.mpi.as_deref().and_then(Path::parent);
        let mut variables = vec![prepended(
            plan.preload.clone(),
            "LD_PRELOAD",
            PRELOAD_VARIABLE,
        )];
        variables
            .extend(directory.map(|directory| {
                prepended(directory.into(), "LD_LIBRARY_PATH", "LD_LIBRARY_PATH")
            }));
        variables.push((b"UNDERSTUDY_ASIDE".to_vec(), b"1".to_vec()));
        variables.push((
            b"UNDERSTUDY_SPARES".to_vec(),
            plan.spares.to_string().into_bytes(),
        ));
        let size = plan.workers + plan.spares;
        let share = NodeShare {
            job,
            size,
            ranks: (0..size).map(Guardian).collect(),
            file: file.into_os_string().into_vec(),
            program: plan
                .program
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect(),
            preload: plan.preload.clone().into_vec(),
            variables,
        };
        share.check()?;
        Ok(share)
    }

    /// Returns the share with these ranks only.
    pub fn with(&self, ranks: Vec<Guardian>) -> NodeShare {
        NodeShare {
            ranks,
            ..self.clone()
        }
    }

    /// Checks that the program and the preload library exist on this node.
    ///
    /// # Errors
    /// [`Error::NoProgram`], [`Error::Missing`].
    pub fn check(&self) -> Result<(), Error> {
        let path = |text: &Text| PathBuf::from(OsStr::from_bytes(text));
        let (file, preload) = (path(&self.file), path(&self.preload));
        match (file.is_file(), preload.is_file()) {
            (false, _) => Err(Error::NoProgram(file)),
            (_, false) => Err(Error::Missing(preload)),
            _ => Ok(()),
        }
    }

    /// Starts the guardians of these ranks; `input` is the standard input of rank 0.
    ///
    /// The guardians do not outlive this thread.
    ///
    /// # Errors
    /// Errors of starting a process.
    pub fn start(
        &self,
        context: ProcessContext<'_>,
        mut input: impl FnMut() -> Stdio,
    ) -> Result<Vec<Child>, Error> {
        let failed = || Error::system("a guardian");
        let mut guardian = |(local_rank, &rank)| {
            let mut command = self.command(context, local_rank, rank)?;
            let [stdout, stderr] = context.streams.for_command().map_err(failed())?;
            command.stdout(stdout).stderr(stderr);
            command.stdin(if rank == Guardian(0) {
                input()
            } else {
                Stdio::null()
            });
            command.spawn().map_err(failed())
        };
        let mut started: Vec<Child> = Vec::new();
        for each in (0..).zip(&self.ranks) {
            match guardian(each) {
                Ok(child) => started.push(child),
                Err(error) => {
                    // After an error, no caller waits for the guardians that were started before.
                    for mut child in started {
                        let _ = child.kill();
                        let _ = child.wait();
                    }
                    return Err(error);
                }
            }
        }
        Ok(started)
    }

    fn command(
        &self,
        context: ProcessContext<'_>,
        local_rank: u32,
        rank: Guardian,
    ) -> Result<Command, Error> {
        let mut command = Command::new(context.ckptd);
        command
            .args(["guardian", "--"])
            .arg(OsStr::from_bytes(&self.file));
        command.args(self.program.iter().map(|word| OsStr::from_bytes(word)));
        context.environment.give_to(&mut command);
        let set = |(name, value): &(Text, Text)| {
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
        };
        self.variables.iter().for_each(set);
        command.env_remove("LD_PRELOAD");
        let variables = [
            ("PMIX_NAMESPACE", self.job.clone()),
            ("PMIX_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_SIZE", self.size.to_string()),
            ("OMPI_COMM_WORLD_LOCAL_RANK", local_rank.to_string()),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", self.ranks.len().to_string()),
        ];
        let identity = Identity {
            variables: variables
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            defaults: Vec::new(),
            descriptor: None,
        };
        adopt(&mut command, identity);
        die_with_parent(&mut command);
        Ok(command)
    }
}
