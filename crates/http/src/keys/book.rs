//! The keys that a store keeps.
//!
//! A key is written twice in its life: when it is made, and when it is taken back. Then its record is put anew, at the
//! end of those that were taken back: so whoever has seen a part of either list learns of all changes by looking at what
//! came after. When it was last used stands in a record of its own, so that noting it never touches the key.

use std::{collections::BTreeMap, sync::Arc};

use everturn_core::{Json, KeyId, Quota, TenantId, Timestamp};
use everturn_engine::SubmissionKey;
use everturn_store::{
    Command, CommandKey, Expect, Put, Record, RecordFilter, RecordKind, RecordRow, Refusal, Store, StoreError, Write,
};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::{
    BookError, KeyInfo, NewKey,
    secret::{self, Digest, Minted},
};
use crate::Scope;

/// How many keys a tenant may have that are not taken back.
pub const MAX_LIVE_KEYS: usize = 1000;
/// How many that were taken back are kept of a tenant; the oldest are forgotten.
const MAX_REVOKED: usize = 1000;
/// How many records are read at once.
const PAGE: usize = 500;
/// How often a change is tried again that somebody else came before.
const MAX_CONFLICTS: usize = 8;

const LIVE: &str = "live";
const REVOKED: &str = "revoked";
/// When a key was last used.
const USE: &str = "use";

/// What is kept of a key. Not its secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Body {
    name: String,
    digest: Digest,
    prefix: String,
    scopes: Vec<Scope>,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Quota::is_unbounded")]
    quota: Quota,
}

#[derive(Serialize, Deserialize)]
struct UseBody {
    at: Timestamp,
}

/// A key that the store keeps, with what it is recognised by.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) digest: Digest,
    pub(super) info: KeyInfo,
}

impl Kept {
    fn of(row: &RecordRow) -> Option<Self> {
        let body: Body = serde_json::from_str(row.record.body.as_str()).ok()?;
        let revoked = u64::from(row.record.state == REVOKED);
        let info = KeyInfo {
            id: row.record.id.parse().ok()?,
            tenant: row.tenant.clone(),
            name: body.name,
            prefix: Some(body.prefix),
            scopes: body.scopes,
            created_at: Some(body.created_at),
            expires_at: body.expires_at,
            // Whatever the body says: what lies among those that were taken back was.
            revoked_at: body.revoked_at.or((revoked == 1).then_some(row.updated_at)),
            last_used_at: None,
            quota: body.quota,
            place: row.position.saturating_mul(2) + revoked,
        };
        Some(Self { digest: body.digest, info })
    }
}

/// How far the lists of all tenants were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    live: Option<u64>,
    revoked: Option<u64>,
}

impl Marks {
    /// Whether there is any key at all.
    pub(super) fn any(&self) -> bool {
        self.live.is_some() || self.revoked.is_some()
    }
}

/// The keys in a store.
#[derive(Clone)]
pub(super) struct Book {
    store: Arc<dyn Store>,
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Book")
    }
}

impl Book {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Makes a key.
    pub(super) async fn create(
        &self,
        tenant: &TenantId,
        key: NewKey,
        request: Option<SubmissionKey>,
    ) -> Result<(Kept, SecretString), BookError> {
        let now = Timestamp::now();
        if let Some(request) = &request
            && let Some(CommandKey { fingerprint, outcome, .. }) = self.store.kept(tenant, &request.key, now).await?
        {
            return Err(repeated(request, &fingerprint, outcome));
        }
        let key = key.checked(now)?;
        if self.tenants(tenant, LIVE, None, MAX_LIVE_KEYS).await?.len() >= MAX_LIVE_KEYS {
            return Err(BookError::TooMany { limit: MAX_LIVE_KEYS });
        }
        let Minted { secret, digest, prefix } = secret::mint()?;
        let NewKey { name, scopes, expires_at, quota } = key;
        let body = Body { name, digest, prefix, scopes, created_at: now, expires_at, revoked_at: None, quota };
        let id = KeyId::mint().to_string();
        let command_key = request.clone().map(|SubmissionKey { key, fingerprint }| {
            // Only the key's name is kept for whoever repeats the request.
            CommandKey { key, fingerprint, outcome: id.clone() }
        });
        let expects = vec![Expect { kind: RecordKind::Key, id: id.clone(), revision: None }];
        let writes = vec![Write::Record(record(id.clone(), LIVE, &body)?)];
        match (self.put(tenant, expects, writes, command_key, now).await?, request) {
            (Ok(()), _) => {}
            (Err(Refusal::Repeated { fingerprint, outcome }), Some(request)) => {
                return Err(repeated(&request, &fingerprint, outcome));
            }
            (Err(refusal), _) => return Err(BookError::Rejected(refusal)),
        }
        let made = self.row(tenant, &id).await?.and_then(|row| Kept::of(&row));
        Ok((made.ok_or(BookError::NotFound { id })?, secret))
    }

