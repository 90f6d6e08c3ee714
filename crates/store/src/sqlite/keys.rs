//! The keys of commands: found when one is repeated, kept with the command, and forgotten after a while.

use everturn_core::{TenantId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{CommandKey, StoreError};

/// How many old keys go for each new one: more than one, so that they become fewer, and few enough that no commit has
/// much to do.
const FORGOTTEN_FOR_EACH: i64 = 2;

/// The tenant's command of that key, if it counts at the time `at`.
pub(super) fn find(
    connection: &Connection,
    tenant: &TenantId,
    key: &str,
    at: Timestamp,
) -> Result<Option<CommandKey>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT key, fingerprint, outcome FROM keys
         WHERE tenant = (SELECT id FROM tenants WHERE name = ?1) AND key = ?2 AND at > ?3",
    )?;
    let found = select.query_row(params![tenant.as_str(), key, CommandKey::forgotten(at).millis()], |row| {
        Ok(CommandKey { key: row.get(0)?, fingerprint: row.get(1)?, outcome: row.get(2)? })
    });
    Ok(found.optional()?)
}

/// Keeps the key of a command that is kept, and forgets a few that are too old by then. The tenant is known.
pub(super) fn keep(
    connection: &Connection,
    tenant: &TenantId,
    key: &CommandKey,
    at: Timestamp,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO keys (tenant, key, at, fingerprint, outcome)
             VALUES ((SELECT id FROM tenants WHERE name = ?1), ?2, ?3, ?4, ?5)",
        )?
        .execute(params![tenant.as_str(), key.key, at.millis(), key.fingerprint, key.outcome])?;
    connection
        .prepare_cached("DELETE FROM keys WHERE id IN (SELECT id FROM keys WHERE at <= ?1 ORDER BY at LIMIT ?2)")?
        .execute(params![CommandKey::forgotten(at).millis(), FORGOTTEN_FOR_EACH])?;
    Ok(())
}
