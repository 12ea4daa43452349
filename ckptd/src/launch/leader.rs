//! The leader of a job: has the state machine that decides, and a clock. Reports become events, and actions become orders.

use super::talk::{Order, Report};
use crate::line::{FromGuardian, ToGuardian, ToManager};
use std::time::{Duration, Instant};
use understudy_protocol::{Action, Ending, Event, Generation, Guardian, Job, LOST, Node, Number, Said};

/// A job's leader.
pub struct Leader {
    /// There is none before the first guardian has said how many there are.
    job: Option<Job>,
    began: Instant,
    orders: Vec<Order>,
}

impl Leader {
    pub fn new() -> Leader {
        Leader {
            job: None,
            began: Instant::now(),
            orders: Vec::new(),
        }
    }

    /// When [`tick`](Self::tick) is wanted.
    pub fn limit(&self) -> Option<Duration> {
        let deadline = self.job.as_ref()?.deadline()?;
        Some(deadline.saturating_sub(self.began.elapsed()))
    }

    /// Time has passed.
    pub fn tick(&mut self) {
        self.happen(Event::Tick);
    }

    /// What is to be done, in order.
    pub fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// What follows from what a node tells.
    pub fn hear(&mut self, report: Report) {
        match report {
            Report::Came { rank, workers, spares } => {
                self.job.get_or_insert_with(|| Job::new(workers, spares));
                self.happen(Event::Came(Guardian(rank), Node(0)));
            }
            Report::Gone { rank } => self.happen(Event::Gone(Guardian(rank))),
            Report::Called { number } => self.happen(Event::Called(Number(number))),
            Report::Process { number, said } => self.happen(Event::Said(Number(number), said_by_process(&said))),
            Report::Guardian(message) => self.happen(said_by_guardian(&message)),
            Report::Broke { number } => self.happen(Event::Broke(Number(number))),
            Report::GivesUp(why) => {
                eprintln!("understudy: {why}");
                self.happen(Event::Abort(LOST));
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let Some(job) = &mut self.job else { return };
        let actions = job.handle(self.began.elapsed(), event);
        actions.into_iter().for_each(|action| self.act(action));
    }

    fn act(&mut self, action: Action) {
        let to_guardian = |at: Guardian, message| Order::Guardian { rank: at.0, message };
        let order = match action {
            Action::Start { number, at, anew } => to_guardian(at, ToGuardian::Start { number: number.0, anew }),
            Action::Kill { number, at } => to_guardian(at, ToGuardian::Kill { number: number.0 }),
            Action::Leave { at, status } => to_guardian(at, ToGuardian::Leave { status }),
            Action::Admit { number, generation } => Order::Admit {
                number: number.0,
                generation: generation.map(|generation| generation.0),
            },
            Action::Announce(generation) => {
                log::info!("generation {generation} is to be");
                Order::Announce {
                    generation: generation.0,
                }
            }
            Action::Inherit { heir, from } => Order::Inherit {
                heir: heir.0,
                from: from.0,
            },
            Action::Begin { generation, ranks } => {
                log::info!("generation {generation} begins with {} processes", ranks.len());
                Order::Begin {
                    generation: generation.0,
                    ranks: ranks.into_iter().map(|number| number.0).collect(),
                }
            }
            Action::End { is_good } => Order::End { is_good },
            Action::Say(text) => return eprintln!("understudy: {text}"),
        };
        self.orders.push(order);
    }
}

fn said_by_guardian(message: &FromGuardian) -> Event {
    match *message {
        FromGuardian::Exited { number, status, .. } => Event::Ended(Number(number), Ending::Exit(status)),
        FromGuardian::Killed {
            number,
            signal,
            is_asked,
        } => {
            let ending = match is_asked {
                true => Ending::Asked(signal),
                false => Ending::Signal(signal),
            };
            Event::Ended(Number(number), ending)
        }
        FromGuardian::Closed { number, written } => Event::Closed(Number(number), written),
    }
}

fn said_by_process(message: &ToManager) -> Said {
    match *message {
        ToManager::Ready { generation } => Said::Ready(Generation(generation)),
        ToManager::Running { generation } => Said::Running(Generation(generation)),
        ToManager::Failed { generation } => Said::Failed(Generation(generation)),
        ToManager::AtEnd { generation } => Said::AtEnd(Generation(generation)),
        ToManager::Keeps { worker } => Said::Keeps(worker),
        ToManager::KeepsNothing => Said::KeepsNothing,
        ToManager::Replenish { spares } => Said::Replenish(spares),
        ToManager::Abort { status } => Said::Abort(status),
    }
}
