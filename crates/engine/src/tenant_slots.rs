//! How many tasks of a kind run at once, in all and of one tenant.
//!
//! Uploads are held in memory until they are stored, and documents that are read take memory and CPU: so all of them have a
//! bound. A tenant has less than all of them, so that none keeps the others out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use everturn_core::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots, some of which a tenant may hold.
#[derive(Debug)]
pub struct TenantSlots {
    all: Arc<Semaphore>,
    of_a_tenant: usize,
    /// Tenants that hold slots or wait for one.
    tenants: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// A task may run as long as this is held.
#[derive(Debug)]
pub struct TenantSlot {
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl TenantSlots {
    /// So many slots in all, and so many of them for one tenant.
    pub fn new(in_all: usize, of_a_tenant: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(in_all)), of_a_tenant, tenants: Mutex::default() }
    }

    /// Waits for a slot of the tenant, then for one of all: who waits for the second is one of few.
    pub async fn acquire(&self, tenant: &TenantId) -> Option<TenantSlot> {
        let of_tenant = self.of(tenant).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(TenantSlot { _of_tenant: of_tenant, _of_all: of_all })
    }

    fn of(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.retain(|_, slots| Arc::strong_count(slots) > 1);
        Arc::clone(tenants.entry(tenant.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.of_a_tenant))))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_tenant_has_some_of_the_slots_and_is_forgotten_after() {
        let [a, b, c] = ["a", "b", "c"].map(|name| name.parse::<TenantId>().unwrap());
        let slots = TenantSlots::new(4, 2);
        let take = |tenant| slots.acquire(tenant).now_or_never().flatten();
        let held = [take(&a).unwrap(), take(&a).unwrap()];
        assert!(take(&a).is_none());
        let others = [take(&b).unwrap(), take(&b).unwrap()];
        assert!(take(&c).is_none());
        drop(held);
        assert!(take(&c).is_some());
        assert_eq!(slots.tenants.lock().unwrap().len(), 2);
        drop(others);
        assert!(take(&a).is_some());
    }
}
