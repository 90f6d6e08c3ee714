//! Starts and stops it all.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use everturn_store::Store;
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Hook, Metrics,
    intake::{Entrance, Intake},
    lane::{Lane, Load, MEMORY},
    post::Post,
    settle::Settler,
};

/// How long everything may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What webhooks need.
#[derive(Clone)]
pub struct Parts {
    /// Where notices are.
    pub store: Arc<dyn Store>,
    /// Told when there may be new ones; see [`everturn_engine::Notices::written`].
    pub written: Arc<Notify>,
    /// What is counted.
    pub metrics: Metrics,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

/// Delivers notices. They are in the store, so that nothing is lost when this is dropped or killed.
#[derive(Debug)]
pub struct Webhooks {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Webhooks {
    /// Starts to deliver what is in the store and what comes, one hook for each tenant. Notices of tenants without a hook
    /// are removed.
    pub fn start(hooks: Vec<Hook>, parts: Parts) -> Result<Self, reqwest::Error> {
        let Parts { store, written, metrics } = parts;
        let posts = hooks.into_iter().map(Arc::new).map(|hook| Ok((Arc::clone(&hook), Post::new(hook)?)));
        let posts: Vec<_> = posts.collect::<Result<_, reqwest::Error>>()?;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (settler, settling) = Settler::new(Arc::clone(&store));
        tasks.spawn(settling);
        let refill = Arc::new(Notify::new());
        let mut lanes = HashMap::new();
        for (hook, post) in posts {
            let (sender, incoming) = mpsc::unbounded_channel();
            let load = Load::new(MEMORY);
            let (tenant, events) = (hook.tenant.clone(), hook.events.clone());
            lanes.insert(tenant, Entrance { sender, events, load: Arc::clone(&load), left_at: None });
            let lane = Lane {
                hook,
                post,
                store: Arc::clone(&store),
                settler: settler.clone(),
                metrics: metrics.clone(),
                load,
                refill: Arc::clone(&refill),
                failing: Arc::default(),
            };
            tasks.spawn(lane.run(incoming, stop.clone()));
        }
        let intake = Intake { store, settler, metrics, lanes, written, refill };
        tasks.spawn(intake.run(stop.clone()));
        tasks.close();
        Ok(Self { stop, tasks })
    }

    /// Stops. Deliveries under way may come through; the others are left to the next start.
    pub async fn shutdown(self) {
        self.stop.cancel();
        if timeout(PATIENCE, self.tasks.wait()).await.is_err() {
            tracing::warn!("webhooks did not stop in time");
        }
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
