//! Keys: those of the configuration, and those that the store keeps.
//!
//! The store has the truth ([`book`]); the server keeps what it needs to recognise callers in memory ([`ring`]), and
//! looks every second what others have changed. Only a digest of a secret is kept anywhere.

mod book;
mod error;
mod info;
mod limits;
mod ring;
mod secret;
mod streams;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;

use everturn_core::{KeyId, Quota, TenantId, Timestamp};
use everturn_engine::{Account, Accounts, SubmissionKey};
use everturn_store::{Store, StoreError};
use http::{HeaderMap, HeaderName};
use secrecy::SecretString;
use tokio::sync::Mutex;

pub(crate) use self::streams::OpenedFor;
pub use self::{
    book::MAX_LIVE_KEYS,
    error::BookError,
    info::{KeyInfo, KeyStatus, MAX_KEY_NAME, NewKey},
    limits::Quotas,
    secret::MetricsKey,
    streams::end_with_key,
};
use self::{
    book::{Book, Kept, Marks},
    ring::{Held, Ring},
    secret::Digest,
};
use crate::{
    AuthError, Caller, Scope,
    auth::{bearer, in_header},
    host::names_this_machine,
};

/// A key of the configuration, as the server knows it: not the key itself.
#[derive(Clone, Debug)]
pub struct Key {
    digest: Digest,
    id: Option<KeyId>,
    name: String,
    tenant: TenantId,
    scopes: Vec<Scope>,
    expires_at: Option<Timestamp>,
    quota: Quota,
}

impl Key {
    /// Keeps what is needed to recognise a key.
    pub fn new(secret: &str, tenant: TenantId, scopes: Vec<Scope>) -> Self {
        let digest = Digest::of(secret.as_bytes());
        Self { digest, id: None, name: String::new(), tenant, scopes, expires_at: None, quota: Quota::default() }
    }

    /// The same with a name, for programs and for people.
    pub fn named(self, id: KeyId, name: &str) -> Self {
        Self { id: Some(id), name: name.to_owned(), ..self }
    }

    /// The same, until a time.
    pub fn until(self, expires_at: Option<Timestamp>) -> Self {
        Self { expires_at, ..self }
    }

    /// The same with a quota of its own.
    pub fn with_quota(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    fn kept(self) -> Kept {
        let Self { digest, id, name, tenant, scopes, expires_at, quota } = self;
        let info = KeyInfo {
            id: id.unwrap_or_else(KeyId::mint),
            tenant,
            name,
            prefix: None,
            scopes,
            created_at: None,
            expires_at,
            revoked_at: None,
            last_used_at: None,
            quota,
            place: u64::MAX,
        };
        Kept { digest, info }
    }
}

/// The keys of a server. Without any, everybody on this machine may do everything, as tenant `local`.
#[derive(Debug)]
pub struct Keys {
    ring: Ring,
    book: Option<Book>,
    /// How far the store's lists were read. Held while keys change, so that changes are seen in their order.
    seen: Mutex<Marks>,
}

impl Accounts for Keys {
    fn account(&self, tenant: &TenantId, key: Option<&KeyId>) -> Arc<Account> {
        self.ring.account(tenant, key)
    }
}

impl Keys {
    /// These keys, of the configuration, and those in the store.
    pub async fn load(store: Arc<dyn Store>, configured: Vec<Key>, quotas: Quotas) -> Result<Self, StoreError> {
        let keys = Self { book: Some(Book::new(store)), ..Self::fixed(configured, quotas) };
        keys.refresh(true).await?;
        Ok(keys)
    }

    /// None, and none can be made: everybody on this machine may do everything.
    pub fn open() -> Self {
        Self::fixed(Vec::new(), Quotas::default())
    }

    /// These, and no others can be made.
    pub fn of(keys: Vec<Key>) -> Self {
        let keys = Self::fixed(keys, Quotas::default());
        keys.ring.close();
        keys
    }

    fn fixed(configured: Vec<Key>, quotas: Quotas) -> Self {
        let ring = Ring::new(quotas);
        if !configured.is_empty() {
            ring.close();
        }
        ring.add(configured.into_iter().map(Key::kept));
        Self { ring, book: None, seen: Mutex::default() }
    }

    /// Takes these as the keys of the configuration, with these quotas. Keys of the store stay.
    pub async fn reconfigure(&self, configured: Vec<Key>, quotas: Quotas) {
        // Nothing is read from the store meanwhile.
        let _seen = self.seen.lock().await;
        self.ring.reconfigure(configured.into_iter().map(Key::kept), quotas);
    }

    /// Whether callers need no key.
    pub fn is_open(&self) -> bool {
        self.ring.is_open()
    }

    /// How many keys open at the moment.
    pub fn count(&self) -> usize {
        let now = Timestamp::now();
        self.ring.all(|held| held.info.status(now) == KeyStatus::Live).len()
    }

    /// Finds out who calls. Once for every request: it counts.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Caller, AuthError> {
        self.ring.caller(bearer(headers), || names_this_machine(headers))
    }

