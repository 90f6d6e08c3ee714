//! Finds notices in the store and hands them to the lanes, each once and in order.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use everturn_core::{TenantId, Timestamp};
use everturn_engine::{NOTICE_DUE, Notice, NoticeKind};
use everturn_store::{RecordKind, RecordRow, Store, StoreError, Write};
use tokio::{
    sync::{Notify, mpsc},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Metrics,
    lane::{GIVEN_UP, Load, Waiting},
    settle::Settler,
};

/// Notices of one reading.
const PAGE: usize = 500;
/// How often to look without being told to: for what could not be read, and for what is old.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long notices that were given up are kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The way to a lane.
pub(crate) struct Entrance {
    pub(crate) sender: mpsc::UnboundedSender<Waiting>,
    pub(crate) events: BTreeSet<NoticeKind>,
    pub(crate) load: Arc<Load>,
    /// Where those begin that had no room, if there are any.
    pub(crate) left_at: Option<u64>,
}

/// Reads the store.
pub(crate) struct Intake {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settler: Settler,
    pub(crate) metrics: Metrics,
    pub(crate) lanes: HashMap<TenantId, Entrance>,
    /// Told when there may be new notices.
    pub(crate) written: Arc<Notify>,
    /// Told when there is room for those that had none.
    pub(crate) refill: Arc<Notify>,
}

impl Intake {
    /// Reads until told to stop.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // All positions up to here have been read.
        let mut read_to = 0;
        loop {
            let (written, refill) = (Arc::clone(&self.written), Arc::clone(&self.refill));
            let mut old = false;
            tokio::select! {
                () = stop.cancelled() => return,
                () = written.notified() => {}
                () = refill.notified() => {}
                // The first is at once.
                _ = ticks.tick() => old = true,
            }
            let worked = async {
                self.refill(read_to).await?;
                read_to = self.read_new(read_to).await?;
                if old { self.remove_old().await } else { Ok(()) }
            };
            let worked = tokio::select! {
                () = stop.cancelled() => return,
                worked = worked => worked,
            };
            if let Err(error) = worked {
                tracing::warn!(%error, "cannot read what is to be sent by webhook; trying again");
                // What was told is not told again.
                self.written.notify_one();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// Reads what is above a position; gives the last that was read.
    async fn read_new(&mut self, mut read_to: u64) -> Result<u64, StoreError> {
        loop {
            let page = self.page(read_to).await?;
            let last = page.len() < PAGE;
            let mut unwanted = Vec::new();
            for row in page {
                read_to = row.position;
                let Some(lane) = self.lanes.get_mut(&row.tenant) else {
                    // Its hook was removed.
                    unwanted.push(row);
                    continue;
                };
                if lane.left_at.is_some() {
                    continue;
                }
                if !lane.load.has_room() {
                    lane.left_at = Some(row.position.saturating_sub(1));
                    lane.load.more.store(true, Ordering::Relaxed);
                    continue;
                }
                unwanted.extend(lane.take(row, &self.metrics));
            }
            self.remove(unwanted).await;
            if last {
                return Ok(read_to);
            }
        }
    }

    /// Brings what had no room, to lanes that have some now. What is above a position has not been read yet, and is not
    /// read here.
    async fn refill(&mut self, read_to: u64) -> Result<(), StoreError> {
        let low = |lane: &Entrance| lane.left_at.filter(|_| lane.load.is_low());
        while let Some(mut at) = self.lanes.values().filter_map(low).min() {
            let mut page = self.page(at).await?;
            let last = page.len() < PAGE || page.last().is_some_and(|row| row.position >= read_to);
            page.retain(|row| row.position <= read_to);
            let begun = at;
            let mut unwanted = Vec::new();
            for row in page {
                at = row.position;
                let Some(lane) = self.lanes.get_mut(&row.tenant) else { continue };
                // Those of others that had no room are read when it is their turn.
                if lane.left_at.is_some_and(|left| left >= begun && left < row.position) && lane.load.has_room() {
                    lane.left_at = Some(row.position);
                    unwanted.extend(lane.take(row, &self.metrics));
                }
            }
            self.remove(unwanted).await;
            // What is not theirs is behind them all the same.
            for lane in self.lanes.values_mut() {
                if lane.left_at.is_some_and(|left| left >= begun && left < at) && lane.load.has_room() {
                    lane.left_at = Some(at);
                }
                if last && lane.left_at.is_some_and(|left| left >= begun) && lane.load.has_room() {
                    lane.left_at = None;
                    lane.load.more.store(false, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    async fn page(&self, above: u64) -> Result<Vec<RecordRow>, StoreError> {
        self.store.records_of_all(RecordKind::Notice, NOTICE_DUE, Some(above), PAGE).await
    }

    async fn remove_old(&self) -> Result<(), StoreError> {
        let kept = i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp(Timestamp::now().millis().saturating_sub(kept));
        let old = self.store.old_records(RecordKind::Notice, GIVEN_UP, before, PAGE).await?;
        self.remove(old).await;
        Ok(())
    }

    async fn remove(&self, rows: Vec<RecordRow>) {
        let mut by_tenant: HashMap<TenantId, Vec<Write>> = HashMap::new();
        for RecordRow { tenant, record, .. } in rows {
            let remove = Write::Remove { kind: RecordKind::Notice, id: record.id };
            by_tenant.entry(tenant).or_default().push(remove);
        }
        for (tenant, writes) in by_tenant {
            tracing::debug!(%tenant, count = writes.len(), "notices that nobody is to be told of are removed");
            self.settler.put(&tenant, Vec::new(), writes).await;
        }
    }
}

impl Entrance {
    /// Hands a notice to the lane; gives it back if nobody wants it.
    fn take(&self, row: RecordRow, metrics: &Metrics) -> Option<RecordRow> {
        let notice = serde_json::from_str::<Notice>(row.record.body.as_str()).ok();
        // One that cannot be read is the lane's to complain of.
        let next_at = notice.as_ref().map(|notice| notice.next_at).unwrap_or_default();
        let wanted = notice.is_none_or(|notice| self.events.contains(&notice.kind));
        let (true, Some(session)) = (wanted, row.record.session.clone()) else { return Some(row) };
        self.load.add();
        metrics.waiting.inc();
        // It is closed only when everything ends.
        let _ = self.sender.send(Waiting { id: row.record.id, session, next_at });
        None
    }
}

#[cfg(test)]
mod tests;
