//! Keeps up with what others change, and notes when keys were used.

use std::time::Duration;

use everturn_core::Timestamp;
use everturn_store::StoreError;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{Keys, book::Marks};

/// How often the store is asked what is new: two short reads.
const LOOK: Duration = Duration::from_secs(1);
/// Every so many looks, everything is read anew: what others have forgotten is forgotten.
const WHOLE: u64 = 60;
/// Every so many looks, uses are noted.
const NOTE: u64 = 30;

impl Keys {
    /// Looks again and again what others have changed, until told to stop; then notes the last uses.
    pub async fn watch(&self, stop: CancellationToken) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is at once.
        ticks.tick().await;
        let mut trouble = false;
        for look in 1_u64.. {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = ticks.tick() => {}
            }
            self.ring.end_expired(Timestamp::now());
            let mut done = self.refresh(look.is_multiple_of(WHOLE)).await;
            if look.is_multiple_of(NOTE) {
                done = done.and(self.note_uses().await);
            }
            if let Err(error) = &done
                && !trouble
            {
                tracing::warn!(%error, "cannot look whether keys have changed; those that are known stay in use");
            }
            trouble = done.is_err();
        }
        if let Err(error) = self.note_uses().await {
            tracing::warn!(%error, "cannot note when keys were last used");
        }
    }

    /// Takes over what others have changed.
    pub(super) async fn refresh(&self, whole: bool) -> Result<(), StoreError> {
        let Some(book) = &self.book else { return Ok(()) };
        let mut seen = self.seen.lock().await;
        let since = if whole { Marks::default() } else { *seen };
        let (changed, marks) = book.changes(since).await?;
        if marks.any() {
            self.ring.close();
        }
        if whole {
            let ids: Vec<_> = changed.iter().map(|kept| kept.info.id.clone()).collect();
            self.ring.keep_only(&ids);
        }
        self.ring.add(changed);
        *seen = marks;
        Ok(())
    }

    /// Notes the last uses that nobody has noted yet.
    pub(super) async fn note_uses(&self) -> Result<(), StoreError> {
        let Some(book) = &self.book else { return Ok(()) };
        let used = self.ring.all(|held| held.unnoted().is_some());
        let uses: Vec<_> = used.iter().filter_map(|held| held.unnoted()).collect();
        if uses.is_empty() {
            return Ok(());
        }
        book.note_uses(&uses).await?;
        for (_, id, at) in uses {
            if let Some(held) = self.ring.get(&id) {
                held.noted(at);
            }
        }
        Ok(())
    }
}
