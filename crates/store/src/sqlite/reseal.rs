//! Seals all secrets of a database with another key, while no server has it open.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use everturn_core::{Json, OptionValue, SessionConfig, SessionId, TenantId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::{
    Durability, OpenError, SqliteStore,
    fault::corrupt,
    open::{self, Opened},
};
use crate::{CANARY, RecordKind, SecretBox, SecretError, SecretPlace, StoreError};

/// How many sessions are read at once.
const PAGE: usize = 256;

/// Why secrets could not be sealed anew. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ResealError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A secret cannot be opened or sealed.
    #[error("an option of session {session}: {error}")]
    Secret {
        /// The session.
        session: SessionId,
        /// What is wrong.
        error: SecretError,
    },
    /// The canary cannot be sealed.
    #[error(transparent)]
    Canary(SecretError),
}

impl From<rusqlite::Error> for ResealError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// How many secrets were sealed anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Secrets that have the new key now.
    pub sealed: u64,
    /// Secrets that were sealed with a key that was lost before. They stay as they are.
    pub unreadable: u64,
}

/// A database that is open for nothing but its secrets.
#[derive(Debug)]
pub struct Reseal {
    path: PathBuf,
    connection: Connection,
    /// Held as long as the database is in use.
    _lock: File,
}

impl SqliteStore {
    /// Opens the database at `path` to seal its secrets anew. Nobody else may have it open. Blocks.
    pub fn open_to_reseal(path: impl AsRef<Path>) -> Result<Reseal, OpenError> {
        let Opened { path, connection, lock, .. } = open::open(path.as_ref(), Durability::Fsync)?;
        Ok(Reseal { path, connection, _lock: lock })
    }
}

impl Reseal {
    /// The canary, unless no server has written one yet.
    pub fn canary(&self) -> Result<Option<String>, StoreError> {
        let select = "SELECT body FROM records WHERE kind = ?1 AND name = ?2
                      AND tenant = (SELECT id FROM tenants WHERE name = ?3)";
        let (kind, tenant) = (RecordKind::Canary.number(), TenantId::local());
        let body: Option<String> =
            self.connection.query_row(select, params![kind, CANARY, tenant.as_str()], |row| row.get(0)).optional()?;
        body.map(|body| serde_json::from_str(&body).map_err(corrupt)).transpose()
    }

    /// Seals all secrets and the canary with the new key, in one transaction: after a crash all of them have the old key,
    /// or all have the new one. The old key opens the canary, if there is one.
    pub fn reseal(&mut self, old: &SecretBox, new: &SecretBox) -> Result<Resealed, ResealError> {
        let has_canary = self.canary()?.is_some();
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut done = Resealed::default();
        let mut last = 0;
        loop {
            let page = page(&transaction, last)?;
            let Some((id, ..)) = page.last() else { break };
            last = *id;
            for (id, tenant, session, mut config) in page {
                for (option, value) in &mut config.options {
                    let OptionValue::Sealed(sealed) = value else { continue };
                    let place = SecretPlace { tenant: &tenant, session: &session, option };
                    match old.open(place, sealed).and_then(|secret| new.seal(place, &secret)) {
                        Ok(again) => {
                            *sealed = again;
                            done.sealed += 1;
                        }
                        // The canary has shown that the old key is the right one.
                        Err(SecretError::WrongKey) if has_canary => done.unreadable += 1,
                        Err(error) => return Err(ResealError::Secret { session, error }),
                    }
                }
                let text = serde_json::to_string(&config).map_err(corrupt)?;
                transaction.execute("UPDATE configs SET config = ?2 WHERE session = ?1", params![id, text])?;
            }
        }
        keep_canary(&transaction, &new.seal_canary().map_err(ResealError::Canary)?)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Replaces the canary by one of this key, and leaves the secrets as they are: they may have been sealed with a key that
    /// is lost.
    pub fn accept(&mut self, key: &SecretBox) -> Result<(), ResealError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        keep_canary(&transaction, &key.seal_canary().map_err(ResealError::Canary)?)?;
        Ok(transaction.commit()?)
    }

    /// Gives the database back, in order.
    pub fn close(self) -> Result<(), OpenError> {
        let Self { path, connection, _lock } = self;
        let failed = |error: rusqlite::Error| OpenError::sqlite(&path, &error);
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)?;
        connection.close().map_err(|(_, error)| failed(error))
    }
}

type Configured = (i64, TenantId, SessionId, SessionConfig);

