//! How many uploads are read at once, in all and of one tenant.
//!
//! Each is held in memory until it is stored, so all of them have a bound; a tenant has less than all of them, so that none keeps
//! the others out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use everturn_core::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Uploads at once.
const IN_ALL: usize = 4;
/// Uploads of one tenant at once.
const OF_A_TENANT: usize = 2;

#[derive(Debug)]
pub(crate) struct UploadSlots {
    all: Arc<Semaphore>,
    /// Tenants that upload or wait to upload.
    tenants: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// An upload may be read as long as this is held.
#[derive(Debug)]
pub(crate) struct UploadSlot {
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl UploadSlots {
    pub(crate) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(IN_ALL)), tenants: Mutex::default() }
    }

    /// Waits for a slot of the tenant, then for one of all: who waits for the second is one of few.
    pub(crate) async fn acquire(&self, tenant: &TenantId) -> Option<UploadSlot> {
        let of_tenant = self.of(tenant).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(UploadSlot { _of_tenant: of_tenant, _of_all: of_all })
    }

    fn of(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.retain(|_, slots| Arc::strong_count(slots) > 1);
        Arc::clone(tenants.entry(tenant.clone()).or_insert_with(|| Arc::new(Semaphore::new(OF_A_TENANT))))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_tenant_has_some_of_the_slots_and_is_forgotten_after() {
        let [a, b, c] = ["a", "b", "c"].map(|name| name.parse::<TenantId>().unwrap());
        let slots = UploadSlots::new();
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