    /// Finds out who calls, in a dialect that has a place of its own for the key: a bearer's key comes first.
    pub fn caller_by_header(&self, headers: &HeaderMap, place: &HeaderName) -> Result<Caller, AuthError> {
        let secret = bearer(headers).or_else(|| in_header(headers, place));
        self.ring.caller(secret, || names_this_machine(headers))
    }

    /// Whether whoever calls would be let in, for doors that are open to all and tell some more than others. Counts
    /// nothing.
    pub fn knows(&self, headers: &HeaderMap) -> bool {
        self.ring.knows(bearer(headers), || names_this_machine(headers))
    }

    /// Refuses a request for a foreign host where callers need no key.
    pub fn check_host(&self, headers: &HeaderMap) -> Result<(), AuthError> {
        if self.is_open() && !names_this_machine(headers) { Err(AuthError::Host) } else { Ok(()) }
    }

    /// Whether a key opens now, for those who were let in for it.
    pub(crate) fn is_live(&self, key: &KeyId) -> bool {
        self.ring.get(key).is_some_and(|held| held.info.status(Timestamp::now()) == KeyStatus::Live)
    }

    /// Makes a key. Its secret is told here and never again.
    pub async fn create(
        &self,
        tenant: &TenantId,
        key: NewKey,
        request: Option<SubmissionKey>,
    ) -> Result<(KeyInfo, SecretString), BookError> {
        let book = self.book()?;
        let _seen = self.seen.lock().await;
        let (kept, secret) = book.create(tenant, key, request).await?;
        let info = kept.info.clone();
        self.ring.add([kept]);
        self.ring.close();
        Ok((info, secret))
    }

    /// Takes a key back, from now on. Again is fine.
    pub async fn revoke(&self, tenant: &TenantId, id: &str) -> Result<KeyInfo, BookError> {
        self.refuse_configured(tenant, id)?;
        let book = self.book()?;
        let _seen = self.seen.lock().await;
        let kept = book.revoke(tenant, id).await?;
        let info = kept.info.clone();
        self.ring.add([kept]);
        Ok(info)
    }

    /// Takes a key back, whosever it is.
    pub async fn revoke_anywhere(&self, id: &str) -> Result<KeyInfo, BookError> {
        self.refresh(true).await?;
        let found = id.parse().ok().and_then(|id| self.ring.get(&id));
        let found = found.ok_or_else(|| BookError::NotFound { id: id.chars().take(128).collect() })?;
        self.revoke(&found.info.tenant, id).await
    }

    /// One key of a tenant.
    pub async fn find(&self, tenant: &TenantId, id: &str) -> Result<Option<KeyInfo>, BookError> {
        if let Some(held) = self.configured_by(tenant, id) {
            return Ok(Some(self.with_use(held.info.clone())));
        }
        let kept = self.book()?.find(tenant, id).await?;
        Ok(kept.map(|kept| self.with_use(kept.info)))
    }

    /// The keys of the configuration that are the tenant's, by name.
    pub fn configured(&self, tenant: &TenantId) -> Vec<KeyInfo> {
        let held = self.ring.all(|held| held.info.is_configured() && held.info.tenant == *tenant);
        let mut keys: Vec<_> = held.into_iter().map(|held| self.with_use(held.info.clone())).collect();
        keys.sort_by(|one, other| one.name.cmp(&other.name));
        keys
    }

    /// The tenant's keys that the store keeps, after a place: first those that are not taken back, then the others,
    /// newest first; `limit` at most.
    pub async fn list(&self, tenant: &TenantId, after: Option<u64>, limit: usize) -> Result<Vec<KeyInfo>, BookError> {
        let keys = self.book()?.list(tenant, after, limit).await?;
        Ok(keys.into_iter().map(|key| self.with_use(key)).collect())
    }

    /// The tenants that have keys in the store.
    pub async fn tenants(&self) -> Result<Vec<TenantId>, BookError> {
        self.refresh(true).await?;
        let held = self.ring.all(|held| !held.info.is_configured());
        let mut tenants: Vec<_> = held.into_iter().map(|held| held.info.tenant.clone()).collect();
        tenants.sort_unstable();
        tenants.dedup();
        Ok(tenants)
    }

    fn book(&self) -> Result<&Book, BookError> {
        self.book.as_ref().ok_or(BookError::NoBook)
    }

    fn configured_by(&self, tenant: &TenantId, id: &str) -> Option<Arc<Held>> {
        let held = self.ring.get(&id.parse().ok()?)?;
        (held.info.is_configured() && held.info.tenant == *tenant).then_some(held)
    }

    fn refuse_configured(&self, tenant: &TenantId, id: &str) -> Result<(), BookError> {
        match self.configured_by(tenant, id) {
            Some(_) => Err(BookError::Configured { id: id.to_owned() }),
            None => Ok(()),
        }
    }

    /// What this server has seen counts more than what the store was told of it.
    fn with_use(&self, info: KeyInfo) -> KeyInfo {
        let seen = self.ring.get(&info.id).and_then(|held| held.last_used());
        KeyInfo { last_used_at: info.last_used_at.max(seen), ..info }
    }
}
