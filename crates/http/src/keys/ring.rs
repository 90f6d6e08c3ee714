//! The keys that callers are recognised by, in memory.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicI64, Ordering},
    },
};

use everturn_core::{KeyId, Quota, TenantId, Timestamp};
use everturn_engine::{Account, Whose};

use super::{
    KeyInfo, KeyStatus, Quotas,
    book::Kept,
    limits::Pace,
    secret::{Digest, MAX_SECRET},
    streams::OpenStreams,
};
use crate::{AuthError, Caller, Scope};

/// A key as callers meet it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) digest: Digest,
    pub(super) info: KeyInfo,
    /// The most that it allows.
    allowed: Option<Scope>,
    account: Arc<Account>,
    pace: Option<Pace>,
    tenants_pace: Option<Arc<Pace>>,
    /// The streams that it has opened.
    pub(super) streams: Arc<OpenStreams>,
    /// When it was last used, in milliseconds; zero for never.
    used: AtomicI64,
    /// Which use was noted last.
    noted: AtomicI64,
}

impl Held {
    /// Whether it opens at this time.
    fn check(&self, now: Timestamp) -> Result<(), AuthError> {
        match self.info.status(now) {
            KeyStatus::Live => Ok(()),
            KeyStatus::Expired => Err(AuthError::Expired),
            KeyStatus::Revoked => Err(AuthError::Revoked),
        }
    }

    /// Lets the caller in, once for every request.
    fn open(&self, now: Timestamp) -> Result<Caller, AuthError> {
        self.check(now)?;
        self.used.fetch_max(now.millis(), Ordering::Relaxed);
        // The key's first: a key that is beyond its own takes nothing of what the tenant may.
        take(Whose::Key, self.pace.as_ref())?;
        take(Whose::Tenant, self.tenants_pace.as_deref())?;
        Ok(Caller { tenant: self.info.tenant.clone(), account: Arc::clone(&self.account), allowed: self.allowed })
    }

    /// When it was last used, as far as this server knows.
    pub(super) fn last_used(&self) -> Option<Timestamp> {
        Some(self.used.load(Ordering::Relaxed)).filter(|at| *at > 0).map(Timestamp)
    }

    /// The last use, if nobody has noted it yet.
    pub(super) fn unnoted(&self) -> Option<(TenantId, KeyId, Timestamp)> {
        let used = self.last_used().filter(|used| used.millis() > self.noted.load(Ordering::Relaxed))?;
        Some((self.info.tenant.clone(), self.info.id.clone(), used))
    }

    pub(super) fn noted(&self, at: Timestamp) {
        self.noted.fetch_max(at.millis(), Ordering::Relaxed);
    }
}

fn take(whose: Whose, pace: Option<&Pace>) -> Result<(), AuthError> {
    let taken = pace.map_or(Ok(()), Pace::take);
    taken.map_err(|(limit, retry_after)| AuthError::TooMany { whose, limit, retry_after })
}

#[derive(Debug, Default)]
struct Table {
    quotas: Quotas,
    by_digest: HashMap<Digest, Arc<Held>>,
    by_id: HashMap<KeyId, Arc<Held>>,
    /// Of the tenants that have keys.
    paces: HashMap<TenantId, Option<Arc<Pace>>>,
    /// Whether no key is needed.
    open: Option<Open>,
}

/// How callers without a key are let in.
#[derive(Clone, Debug)]
struct Open {
    account: Arc<Account>,
    pace: Option<Arc<Pace>>,
}

/// How somebody is let in.
enum Found {
    Open(Open),
    Key(Arc<Held>),
}

impl Table {
    /// A table without keys, which lets everybody in.
    fn open(quotas: Quotas) -> Self {
        let mut table = Self { quotas, ..Self::default() };
        let local = TenantId::local();
        let tenant_quota = table.quotas.of_tenant(&local);
        let account = Arc::new(Account { tenant_quota, ..Account::default() });
        table.open = Some(Open { account, pace: table.pace(&local) });
        table
    }

    fn pace(&mut self, tenant: &TenantId) -> Option<Arc<Pace>> {
        let Self { quotas, paces, .. } = self;
        let new = || Pace::of(&quotas.of_tenant(tenant)).map(Arc::new);
        paces.entry(tenant.clone()).or_insert_with(new).clone()
    }

