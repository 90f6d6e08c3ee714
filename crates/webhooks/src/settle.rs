//! Keeps what came of deliveries. Several at once share a commit.

use std::{sync::Arc, time::Duration};

use everturn_core::{TenantId, Timestamp};
use everturn_store::{Command, Expect, Put, Refusal, Store, Write};
use tokio::sync::{mpsc, oneshot};

/// Most in one commit.
const BATCH: usize = 256;
/// How long to wait after a commit failed; doubled each time, to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

type Order = (Command, oneshot::Sender<Result<(), Refusal>>);

/// Hands changes to the task that commits them. Cheap to clone; the task ends with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Settler(mpsc::Sender<Order>);

impl Settler {
    /// The settler, and the task that must run for it.
    pub(crate) fn new(store: Arc<dyn Store>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(BATCH);
        (Self(sender), run(store, receiver))
    }

    /// Keeps a change; returns when it is durable. `false` if what it expects is not true any more.
    pub(crate) async fn put(&self, tenant: &TenantId, expects: Vec<Expect>, writes: Vec<Write>) -> bool {
        let put = Put { tenant: tenant.clone(), expects, writes, key: None, at: Timestamp::now() };
        let (done, told) = oneshot::channel();
        // It fails only when everything ends.
        self.0.send((Command::Put(Box::new(put)), done)).await.is_ok() && matches!(told.await, Ok(Ok(())))
    }
}

async fn run(store: Arc<dyn Store>, mut orders: mpsc::Receiver<Order>) {
    let mut batch = Vec::with_capacity(BATCH);
    while orders.recv_many(&mut batch, BATCH).await > 0 {
        let (commands, told): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
        let commands = Arc::new(commands);
        let mut wait = FIRST_WAIT;
        let receipts = loop {
            match store.commit(Arc::clone(&commands)).await {
                Ok(receipts) => break receipts,
                Err(error) => {
                    tracing::warn!(%error, "cannot keep what came of webhooks; trying again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
            }
        };
        for (told, receipt) in told.into_iter().zip(receipts) {
            let _ = told.send(receipt.map(drop));
        }
    }
}
