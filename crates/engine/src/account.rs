//! On whose account turns run, and how many at once.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use everturn_core::{KeyId, Quota, TenantId, Timestamp};
use everturn_store::StoreError;
use tokio::sync::OwnedSemaphorePermit;

use crate::{Engine, SubmitError};

/// How soon to try again when too many turns run: one may end at any moment.
const TURN_WAIT: Duration = Duration::from_secs(1);

/// On whose account something is submitted. The tenant is told apart from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The key that was shown; `None` where none is needed.
    pub key: Option<KeyId>,
    /// What the key may use.
    pub key_quota: Quota,
    /// What the tenant may use, with all its keys together.
    pub tenant_quota: Quota,
}

/// Whose quota it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The key's.
    Key,
    /// The tenant's.
    Tenant,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key",
            Self::Tenant => "tenant",
        })
    }
}

/// A quota that is used up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaExceeded {
    /// As many turns run as may.
    #[error("this {whose} may have {limit} turns running at once, and has; try again when one has ended")]
    Turns {
        /// Whose quota.
        whose: Whose,
        /// How many may run.
        limit: u32,
    },
    /// As many tokens were used as may be in a day.
    #[error("this {whose} may use {limit} tokens a day and has used {used} today (UTC); try again tomorrow")]
    Tokens {
        /// Whose quota.
        whose: Whose,
        /// How many may be used.
        limit: u64,
        /// How many were.
        used: u64,
        /// How long until the next day begins.
        retry_after: Duration,
    },
}

impl QuotaExceeded {
    /// When it makes sense to try again.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Turns { .. } => TURN_WAIT,
            Self::Tokens { retry_after, .. } => *retry_after,
        }
    }
}

/// A tenant, or one of its keys.
type Payer = (TenantId, Option<KeyId>);

/// How many turns of whom this process runs.
#[derive(Debug, Default)]
pub(crate) struct RunningTurns(Mutex<HashMap<Payer, u32>>);

impl RunningTurns {
    fn lock(&self) -> MutexGuard<'_, HashMap<Payer, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more, if the quotas allow it.
    fn enter(self: &Arc<Self>, tenant: &TenantId, account: &Account) -> Result<TurnPlace, QuotaExceeded> {
        let mut counts = self.lock();
        let count = |payer: &Payer| counts.get(payer).copied().unwrap_or(0);
        let bound = |whose, quota: &Quota, payer: &Payer| match quota.concurrent_turns {
            Some(limit) if count(payer) >= limit.get() => Err(QuotaExceeded::Turns { whose, limit: limit.get() }),
            Some(_) | None => Ok(()),
        };
        if account.key.is_some() {
            bound(Whose::Key, &account.key_quota, &(tenant.clone(), account.key.clone()))?;
        }
        bound(Whose::Tenant, &account.tenant_quota, &(tenant.clone(), None))?;
        let place = TurnPlace::new(self, tenant, account.key.clone());
        place.count(&mut counts);
        Ok(place)
    }

    /// Counts one more, whatever the quotas say: it was accepted before.
    pub(crate) fn enter_anyway(self: &Arc<Self>, tenant: &TenantId, key: Option<KeyId>) -> TurnPlace {
        let place = TurnPlace::new(self, tenant, key);
        place.count(&mut self.lock());
        place
    }
}

/// A place among those that run. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct TurnPlace {
    turns: Arc<RunningTurns>,
    tenant: Payer,
    key: Option<Payer>,
}

impl TurnPlace {
    fn new(turns: &Arc<RunningTurns>, tenant: &TenantId, key: Option<KeyId>) -> Self {
        let key = key.map(|key| (tenant.clone(), Some(key)));
        Self { turns: Arc::clone(turns), tenant: (tenant.clone(), None), key }
    }

    fn payers(&self) -> impl Iterator<Item = &Payer> {
        std::iter::once(&self.tenant).chain(&self.key)
    }

    fn count(&self, counts: &mut HashMap<Payer, u32>) {
        self.payers().for_each(|payer| *counts.entry(payer.clone()).or_default() += 1);
    }
}

impl Drop for TurnPlace {
    fn drop(&mut self) {
        let mut counts = self.turns.lock();
        for payer in self.payers() {
            match counts.get_mut(payer) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) => drop(counts.remove(payer)),
                None => {}
            }
        }
    }
}

/// What a turn needs to run: a slot of the server, and a place among its tenant's turns.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) _permit: Option<OwnedSemaphorePermit>,
    pub(crate) _place: TurnPlace,
}

impl Engine {
    /// A place for a turn that a submission begins or takes up.
    pub(crate) fn place(&self, tenant: &TenantId, account: &Account) -> Result<TurnPlace, SubmitError> {
        Ok(self.0.running.enter(tenant, account)?)
    }

    /// Refuses a new turn of those who have used their tokens of the day. A turn that has begun goes on.
    pub(crate) async fn check_tokens(&self, tenant: &TenantId, account: &Account) -> Result<(), SubmitError> {
        let now = Timestamp::now();
        let key = account.key.as_ref();
        let bounds = [
            account.key_quota.tokens_per_day.filter(|_| key.is_some()).map(|limit| (Whose::Key, limit, key)),
            account.tenant_quota.tokens_per_day.map(|limit| (Whose::Tenant, limit, None)),
        ];
        for (whose, limit, key) in bounds.into_iter().flatten() {
            let used = self.used_today(tenant, key, now).await?;
            if used >= limit.get() {
                let left = now.day().next().begins().millis().saturating_sub(now.millis());
                let retry_after = Duration::from_millis(u64::try_from(left).unwrap_or(0));
                return Err(QuotaExceeded::Tokens { whose, limit: limit.get(), used, retry_after }.into());
            }
        }
        Ok(())
    }

    async fn used_today(&self, tenant: &TenantId, key: Option<&KeyId>, now: Timestamp) -> Result<u64, StoreError> {
        Ok(self.0.store.used_on(tenant, now.day(), key).await?.total())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn turns(limit: u32) -> Quota {
        Quota { concurrent_turns: NonZeroU32::new(limit), ..Quota::default() }
    }

    #[test]
    fn places_are_counted_for_the_key_and_for_the_tenant() {
        let (running, tenant) = (Arc::new(RunningTurns::default()), TenantId::mint());
        let account = |key: &str, limit| Account {
            key: Some(key.parse().unwrap()),
            key_quota: turns(limit),
            tenant_quota: turns(3),
        };
        let (one, two) = (account("key_1", 2), account("key_2", 2));
        let held = [running.enter(&tenant, &one).unwrap(), running.enter(&tenant, &one).unwrap()];
        let refused = QuotaExceeded::Turns { whose: Whose::Key, limit: 2 };
        assert_eq!(running.enter(&tenant, &one).unwrap_err(), refused);
        let third = running.enter(&tenant, &two).unwrap();
        let refused = QuotaExceeded::Turns { whose: Whose::Tenant, limit: 3 };
        assert_eq!(running.enter(&tenant, &two).unwrap_err(), refused);
        // Another tenant's key of the same name is another key.
        assert!(running.enter(&TenantId::mint(), &one).is_ok());
        let beyond = running.enter_anyway(&tenant, two.key.clone());
        drop((held, third, beyond));
        assert!(running.lock().is_empty());
        assert!(running.enter(&tenant, &two).is_ok());
    }
}
