//! Requests of a rank to its template process, for replays.

use super::finding::TrialResult;
use super::template_line::has_ended;
use super::template_request::{Answer, Request, memory_file, read, timeout};
use crate::copies::ReplayPlan;
use crate::runtime_state::StateCell;
use bincode::config::standard;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use understudy_image::pages::PageRun;
use understudy_wire::line::Line;

/// Time limit of an answer, in addition to that of the replay.
const MARGIN: Duration = Duration::from_secs(30);
/// Time between two polls for an answer.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Line to a template process, and the number of the last request.
struct TemplateLine {
    line: Line,
    last: Cell<u64>,
}

/// Template process of this rank, if there is one.
pub struct Template(StateCell<Option<Rc<TemplateLine>>>);

/// Request to the template process, which is cancelled when this value is dropped.
pub struct ReplayRequest {
    template_line: Weak<TemplateLine>,
    number: u64,
    /// File in memory to which the template process writes the result.
    result: File,
}

impl Template {
    /// Returns the state without a template process.
    pub const fn none() -> Template {
        Template(StateCell::new(None))
    }

    /// Makes the process at the other end of this line the template process.
    pub fn attach(&self, line: Line) {
        self.0.set(Some(Rc::new(TemplateLine {
            line,
            last: Cell::new(0),
        })));
    }

    /// Returns true if the process exists; drops its line if it has ended.
    pub fn check_alive(&self) -> bool {
        let mut template_line = self.0.borrow_mut();
        *template_line = template_line.take_if(|template_line| !has_ended(&template_line.line));
        template_line.is_some()
    }

    /// Drops the line to the template process, which has ended; returns the error.
    fn drop_ended<T>(&self) -> Result<T, String> {
        self.0.set(None);
        Err("the process for replays has ended".into())
    }

    /// Requests trial replays of a phase, by its encoded plan.
    pub fn request_trial(&self, plan: &[u8]) -> Result<ReplayRequest, String> {
        self.send_request(Request::Trial, plan)
    }

    /// Requests a replay whose result is the contents of these pages, in this order.
    pub fn request_pages(
        &self,
        plan: &ReplayPlan,
        pages: &[PageRun],
    ) -> Result<ReplayRequest, String> {
        let bytes =
            bincode::encode_to_vec((plan, pages), standard()).map_err(|error| error.to_string())?;
        self.send_request(Request::Rebuild, &bytes)
    }

    fn send_request(
        &self,
        request: fn(u64) -> Request,
        bytes: &[u8],
    ) -> Result<ReplayRequest, String> {
        let to_text = |error: io::Error| format!("a replay cannot be requested: {error}");
        let (mut request_file, result) = (
            memory_file().map_err(to_text)?,
            memory_file().map_err(to_text)?,
        );
        request_file.write_all(bytes).map_err(to_text)?;
        let Some(template_line) = self.0.borrow().clone() else {
            return self.drop_ended();
        };
        let number = template_line.last.get() + 1;
        template_line.last.set(number);
        let files = [request_file.as_fd(), result.as_fd()];
        if template_line
            .line
            .send_with(&request(number), &files)
            .is_err()
        {
            return self.drop_ended();
        }
        let template_line = Rc::downgrade(&template_line);
        Ok(ReplayRequest {
            template_line,
            number,
            result,
        })
    }
}

impl Drop for ReplayRequest {
    fn drop(&mut self) {
        if let Some(template_line) = self
            .template_line
            .upgrade()
            .filter(|template_line| template_line.last.get() == self.number)
        {
            // A template process that has ended is detected by the next request.
            let _ = template_line.line.send(&Request::Cancel);
        }
    }
}

impl ReplayRequest {
    /// Waits for the answer, at most for `limit`; returns true if the request is completed.
    ///
    /// # Errors
    /// Fails with the reason if the replay has failed or the template process has ended.
    fn wait_for_answer(&self, template: &Template, limit: Duration) -> Result<bool, String> {
        loop {
            let received = template
                .0
                .borrow()
                .as_ref()
                .map(|template_line| template_line.line.receive::<Answer>(limit));
            match received {
                Some(Ok(None)) => return Ok(false),
                Some(Ok(Some(answer))) if answer.number == self.number => {
                    return answer.outcome.map(|()| true);
                }
                // The answer to a cancelled request.
                Some(Ok(Some(_))) => {}
                Some(Err(_)) | None => return template.drop_ended(),
            }
        }
    }

    /// Returns the result of trial replays once they are completed.
    pub fn trial_result(&mut self, template: &Template) -> Option<Result<TrialResult, String>> {
        match self.wait_for_answer(template, Duration::ZERO) {
            Ok(false) => None,
            Ok(true) => Some(read(&mut self.result).map_err(|error| error.to_string())),
            Err(why) => Some(Err(why)),
        }
    }

    /// Waits for the pages of a replay; returns the file with them.
    pub fn wait_for_pages(self, template: &Template, plan: &ReplayPlan) -> Result<File, String> {
        let (began, limit) = (Instant::now(), timeout(plan) + MARGIN);
        while !self.wait_for_answer(template, POLL_INTERVAL)? {
            if began.elapsed() > limit {
                return Err("the process for replays does not answer".into());
            }
        }
        self.result.try_clone().map_err(|error| error.to_string())
    }
}
