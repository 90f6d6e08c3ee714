//! On whose account turns run, and how many at once.

use std::{
    collections::HashMap,
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use everturn_core::{FailureCode, KeyId, Quota, TenantId, Timestamp, Usage, Wait};
use everturn_store::StoreError;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::{
    CutError, Engine, SubmitError, UploadError,
    step::after,
    turn::{Stopped, Turn},
};

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
    #[error("this {whose} may have {limit} {} running at once, and has; try again when one has ended", turns(*.limit))]
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
    /// As much is stored as may be, or would be.
    #[error(
        "this tenant may store {limit} bytes (documents, artifacts and logs, quota.storage) and stores {used}; delete documents or \
         sessions first"
    )]
    Storage {
        /// How many bytes may be stored.
        limit: u64,
        /// How many are.
        used: u64,
    },
}

impl QuotaExceeded {
    /// When it makes sense to try again.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Turns { .. } => TURN_WAIT,
            Self::Tokens { retry_after, .. } => *retry_after,
            // Nobody knows when something is deleted.
            Self::Storage { .. } => Duration::ZERO,
        }
    }

    /// Whether it is about what is stored, which no waiting helps.
    pub fn is_storage(&self) -> bool {
        matches!(self, Self::Storage { .. })
    }
}

fn turns(count: u32) -> &'static str {
    if count == 1 { "turn" } else { "turns" }
}

/// A tenant, or one of its keys.
type Payer = (TenantId, Option<KeyId>);

/// Knows what keys and tenants may use, also when nobody shows a key: a turn that a timer wakes is somebody's.
pub trait Accounts: Send + Sync + 'static {
    /// The account of a tenant, and of one of its keys.
    fn account(&self, tenant: &TenantId, key: Option<&KeyId>) -> Arc<Account>;
}

/// Nobody has a quota.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unbounded;

impl Accounts for Unbounded {
    fn account(&self, _: &TenantId, key: Option<&KeyId>) -> Arc<Account> {
        Arc::new(Account { key: key.cloned(), ..Account::default() })
    }
}

/// How many turns of somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Turns {
    running: u32,
    /// Accepted before, and to run as soon as there is room. New ones come after them.
    waiting: u32,
}

/// How many turns of whom this process runs.
#[derive(Debug, Default)]
pub(crate) struct RunningTurns {
    turns: Mutex<HashMap<Payer, Turns>>,
    freed: Notify,
}

impl RunningTurns {
    fn lock(&self) -> MutexGuard<'_, HashMap<Payer, Turns>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more, if the quotas allow it.
    fn enter(self: &Arc<Self>, tenant: &TenantId, account: &Account) -> Result<TurnPlace, QuotaExceeded> {
        self.enter_if(tenant, account, |turns| turns.running.saturating_add(turns.waiting))
    }

    fn enter_if(
        self: &Arc<Self>,
        tenant: &TenantId,
        account: &Account,
        taken: impl Fn(Turns) -> u32,
    ) -> Result<TurnPlace, QuotaExceeded> {
        let mut turns = self.lock();
        let bound = |whose, quota: &Quota, payer: &Payer| match quota.concurrent_turns {
            Some(limit) if taken(turns.get(payer).copied().unwrap_or_default()) >= limit.get() => {
                Err(QuotaExceeded::Turns { whose, limit: limit.get() })
            }
            Some(_) | None => Ok(()),
        };
        if account.key.is_some() {
            bound(Whose::Key, &account.key_quota, &(tenant.clone(), account.key.clone()))?;
        }
        bound(Whose::Tenant, &account.tenant_quota, &(tenant.clone(), None))?;
        let place = TurnPlace::new(self, tenant, account.key.clone(), |turns| &mut turns.running);
        place.add(&mut turns);
        Ok(place)
    }

    /// Counts one more as soon as the quotas allow it: it was accepted before.
    pub(crate) async fn enter_in_turn(self: &Arc<Self>, tenant: &TenantId, account: &Account) -> TurnPlace {
        if let Ok(place) = self.enter(tenant, account) {
            return place;
        }
        let waiting = TurnPlace::new(self, tenant, account.key.clone(), |turns| &mut turns.waiting);
        waiting.add(&mut self.lock());
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            if let Ok(place) = self.enter_if(tenant, account, |turns| turns.running) {
                return place;
            }
            freed.await;
        }
    }

    /// Counts one more, whatever the quotas say: it is only to be ended.
    pub(crate) fn enter_anyway(self: &Arc<Self>, tenant: &TenantId, key: Option<KeyId>) -> TurnPlace {
        let place = TurnPlace::new(self, tenant, key, |turns| &mut turns.running);
        place.add(&mut self.lock());
        place
    }
}

/// A place in a count of a tenant and a key. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct TurnPlace {
    turns: Arc<RunningTurns>,
    tenant: Payer,
    key: Option<Payer>,
    count: fn(&mut Turns) -> &mut u32,
}

impl TurnPlace {
    fn new(
        turns: &Arc<RunningTurns>,
        tenant: &TenantId,
        key: Option<KeyId>,
        count: fn(&mut Turns) -> &mut u32,
    ) -> Self {
        let key = key.map(|key| (tenant.clone(), Some(key)));
        Self { turns: Arc::clone(turns), tenant: (tenant.clone(), None), key, count }
    }

    fn payers(&self) -> impl Iterator<Item = &Payer> {
        std::iter::once(&self.tenant).chain(&self.key)
    }