    /// Adds a key, or puts what became of it in its place. One that is the same stays, with what it counts.
    fn add(&mut self, Kept { digest, info }: Kept) {
        // What was taken back stays so, and the configuration comes first.
        let stays =
            |held: &Arc<Held>| held.info.is_configured() || held.info.revoked_at.is_some() || info.revoked_at.is_none();
        if self.by_digest.get(&digest).is_some_and(stays) {
            return;
        }
        let before = self.by_id.get(&info.id).cloned();
        let held = self.hold(Kept { digest, info }, before.as_deref(), Arc::default());
        let earlier = self.put(&held);
        // A key takes the place of another only once it is revoked.
        earlier.iter().for_each(|earlier| earlier.streams.end());
        if held.info.revoked_at.is_some() {
            held.streams.end();
        }
    }

    /// A key as callers meet it, with what was counted of it before.
    fn hold(&mut self, Kept { digest, info }: Kept, before: Option<&Held>, streams: Arc<OpenStreams>) -> Arc<Held> {
        let tenants_pace = self.pace(&info.tenant);
        let used = before.map_or(0, |held| held.used.load(Ordering::Relaxed));
        let noted = before.map_or(0, |held| held.noted.load(Ordering::Relaxed));
        let key_quota = self.quotas.of_key(&info.quota);
        let tenant_quota = self.quotas.of_tenant(&info.tenant);
        let account = Account { key: Some(info.id.clone()), key_quota, tenant_quota };
        Arc::new(Held {
            digest,
            allowed: info.scopes.iter().max().copied(),
            account: Arc::new(account),
            pace: Pace::of(&key_quota),
            tenants_pace,
            streams,
            used: used.into(),
            noted: noted.into(),
            info,
        })
    }

    /// Puts a key in its place, and gives back the one that was there.
    fn put(&mut self, held: &Arc<Held>) -> Option<Arc<Held>> {
        self.by_digest.insert(held.digest, Arc::clone(held));
        self.by_id.insert(held.info.id.clone(), Arc::clone(held))
    }

    fn remove(&mut self, id: &KeyId) {
        if let Some(held) = self.by_id.remove(id) {
            self.by_digest.remove(&held.digest);
            held.streams.end();
        }
    }
}

/// The keys of a server. Looked at by every request, changed rarely.
#[derive(Debug)]
pub(super) struct Ring {
    table: RwLock<Table>,
}