    /// Takes a key back. One that was taken back before stays as it is.
    pub(super) async fn revoke(&self, tenant: &TenantId, id: &str) -> Result<Kept, BookError> {
        for _ in 0..MAX_CONFLICTS {
            let now = Timestamp::now();
            let found = self.row(tenant, id).await?.and_then(|row| Some((Kept::of(&row)?, row)));
            let (kept, row) = found.ok_or_else(|| BookError::NotFound { id: shown(id) })?;
            if row.record.state == REVOKED {
                return Ok(kept);
            }
            let unreadable = |error: serde_json::Error| StoreError::Corrupt(error.to_string());
            let body: Body = serde_json::from_str(row.record.body.as_str()).map_err(unreadable)?;
            let revoked = Body { revoked_at: Some(now), ..body };
            let expects = vec![Expect { kind: RecordKind::Key, id: id.to_owned(), revision: Some(row.revision) }];
            // Removed first, so that it gets a new place.
            let mut writes = vec![remove(id.to_owned()), Write::Record(record(id.to_owned(), REVOKED, &revoked)?)];
            let forgotten = self.tenants(tenant, REVOKED, None, MAX_REVOKED).await?;
            if let Some(oldest) = forgotten.get(MAX_REVOKED - 1) {
                writes.extend([remove(use_id(&oldest.record.id)), remove(oldest.record.id.clone())]);
            }
            match self.put(tenant, expects, writes, None, now).await? {
                Ok(()) | Err(Refusal::Changed) => {}
                Err(refusal) => return Err(BookError::Rejected(refusal)),
            }
        }
        Err(BookError::Conflict { id: shown(id) })
    }

    /// One key of a tenant.
    pub(super) async fn find(&self, tenant: &TenantId, id: &str) -> Result<Option<Kept>, StoreError> {
        let kept = self.row(tenant, id).await?.and_then(|row| Kept::of(&row));
        match kept {
            Some(kept) => Ok(Some(Kept { info: self.with_use(kept.info).await?, ..kept })),
            None => Ok(None),
        }
    }

