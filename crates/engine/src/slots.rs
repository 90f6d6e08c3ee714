//! The slots that turns run in: how many there are at once, and who waits for one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use everturn_core::TenantId;
use tokio::sync::OwnedSemaphorePermit;

use crate::{Engine, Submit, SubmitError, account::Slot};

/// How many turns of each tenant wait for a slot. A tenant may have half of those that may wait, so that none keeps the others out.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<HashMap<TenantId, usize>>);

/// One that waits; dropped when it waits no more.
struct WaitingTurn<'w> {
    waiting: &'w Waiting,
    tenant: &'w TenantId,
}

impl Waiting {
    /// Counts one more, unless as many of the tenant wait already.
    fn join<'w>(&'w self, tenant: &'w TenantId, most: usize) -> Option<WaitingTurn<'w>> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(tenant).copied().unwrap_or(0);
        if count >= most {
            return None;
        }
        counts.insert(tenant.clone(), count + 1);
        Some(WaitingTurn { waiting: self, tenant })
    }
}

impl Drop for WaitingTurn<'_> {
    fn drop(&mut self) {
        let mut counts = self.waiting.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(self.tenant) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(self.tenant)),
        }
    }
}

impl Engine {
    /// A slot to run in: what the quotas allow at once, then a free one, for which it waits within bounds.
    pub(crate) async fn acquire(&self, submit: &Submit, slot: &mut Option<Slot>) -> Result<(), SubmitError> {
        if self.0.draining() {
            return Err(SubmitError::ShuttingDown);
        }
        if slot.is_none() {
            self.check_storage(&submit.tenant, 0).await?;
            self.check_tokens(&submit.tenant, &submit.account).await?;
            let place = self.place(&submit.tenant, &submit.account)?;
            let permit = Some(self.free_slot(&submit.tenant).await?);
            *slot = Some(Slot { _permit: permit, _place: place });
        }
        Ok(())
    }

    async fn free_slot(&self, tenant: &TenantId) -> Result<OwnedSemaphorePermit, SubmitError> {
        let shared = &self.0;
        if let Ok(permit) = Arc::clone(&shared.slots).try_acquire_owned() {
            return Ok(permit);
        }
        let overloaded = SubmitError::Overloaded { limit: shared.settings.concurrent_turns };
        let Some(_waiting) = shared.waiting.join(tenant, shared.settings.queued_turns.div_ceil(2)) else {
            return Err(overloaded);
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_some_of_the_places_and_is_forgotten_after() {
        let (a, b): (TenantId, TenantId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let waiting = Waiting::default();
        let held: Vec<_> = (0..2).map_while(|_| waiting.join(&a, 2)).collect();
        assert_eq!(held.len(), 2);
        assert!(waiting.join(&a, 2).is_none() && waiting.join(&b, 2).is_some());
        drop(held);
        assert!(waiting.0.lock().unwrap().is_empty());
        assert!(waiting.join(&a, 2).is_some());
    }
}