/// Sessions with secrets, after one of them.
fn page(transaction: &Transaction<'_>, after: i64) -> Result<Vec<Configured>, StoreError> {
    let mut select = transaction.prepare_cached(
        "SELECT c.session, t.name, s.name, c.config FROM configs c
         JOIN sessions s ON s.id = c.session JOIN tenants t ON t.id = s.tenant
         WHERE c.session > ?1 AND instr(c.config, '\"sealed\"') > 0 ORDER BY c.session LIMIT ?2",
    )?;
    let mut rows = select.query(params![after, PAGE as i64])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        let tenant = TenantId::try_from(row.get::<_, String>(1)?).map_err(corrupt)?;
        let session = SessionId::try_from(row.get::<_, String>(2)?).map_err(corrupt)?;
        page.push((row.get(0)?, tenant, session, serde_json::from_str(&row.get::<_, String>(3)?).map_err(corrupt)?));
    }
    Ok(page)
}

/// Writes the canary as [`crate::Put`] would.
fn keep_canary(transaction: &Transaction<'_>, canary: &str) -> Result<(), StoreError> {
    let tenant = TenantId::local();
    transaction.execute("INSERT INTO tenants (name) VALUES (?1) ON CONFLICT DO NOTHING", [tenant.as_str()])?;
    let body = Json::of(&canary).map_err(corrupt)?;
    transaction.execute(
        "INSERT INTO records (tenant, kind, name, revision, created_at, updated_at, state, body)
         SELECT id, ?2, ?3, 1, ?4, ?4, '', ?5 FROM tenants WHERE name = ?1
         ON CONFLICT (tenant, kind, name)
         DO UPDATE SET revision = revision + 1, updated_at = excluded.updated_at, body = excluded.body",
        params![tenant.as_str(), RecordKind::Canary.number(), CANARY, Timestamp::now().millis(), body.as_str()],
    )?;
    Ok(())
}

#[cfg(all(test, feature = "test-support"))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Command, Store,
        contract::fixture::{Talk, accept},
        sqlite::failure_tests::Place,
    };

    fn key(digit: char) -> SecretBox {
        SecretBox::from_text(&digit.to_string().repeat(64)).expect("a key")
    }

    #[tokio::test]
    async fn all_secrets_get_the_new_key_or_none() {
        let (place, old, new) = (Place::new(), key('1'), key('2'));
        let talks: Vec<Talk> = (0..PAGE + 2).map(|_| Talk::new("acme")).collect();
        let store: Arc<dyn Store> = place.open();
        for talk in &talks {
            let mut session = talk.new_session();
            let secret = SecretPlace { tenant: &talk.tenant, session: &talk.session, option: "token" };
            let sealed = OptionValue::Sealed(old.seal(secret, "hunter2").expect("sealed"));
            session.config.options.insert("token".to_owned(), sealed);
            accept(&store, Command::CreateSession(Box::new(session))).await;
        }
        drop(store);
        let sealed = |done: Resealed| (done.sealed, done.unreadable);
        let mut database = SqliteStore::open_to_reseal(&place.path).expect("it opens");
        assert!(matches!(SqliteStore::open_to_reseal(&place.path), Err(OpenError::InUse { .. })));
        assert!(matches!(database.reseal(&new, &old), Err(ResealError::Secret { .. })), "a wrong key changes nothing");
        assert_eq!(database.canary().expect("a look"), None);
        assert_eq!(sealed(database.reseal(&old, &new).expect("sealed")), (PAGE as u64 + 2, 0));
        let canary = database.canary().expect("a look").expect("a canary");
        assert!(new.opens_canary(&canary) && !old.opens_canary(&canary));
        database.close().expect("it closes");

        let store = place.open();
        for talk in &talks {
            let config = store.session(&talk.tenant, &talk.session).await.expect("a read").expect("a session").config;
            let OptionValue::Sealed(sealed) = &config.options["token"] else { panic!("not sealed") };
            let secret = SecretPlace { tenant: &talk.tenant, session: &talk.session, option: "token" };
            assert_eq!(new.open(secret, sealed).expect("it opens").as_str(), "hunter2");
        }
        drop(store);
        // With a key that was accepted for one that is lost, what that one sealed stays as it is.
        let mut database = SqliteStore::open_to_reseal(&place.path).expect("it opens");
        database.accept(&old).expect("accepted");
        assert_eq!(sealed(database.reseal(&old, &new).expect("sealed")), (0, PAGE as u64 + 2));
    }
}
