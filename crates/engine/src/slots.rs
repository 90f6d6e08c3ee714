//! The slots that turns run in: how many there are at once, and who waits for one.

use std::sync::{Arc, atomic::Ordering};

use tokio::sync::OwnedSemaphorePermit;

use crate::{Engine, Submit, SubmitError, account::Slot};

impl Engine {
    /// A slot to run in: what the quotas allow at once, then a free one, for which it waits within bounds.
    pub(crate) async fn acquire(&self, submit: &Submit, slot: &mut Option<Slot>) -> Result<(), SubmitError> {
        if self.0.draining() {
            return Err(SubmitError::ShuttingDown);
        }
        if slot.is_none() {
            self.check_tokens(&submit.tenant, &submit.account).await?;
            let place = self.place(&submit.tenant, &submit.account)?;
            let permit = Some(self.free_slot().await?);
            *slot = Some(Slot { _permit: permit, _place: place });
        }
        Ok(())
    }

    async fn free_slot(&self) -> Result<OwnedSemaphorePermit, SubmitError> {
        let shared = &self.0;
        if let Ok(permit) = Arc::clone(&shared.slots).try_acquire_owned() {
            return Ok(permit);
        }
        let overloaded = SubmitError::Overloaded { limit: shared.settings.concurrent_turns };
        if shared.queued.fetch_add(1, Ordering::Relaxed) >= shared.settings.queued_turns {
            shared.queued.fetch_sub(1, Ordering::Relaxed);
            return Err(overloaded);
        }
        shared.metrics.turns_queued.inc();
        let permit = tokio::select! {
            permit = Arc::clone(&shared.slots).acquire_owned() => permit.ok(),
            () = tokio::time::sleep(shared.settings.queue_timeout) => None,
            () = shared.drain.cancelled() => None,
        };
        shared.queued.fetch_sub(1, Ordering::Relaxed);
        shared.metrics.turns_queued.dec();
        match permit {
            Some(permit) => Ok(permit),
            None if shared.draining() => Err(SubmitError::ShuttingDown),
            None => Err(overloaded),
        }
    }
}
