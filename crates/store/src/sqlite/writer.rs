//! The one thread that writes.

use std::{path::Path, sync::Arc};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::{
    batch::{Batch, RowIds},
    checkpoint::Checkpointer,
    live::LiveTurns,
    trim::{Extent, OLDEST},
};
use crate::{ClaimedTurn, Command, NodeId, Receipt, Refusal, StoreError};

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked to do. Whoever asked may be gone when the answer comes.
pub(super) enum Request {
    Commit {
        batch: Arc<Vec<Command>>,
        answer: Answer<Vec<Result<Receipt, Refusal>>>,
    },
    Claim {
        node: NodeId,
        limit: usize,
        answer: Answer<Vec<ClaimedTurn>>,
    },
    /// Lets a test bring the connection into trouble.
    #[cfg(test)]
    Run(Box<dyn FnOnce(&Connection) + Send>),
}

/// Owns the connection that writes.
pub(super) struct Writer {
    connection: Connection,
    live: Arc<LiveTurns>,
    ids: RowIds,
    extent: Extent,
    checkpointer: Checkpointer,
}

impl Writer {
    pub(super) fn new(
        path: &Path,
        mut connection: Connection,
        live: Arc<LiveTurns>,
        ids: RowIds,
        extent: Extent,
    ) -> rusqlite::Result<Self> {
        let checkpointer = Checkpointer::start(path, &mut connection)?;
        Ok(Self { connection, live, ids, extent, checkpointer })
    }

    /// Works until nobody can ask any more. If it panics, the channel closes and everybody who waits is told so.
    pub(super) fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(request) = requests.blocking_recv() {
            match request {
                Request::Commit { batch, answer } => {
                    let verdicts = self.transact(|work| batch.iter().map(|command| work.judge(command)).collect());
                    let _ = answer.send(verdicts);
                }
                Request::Claim { node, limit, answer } => {
                    let claimed = self.transact(|work| work.claim(&node, limit));
                    let _ = answer.send(claimed);
                }
                #[cfg(test)]
                Request::Run(job) => job(&self.connection),
            }
            self.checkpointer.after_commit(&self.connection);
        }
        self.checkpointer.stop();
        if let Err(error) = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
            tracing::warn!(%error, "cannot move the write-ahead log into the database; the next start will");
        }
    }

    /// One transaction. What it staged in memory is published if, and only if, it is durable.
    fn transact<T>(&mut self, work: impl FnOnce(&mut Batch<'_, '_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // What was published is durable, so rows before the first that it names are dead, whatever this batch does.
        let mut extent = self.extent;
        let alive = if extent.is_due() { self.live.first_row().unwrap_or(self.ids.next_log) } else { 0 };
        let oldest = if extent.is_due() && extent.is_long() { self.live.oldest(OLDEST) } else { Vec::new() };

        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut batch = Batch::new(&transaction, &self.live, &mut self.ids);
        let done = work(&mut batch)?;
        batch.gather_oldest(&oldest)?;
        if extent.is_due() {
            extent.trim(&transaction, alive)?;
        }
        extent.grow(batch.written);
        let staged = batch.staged;
        transaction.commit()?;
        staged.publish();
        self.extent = extent;
        Ok(done)
    }
}