impl Ring {
    /// Opens to everybody on this machine while there is no key.
    pub(super) fn new(quotas: Quotas) -> Self {
        Self { table: RwLock::new(Table::open(quotas)) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether callers need no key.
    pub(super) fn is_open(&self) -> bool {
        self.read().open.is_some()
    }

    /// Callers need a key from now on. Nothing takes that back.
    pub(super) fn close(&self) {
        self.write().open = None;
    }

    pub(super) fn add(&self, keys: impl IntoIterator<Item = Kept>) {
        let mut table = self.write();
        for key in keys {
            table.add(key);
        }
    }

    /// Takes these as the keys of the configuration, and nobody else, with these quotas. Keys of the store stay. Streams of a
    /// key that is gone, or gives its holder something else, end.
    pub(super) fn reconfigure(&self, configured: impl IntoIterator<Item = Kept>, quotas: Quotas) {
        let mut current = self.write();
        let mut next = Table::open(quotas);
        let stored = current.by_id.values().filter(|held| !held.info.is_configured());
        let stored = stored.map(|held| Kept { digest: held.digest, info: held.info.clone() });
        for kept in configured.into_iter().chain(stored) {
            // The configuration comes first.
            if next.by_digest.contains_key(&kept.digest) || next.by_id.contains_key(&kept.info.id) {
                continue;
            }
            let before = current.by_digest.get(&kept.digest);
            let goes_on = before.filter(|held| held.info.gives_the_same(&kept.info));
            let streams = goes_on.map(|held| Arc::clone(&held.streams)).unwrap_or_default();
            let held = next.hold(kept, before.map(Arc::as_ref), streams);
            next.put(&held);
        }
        // Once a key was needed, one is.
        if current.open.is_none() || !next.by_id.is_empty() {
            next.open = None;
        }
        let goes_on = |held: &Arc<Held>| {
            next.by_digest.get(&held.digest).is_some_and(|next| Arc::ptr_eq(&next.streams, &held.streams))
        };
        current.by_id.values().filter(|held| !goes_on(held)).for_each(|held| held.streams.end());
        *current = next;
    }

    /// Forgets the keys of the store that are not among these.
    pub(super) fn keep_only(&self, kept: &[KeyId]) {
        let kept: std::collections::HashSet<_> = kept.iter().collect();
        let mut table = self.write();
        let is_gone = |held: &&Arc<Held>| !held.info.is_configured() && !kept.contains(&held.info.id);
        let gone: Vec<_> = table.by_id.values().filter(is_gone).map(|held| held.info.id.clone()).collect();
        for id in gone {
            table.remove(&id);
        }
    }

    /// Finds out who shows this, and counts the request. `here` tells whether the caller calls this machine by its own
    /// name.
    pub(super) fn caller(&self, secret: Option<&[u8]>, here: impl FnOnce() -> bool) -> Result<Caller, AuthError> {
        match self.find(secret)? {
            Found::Key(held) => held.open(Timestamp::now()),
            Found::Open(_) if !here() => Err(AuthError::Host),
            Found::Open(Open { account, pace }) => {
                take(Whose::Tenant, pace.as_deref())?;
                Ok(Caller { tenant: TenantId::local(), account, allowed: Some(Scope::Admin) })
            }
        }
    }

    /// Whether whoever shows this would be let in. Counts nothing.
    pub(super) fn knows(&self, secret: Option<&[u8]>, here: impl FnOnce() -> bool) -> bool {
        match self.find(secret) {
            Ok(Found::Key(held)) => held.check(Timestamp::now()).is_ok(),
            Ok(Found::Open(_)) => here(),
            Err(_) => false,
        }
    }

    fn find(&self, secret: Option<&[u8]>) -> Result<Found, AuthError> {
        // Taken before the lock, and of anything that is shown, so that the time tells nothing of what there is.
        let secret = secret.map(|secret| (secret.len() <= MAX_SECRET, Digest::of(secret)));
        let table = self.read();
        if let Some(open) = &table.open {
            return Ok(Found::Open(open.clone()));
        }
        let (fits, digest) = secret.ok_or(AuthError::Missing)?;
        // Where the table looks depends on the digest alone, which nobody can choose who does not know the secret.
        let found = table.by_digest.get(&digest).filter(|held| fits && held.digest.is(&digest));
        Ok(Found::Key(Arc::clone(found.ok_or(AuthError::Invalid)?)))
    }

    /// The key that this is the secret of. Counts nothing.
    pub(super) fn holder(&self, secret: Option<&[u8]>) -> Option<Arc<Held>> {
        match self.find(secret) {
            Ok(Found::Key(held)) => Some(held),
            Ok(Found::Open(_)) | Err(_) => None,
        }
    }

    /// Ends the streams of keys whose time is over.
    pub(super) fn end_expired(&self, now: Timestamp) {
        let table = self.read();
        let expired = table.by_id.values().filter(|held| held.info.status(now) == KeyStatus::Expired);
        expired.for_each(|held| held.streams.end());
    }

    /// What a tenant may use, and one of its keys. A key that is not known any more has the quota of any key.
    pub(super) fn account(&self, tenant: &TenantId, key: Option<&KeyId>) -> Arc<Account> {
        let held = key.and_then(|key| self.get(key)).filter(|held| held.info.tenant == *tenant);
        held.map(|held| Arc::clone(&held.account)).unwrap_or_else(|| {
            let table = self.read();
            let key_quota = table.quotas.of_key(&Quota::default());
            let tenant_quota = table.quotas.of_tenant(tenant);
            Arc::new(Account { key: key.cloned(), key_quota, tenant_quota })
        })
    }

    /// One key.
    pub(super) fn get(&self, id: &KeyId) -> Option<Arc<Held>> {
        self.read().by_id.get(id).cloned()
    }

    /// Those keys that this is true of.
    pub(super) fn all(&self, wanted: impl Fn(&Held) -> bool) -> Vec<Arc<Held>> {
        self.read().by_id.values().filter(|held| wanted(held)).cloned().collect()
    }
}
