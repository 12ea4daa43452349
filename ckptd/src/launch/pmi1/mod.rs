//! stub
use super::{Error, Event, Generation, Identity, Name, Peers, Rank};
use std::sync::{Arc, mpsc::Receiver};
pub struct Server;
impl Server {
    pub fn start(_: Arc<dyn Peers>) -> Result<(Server, Receiver<Event>), Error> {
        Err(Error::Again)
    }
    pub fn begin(&self, _: &Generation) -> Result<(), Error> {
        Err(Error::Again)
    }
    pub fn identity(&self, _: &Name, _: Rank) -> Result<Identity, Error> {
        Err(Error::Again)
    }
    pub fn end(&self, _: &Name) -> Result<(), Error> {
        Err(Error::Again)
    }
}