    fn add(&self, turns: &mut HashMap<Payer, Turns>) {
        for payer in self.payers() {
            *(self.count)(turns.entry(payer.clone()).or_default()) += 1;
        }
    }
}

impl Drop for TurnPlace {
    fn drop(&mut self) {
        let mut turns = self.turns.lock();
        for payer in self.payers() {
            if let Some(left) = turns.get_mut(payer) {
                let count = (self.count)(left);
                *count = count.saturating_sub(1);
                if *left == Turns::default() {
                    turns.remove(payer);
                }
            }
        }
        drop(turns);
        self.turns.freed.notify_waiters();
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

    /// What a turn needs to run that was accepted before, if it need not wait for it.
    pub(crate) fn free_slot_in_turn(&self, tenant: &TenantId, key: Option<&KeyId>) -> Option<Slot> {
        let account = self.0.accounts.account(tenant, key);
        let place = self.0.running.enter(tenant, &account).ok()?;
        let permit = Arc::clone(&self.0.slots).try_acquire_owned().ok()?;
        Some(Slot { _permit: Some(permit), _place: place })
    }

    /// What a turn needs to run that was accepted before: the quotas' place first, so that whoever waits for one keeps no
    /// slot from others.
    pub(crate) async fn slot_in_turn(&self, tenant: &TenantId, key: Option<&KeyId>) -> Slot {
        let account = self.0.accounts.account(tenant, key);
        let place = self.0.running.enter_in_turn(tenant, &account).await;
        // They are never closed.
        let permit = Arc::clone(&self.0.slots).acquire_owned().await.ok();
        Slot { _permit: permit, _place: place }
    }

    /// Refuses those who have used their tokens of the day.
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

    /// Refuses those who store as much as they may, or would with so many bytes more.
    pub(crate) async fn check_storage(&self, tenant: &TenantId, more: u64) -> Result<(), StorageError> {
        let Some(limit) = self.0.accounts.account(tenant, None).tenant_quota.storage else { return Ok(()) };
        let (limit, used) = (limit.get(), self.0.store.stored_bytes(tenant).await?);
        if used >= limit || more > limit - used {
            return Err(QuotaExceeded::Storage { limit, used }.into());
        }
        Ok(())
    }

    /// How many bytes the tenant's documents, artifacts and logs have.
    pub async fn stored_bytes(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.0.store.stored_bytes(tenant).await
    }

    async fn used_today(&self, tenant: &TenantId, key: Option<&KeyId>, now: Timestamp) -> Result<u64, StoreError> {
        Ok(self.0.store.used_on(tenant, now.day(), key).await?.total())
    }
}

/// Why nothing more is stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StorageError {
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<StorageError> for SubmitError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Quota(quota) => Self::Quota(quota),
            StorageError::Store(error) => Self::Store(error),
        }
    }
}

impl From<StorageError> for CutError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Quota(quota) => Self::Quota(quota),
            StorageError::Store(error) => Self::Store(error),
        }
    }
}

impl From<StorageError> for UploadError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Quota(quota) => Self::Quota(quota),
            StorageError::Store(error) => Self::Store(error),
        }
    }
}

impl Turn {
    /// Fails if the tenant stores as much as it may. Asked before each step: what a step has begun it may finish.
    pub(crate) async fn is_beyond_storage(&mut self) -> Result<bool, Stopped> {
        let checked = Engine(Arc::clone(&self.shared)).check_storage(&self.tenant, 0).await;
        // A store in trouble fails no turn: what it appends waits anyway.
        let Err(StorageError::Quota(quota)) = checked else { return Ok(false) };
        self.fail(FailureCode::StorageQuota, quota.to_string(), false, Usage::default()).await?;
        Ok(true)
    }

    /// Rests until tomorrow if the tenant or the key has used its tokens of the day. Asked once each time when the turn
    /// begins or is taken up: a message that waited in a queue, or for a timer, was accepted while there were some left.
    pub(crate) async fn waits_for_tokens(&mut self) -> Result<bool, Stopped> {
        if self.has_tokens {
            return Ok(false);
        }
        let account = self.shared.accounts.account(&self.tenant, self.state.by.as_ref());
        let checked = Engine(Arc::clone(&self.shared)).check_tokens(&self.tenant, &account).await;
        let Err(SubmitError::Quota(quota)) = checked else {
            // A store in trouble keeps no turn waiting: what it appends waits anyway.
            self.has_tokens = true;
            return Ok(false);
        };
        self.notice(format!("the turn waits until tomorrow: {quota}"))?;
        let wake_at = after(self.now(), quota.retry_after());
        self.pause(Wait { calls: Vec::new(), wake_at: Some(wake_at) }).await?;
        Ok(true)
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

    #[tokio::test]
    async fn those_that_were_accepted_come_before_those_that_were_not() {
        let (running, tenant) = (Arc::new(RunningTurns::default()), TenantId::mint());
        let account = Account { tenant_quota: turns(1), ..Account::default() };
        let held = running.enter(&tenant, &account).unwrap();
        let mut woken = std::pin::pin!(running.enter_in_turn(&tenant, &account));
        assert!(futures_util::poll!(woken.as_mut()).is_pending());
        drop(held);
        assert!(running.enter(&tenant, &account).is_err(), "somebody waits");
        let place = woken.await;
        assert!(running.enter(&tenant, &account).is_err());
        drop(place);
        assert!(running.enter(&tenant, &account).is_ok());
        assert!(running.lock().is_empty());
    }
}
