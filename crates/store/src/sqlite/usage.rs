//! Sums of what was used.

use std::collections::BTreeMap;

use everturn_core::{Day, KeyId, TenantId, Usage};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    fault::corrupt,
    rows::int,
    tokens::{self, MOST, bounded},
};
use crate::{StoreError, UsageCount, UsageRow, UsageSlot};

fn text(key: Option<&KeyId>) -> &str {
    key.map_or("", KeyId::as_str)
}

/// What the commands of a batch add. Written at its end, once for each slot: most of them add to the same few.
#[derive(Debug, Default)]
pub(super) struct Spent(BTreeMap<(i64, UsageSlot), UsageCount>);

impl Spent {
    pub(super) fn add(&mut self, tenant: i64, used: &UsageRow) {
        let sum = self.0.entry((tenant, used.slot.clone())).or_default();
        let UsageCount { turns, calls, tokens } = used.count;
        sum.turns = sum.turns.saturating_add(turns);
        sum.calls = sum.calls.saturating_add(calls);
        sum.tokens += tokens;
    }

    pub(super) fn write(&self, connection: &Connection) -> Result<(), StoreError> {
        self.0.iter().try_for_each(|((tenant, slot), count)| add(connection, *tenant, slot, *count))
    }
}

/// Adds to a slot.
fn add(connection: &Connection, tenant: i64, slot: &UsageSlot, count: UsageCount) -> Result<(), StoreError> {
    let UsageSlot { day, agent, model, key } = slot;
    let [input, output, cached, cache_write, reasoning] = tokens::columns(count.tokens);
    connection
        .prepare_cached(
            "INSERT INTO usage (tenant, day, agent, model, key, turns, calls, tokens_in, tokens_out, tokens_cached,
                 tokens_cache_write, tokens_reasoning)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT DO UPDATE SET turns = min(turns + excluded.turns, ?13), calls = min(calls + excluded.calls, ?13),
                 tokens_in = min(tokens_in + excluded.tokens_in, ?13),
                 tokens_out = min(tokens_out + excluded.tokens_out, ?13),
                 tokens_cached = min(tokens_cached + excluded.tokens_cached, ?13),
                 tokens_cache_write = min(tokens_cache_write + excluded.tokens_cache_write, ?13),
                 tokens_reasoning = min(tokens_reasoning + excluded.tokens_reasoning, ?13)",
        )?
        .execute(params![
            tenant,
            day.0,
            agent,
            model,
            text(key.as_ref()),
            bounded(count.turns),
            bounded(count.calls),
            input,
            output,
            cached,
            cache_write,
            reasoning,
            MOST
        ])?;
    Ok(())
}

/// See [`crate::Store::stored_bytes`].
pub(super) fn stored_bytes(connection: &Connection, tenant: &TenantId) -> Result<u64, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT bytes FROM storage WHERE tenant = (SELECT id FROM tenants WHERE name = ?1)")?;
    Ok(select.query_row([tenant.as_str()], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// A page of slots, from one on or after it.
pub(super) fn page_sql(is_after: bool) -> String {
    let compare = if is_after { ">" } else { ">=" };
    format!(
        "SELECT day, agent, model, key, turns, calls, tokens_in, tokens_out, tokens_cached, tokens_cache_write,
             tokens_reasoning
         FROM usage
         WHERE tenant = (SELECT id FROM tenants WHERE name = ?1) AND day <= ?2
             AND (day, agent, model, key) {compare} (?3, ?4, ?5, ?6)
         ORDER BY day, agent, model, key LIMIT ?7"
    )
}

/// What a tenant used on a day, slot by slot. All that a key used lies together in an index.
pub(super) const OF_TENANT: &str = "SELECT tokens_in, tokens_out, tokens_cached, tokens_cache_write, tokens_reasoning
     FROM usage
     WHERE tenant = (SELECT id FROM tenants WHERE name = ?1) AND day = ?2";
pub(super) const OF_KEY: &str = "SELECT tokens_in, tokens_out, tokens_cached, tokens_cache_write, tokens_reasoning
     FROM usage INDEXED BY usage_by_key
     WHERE tenant = (SELECT id FROM tenants WHERE name = ?1) AND day = ?2 AND key = ?3";

/// See [`crate::Store::usage`].
pub(super) fn page(
    connection: &Connection,
    tenant: &TenantId,
    days: (Day, Day),
    after: Option<&UsageSlot>,
    limit: usize,
) -> Result<Vec<UsageRow>, StoreError> {
    let (from, to) = days;
    let after = after.filter(|slot| slot.day >= from);
    let (day, agent, model, key) = match after {
        Some(slot) => (slot.day, slot.agent.as_str(), slot.model.as_str(), text(slot.key.as_ref())),
        None => (from, "", "", ""),
    };
    let mut select = connection.prepare_cached(&page_sql(after.is_some()))?;
    let mut found = select.query(params![tenant.as_str(), to.0, day.0, agent, model, key, int(limit as u64)])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let key = row.get::<_, String>(3)?;
        let key = if key.is_empty() { None } else { Some(KeyId::try_from(key).map_err(corrupt)?) };
        let slot = UsageSlot { day: Day(row.get(0)?), agent: row.get(1)?, model: row.get(2)?, key };
        let tokens = tokens::read(row, 6)?;
        rows.push(UsageRow { slot, count: UsageCount { turns: row.get(4)?, calls: row.get(5)?, tokens } });
    }
    Ok(rows)
}

/// See [`crate::Store::used_on`]. Not summed up by SQLite, whose sums fail where they overflow, or are not exact.
pub(super) fn on(
    connection: &Connection,
    tenant: &TenantId,
    day: Day,
    key: Option<&KeyId>,
) -> Result<Usage, StoreError> {
    let mut select = connection.prepare_cached(if key.is_some() { OF_KEY } else { OF_TENANT })?;
    let mut found = match key {
        Some(key) => select.query(params![tenant.as_str(), day.0, key.as_str()])?,
        None => select.query(params![tenant.as_str(), day.0])?,
    };
    let mut sum = Usage::default();
    while let Some(row) = found.next()? {
        sum += tokens::read(row, 0)?;
    }
    Ok(sum.at_most(MOST.unsigned_abs()))
}
