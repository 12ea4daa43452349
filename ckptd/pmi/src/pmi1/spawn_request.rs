//! Spawn requests of ranks: `spawn`, a command of several lines for each program.
//!
//! ```text
//! mcmd=spawn
//! nprocs=2
//! execname=child
//! totspawns=1         number of programs
//! spawnssofar=1       number of programs up to this one
//! argcnt=1
//! arg1=anything       up to the end of the line
//! preput_num=1        data that the processes can get from the beginning; with the first program
//! preput_key_0=key
//! preput_val_0=value
//! info_num=1
//! info_key_0=wdir
//! info_val_0=/tmp
//! endcmd
//! ```

use crate::Preput;
use std::collections::BTreeMap;
use std::path::Path;
use understudy_messages::ChildProgram;

/// Limit of bytes of all lines of a request.
const MAX_REQUEST_BYTES: usize = 4 << 20;

/// Part of a request that was received.
#[derive(Default)]
pub struct SpawnRequest {
    /// Fields of the program that is being received.
    fields: BTreeMap<String, String>,
    /// Complete programs; `None` for a program that cannot be started.
    programs: Vec<Option<ChildProgram>>,
    put: Preput,
    bytes: usize,
}

impl SpawnRequest {
    /// Handles a line; returns true if it was the last line.
    pub fn take(&mut self, line: &[u8]) -> bool {
        self.bytes += line.len();
        let line = String::from_utf8_lossy(line);
        if line != "endcmd" {
            let (name, value) = line.split_once('=').unwrap_or((&line, ""));
            self.fields.insert(name.to_owned(), value.to_owned());
            return false;
        }
        self.programs.push(self.program());
        let put: Vec<_> = self.pairs("preput").collect();
        self.put.extend(put);
        let is_last = self.number("spawnssofar") >= self.number("totspawns");
        self.fields.clear();
        is_last
    }

    /// True if the request exceeds the limit.
    pub fn is_too_long(&self) -> bool {
        self.bytes > MAX_REQUEST_BYTES
    }

    /// Returns the programs and the data that they can get from the beginning.
    ///
    /// `None` if the request is invalid.
    pub fn into_programs(self) -> Option<(Vec<ChildProgram>, Preput)> {
        Some((self.programs.into_iter().collect::<Option<_>>()?, self.put))
    }

    fn program(&self) -> Option<ChildProgram> {
        let infos: BTreeMap<String, String> = self.pairs("info").collect();
        let name = self.fields.get("execname")?;
        let arguments =
            (1..=self.number("argcnt")?).map(|number| self.fields.get(&format!("arg{number}")));
        let arguments: Vec<&String> = [Some(name)]
            .into_iter()
            .chain(arguments)
            .collect::<Option<_>>()?;
        let file = infos
            .get("path")
            .map_or(name.into(), |path| Path::new(path).join(name));
        Some(ChildProgram {
            file: file.to_string_lossy().into_owned(),
            arguments: arguments.into_iter().cloned().collect(),
            variables: Vec::new(),
            directory: infos.get("wdir").map(Into::into),
            processes: self.number("nprocs").filter(|&processes| processes > 0)?,
        })
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.fields.get(name)?.parse().ok()
    }

    /// Returns names and values of the fields `KIND_key_0`, `KIND_val_0`, and so on.
    fn pairs(&self, kind: &str) -> impl Iterator<Item = (String, String)> {
        let field = move |what, number| self.fields.get(&format!("{kind}_{what}_{number}"));
        (0..).map_while(move |number| {
            Some((field("key", number)?.clone(), field("val", number)?.clone()))
        })
    }
}
