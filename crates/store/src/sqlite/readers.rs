//! Connections that only read. A reader never waits for the writer, nor the writer for a reader.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{
    location::Location,
    open::{Role, connect},
};
use crate::StoreError;

/// How many reads happen at once. More would only fight for the same disk.
const READERS: usize = 4;

/// A bounded set of connections, opened when they are first needed.
#[derive(Debug)]
pub(super) struct Readers {
    location: Arc<Location>,
    turns: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(location: Arc<Location>) -> Self {
        Self { location, turns: Arc::new(Semaphore::new(READERS)), idle: Arc::default() }
    }

    /// Runs a read. Each statement of it sees one snapshot of the database, begun when the statement is.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let location = Arc::clone(&self.location);
        let idle = Arc::clone(&self.idle);
        let read = tokio::task::spawn_blocking(move || {
            // The permit goes along, so that a read whose caller has gone counts until it ends.
            let _permit = permit;
            let pooled = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut connection = match pooled {
                Some(connection) => connection,
                None => open(&location)?,
            };
            let found = work(&mut connection)?;
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            Ok(found)
        });
        match read.await {
            Ok(found) => found,
            Err(error) if error.is_panic() => {
                tracing::error!("a read of the store panicked");
                Err(StoreError::Corrupt("a read failed in a way that it should not".to_owned()))
            }
            Err(_) => Err(StoreError::Closed),
        }
    }

    /// Ends reading: those who come now are told so.
    pub(super) fn close(&self) {
        self.turns.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Opens a connection, unless another database has taken the place of this one.
fn open(location: &Location) -> Result<Connection, StoreError> {
    location.check()?;
    let connection = connect(location.database(), Role::Reader)?;
    // It may have been replaced just before it was opened.
    location.check()?;
    Ok(connection)
}