    /// The tenant's keys after a place: first those that are not taken back, then the others, newest first; `limit` at
    /// most.
    pub(super) async fn list(
        &self,
        tenant: &TenantId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<KeyInfo>, StoreError> {
        let (live, revoked) = match after.map(|place| (place / 2, place % 2)) {
            None => (Some(None), None),
            Some((position, 0)) => (Some(Some(position)), None),
            Some((position, _)) => (None, Some(position)),
        };
        let mut rows = match live {
            Some(below) => self.tenants(tenant, LIVE, below, limit).await?,
            None => Vec::new(),
        };
        let left = limit - rows.len();
        if left > 0 {
            rows.extend(self.tenants(tenant, REVOKED, revoked, left).await?);
        }
        let mut keys = Vec::with_capacity(rows.len());
        for kept in rows.iter().filter_map(Kept::of) {
            keys.push(self.with_use(kept.info).await?);
        }
        Ok(keys)
    }

    async fn with_use(&self, info: KeyInfo) -> Result<KeyInfo, StoreError> {
        let row = self.row(&info.tenant, &use_id(info.id.as_str())).await?;
        let used = row.and_then(|row| serde_json::from_str::<UseBody>(row.record.body.as_str()).ok());
        Ok(KeyInfo { last_used_at: used.map(|used| used.at), ..info })
    }

    /// The keys of all tenants that came or were taken back since, in their order, and how far that goes. What was taken
    /// back is looked at last, so that nothing is missed that moves there meanwhile.
    pub(super) async fn changes(&self, since: Marks) -> Result<(Vec<Kept>, Marks), StoreError> {
        let mut marks = since;
        let mut changed = Vec::new();
        for (state, mark) in [(LIVE, &mut marks.live), (REVOKED, &mut marks.revoked)] {
            loop {
                let rows = self.store.records_of_all(RecordKind::Key, state, *mark, PAGE).await?;
                for row in &rows {
                    *mark = Some(row.position);
                    match Kept::of(row) {
                        Some(kept) => changed.push(kept),
                        None => tracing::error!(key = %row.record.id, "a key in the store cannot be read"),
                    }
                }
                if rows.len() < PAGE {
                    break;
                }
            }
        }
        Ok((changed, marks))
    }

    /// Notes when keys were last used.
    pub(super) async fn note_uses(&self, uses: &[(TenantId, KeyId, Timestamp)]) -> Result<(), StoreError> {
        let now = Timestamp::now();
        let mut by_tenant: BTreeMap<&TenantId, Vec<Write>> = BTreeMap::new();
        for (tenant, id, at) in uses {
            let record = record(use_id(id.as_str()), USE, &UseBody { at: *at })?;
            by_tenant.entry(tenant).or_default().push(Write::Record(record));
        }
        for (tenant, writes) in by_tenant {
            for writes in writes.chunks(PAGE) {
                // Nothing can be refused: nothing is expected.
                let _ = self.put(tenant, Vec::new(), writes.to_vec(), None, now).await?;
            }
        }
        Ok(())
    }

    async fn row(&self, tenant: &TenantId, id: &str) -> Result<Option<RecordRow>, StoreError> {
        // No record has a longer name, and some stores would not take one.
        if id.len() > 256 {
            return Ok(None);
        }
        self.store.record(tenant, RecordKind::Key, id).await
    }

    async fn tenants(
        &self,
        tenant: &TenantId,
        state: &str,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RecordRow>, StoreError> {
        let filter = RecordFilter { session: None, state: Some(state.to_owned()) };
        self.store.records(tenant, RecordKind::Key, &filter, below, limit).await
    }

    async fn put(
        &self,
        tenant: &TenantId,
        expects: Vec<Expect>,
        writes: Vec<Write>,
        key: Option<CommandKey>,
        at: Timestamp,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let put = Put { tenant: tenant.clone(), expects, writes, key, at };
        let receipts = self.store.commit(Arc::new(vec![Command::Put(Box::new(put))])).await?;
        let receipt = receipts.into_iter().next();
        let receipt = receipt.ok_or_else(|| StoreError::Corrupt("a command has no receipt".to_owned()))?;
        Ok(receipt.map(drop))
    }
}

fn repeated(request: &SubmissionKey, fingerprint: &str, outcome: String) -> BookError {
    if request.fingerprint == fingerprint {
        BookError::MadeBefore { id: outcome }
    } else {
        BookError::KeyReused { key: request.key.clone() }
    }
}

fn record(id: String, state: &str, body: &impl Serialize) -> Result<Record, StoreError> {
    let body = Json::of(body).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let state = state.to_owned();
    Ok(Record { kind: RecordKind::Key, id, session: None, turn: None, state, body, outcome: None })
}

fn remove(id: String) -> Write {
    Write::Remove { kind: RecordKind::Key, id }
}

/// The name of the record that tells of a key's last use. No key is called so: ours end in a number.
fn use_id(id: &str) -> String {
    format!("{id}.use")
}

fn shown(id: &str) -> String {
    id.chars().take(128).collect()
}
