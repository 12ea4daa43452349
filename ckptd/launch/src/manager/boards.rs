//! Boards: files in a node's memory in which busy workers publish their state.
//!
//! For processes on other nodes, the manager of the workers' node reads the files.

use super::node::NodeState;
use super::node_queue::NodeMessage;
use crate::messages::Report;
use bincode::config::standard;
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use understudy_catalogue::message;
use understudy_formats::private_directories::read_own;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_pmi::Answer;
use understudy_relay::{board, job_of_directory, name_in_memory};
use understudy_wire::line::{Boards, ToProcess};

impl NodeState {
    /// Requests boards of the node of `process`, for a process of this node.
    pub(super) fn request_boards(
        &mut self,
        (reader, reader_request): (ProcessNumber, u64),
        process: ProcessNumber,
        workers: Vec<Worker>,
    ) {
        let Some(generation) = self
            .last_generation
            .as_ref()
            .map(|begun| begun.name.clone())
        else {
            return;
        };
        let sender = self.queue.sender();
        // No answer arrives if the generation ends; the process is notified of that end.
        let deliver = move |bytes: Option<Vec<u8>>| {
            if let Some(bytes) = bytes {
                sender.put(NodeMessage::BoardContents(reader, reader_request, bytes));
            }
        };
        let (answer, _) = Answer::new(Box::new(deliver));
        let id = self.register_request(vec![generation], answer);

        self.reports.push(Report::ReadBoards {
            id,
            process,
            workers,
        });
    }

    /// Reads boards of this node for another node.
    pub(super) fn read_boards(&mut self, id: u64, workers: &[Worker]) {
        let read =
            |&worker: &Worker| read_own(&self.board(worker)).map_err(|error| error.to_string());
        let boards: Boards = workers.iter().map(read).collect();
        let bytes = bincode::encode_to_vec(boards, standard()).ok();
        self.reports.push(Report::Answer { id, bytes });
    }

    fn board(&self, worker: Worker) -> PathBuf {
        let directory = self
            .directory
            .file_name()
            .and_then(OsStr::to_str)
            .unwrap_or_default();
        let name = name_in_memory(job_of_directory(directory), &board(worker));
        self.directory.with_file_name(name)
    }

    /// Sends a process the boards that were read on another node.
    pub(super) fn send_boards(&self, number: ProcessNumber, id: u64, bytes: &[u8]) {
        let file = || -> io::Result<File> {
            let mut file = File::from(memfd_create("boards", MemfdFlags::CLOEXEC)?);
            file.write_all(bytes)?;
            file.rewind()?;
            Ok(file)
        };
        if let Some(process) = self.processes.get(&number) {
            match file() {
                Ok(file) => process.send(&ToProcess::BoardContents { id }, &[file.into()]),
                Err(error) => log::error!("{}", message::ports_not_forwarded(number, error)),
            }
        }
    }
}
