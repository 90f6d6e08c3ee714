//! What the legs of a turn have added to history.
//!
//! Most turns have one leg: its messages are in the turn's own row, which is written when it ends in any case. Of a turn that
//! has waited, each leg has a row in `legs`, so that a rest writes what is new and not what was there before.
//!
//! The key is the turn's row (33 bits) and the place of the first message among the turn's messages (30 bits), so that the
//! rows lie in the order in which they are read. `messages` is a JSON array without its brackets, and never empty.

use everturn_core::Message;
use rusqlite::{Connection, OptionalExtension, params};

use super::{fault::corrupt, rows::to_json};
use crate::{Rest, StoreError, TurnStatus};

const PLACE_BITS: u32 = 30;

const MAX_PLACE: usize = (1 << PLACE_BITS) - 1;

/// The messages of the turn `t`, as a JSON array. In one statement with the rest of the turn, so that both are of the same
/// moment.
pub(super) const MESSAGES: &str = "CASE t.has_legs WHEN 0 THEN t.messages ELSE
    (SELECT '[' || ifnull(group_concat(l.messages), '') || ']' FROM
        (SELECT messages FROM legs WHERE id BETWEEN t.id << 30 AND (t.id << 30) + 1073741823 ORDER BY id) l) END";

/// How many bytes they have as that array.
pub(super) const BYTES: &str = "CASE t.has_legs WHEN 0 THEN octet_length(t.messages) ELSE
    (SELECT 2 + ifnull(sum(octet_length(l.messages)) + count(*) - 1, 0) FROM legs l
        WHERE l.id BETWEEN t.id << 30 AND (t.id << 30) + 1073741823) END";

fn key(turn: i64, place: usize) -> i64 {
    (turn << PLACE_BITS) | i64::try_from(place.min(MAX_PLACE)).unwrap_or(0)
}

fn place_of(key: i64) -> usize {
    usize::try_from(key).unwrap_or(0) & MAX_PLACE
}

/// How a turn's messages are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// How many there are.
    pub(super) count: usize,
    /// Whether they are in `legs`.
    pub(super) has_legs: bool,
}

impl Kept {
    /// Whether what a rest keeps is there.
    pub(super) fn allows(self, rest: &Rest) -> bool {
        rest.keeps <= self.count
    }
}

/// Writes what a rest adds to a turn's messages. Gives how they are kept from now on, and what the turn's row has of them.
pub(super) fn add(connection: &Connection, turn: i64, kept: Kept, rest: &Rest) -> Result<(Kept, String), StoreError> {
    let count = rest.keeps + rest.messages.len();
    let waits = matches!(rest.status, TurnStatus::Waiting(_));
    if !kept.has_legs && rest.keeps == 0 && !waits {
        return Ok((Kept { count, has_legs: false }, to_json(&rest.messages)?));
    }
    if !kept.has_legs && rest.keeps > 0 {
        connection
            .prepare_cached(
                "INSERT INTO legs (id, messages)
                 SELECT id << 30, substr(messages, 2, length(messages) - 2) FROM turns WHERE id = ?1",
            )?
            .execute([turn])?;
    }
    if kept.has_legs || rest.keeps > 0 {
        truncate(connection, turn, kept.count, rest.keeps)?;
    }
    if !rest.messages.is_empty() {
        insert(connection, turn, rest.keeps, &rest.messages)?;
    }
    Ok((Kept { count, has_legs: true }, "[]".to_owned()))
}

fn insert(connection: &Connection, turn: i64, place: usize, messages: &[Message]) -> Result<(), StoreError> {
    let json = to_json(messages)?;
    connection
        .prepare_cached("INSERT INTO legs (id, messages) VALUES (?1, ?2)")?
        .execute(params![key(turn, place), &json[1..json.len() - 1]])?;
    Ok(())
}

/// Takes all of a turn's messages away but the first ones. Most of the time there are no others, and nothing is read but the
/// index.
fn truncate(connection: &Connection, turn: i64, count: usize, keeps: usize) -> Result<(), StoreError> {
    if keeps >= count {
        return Ok(());
    }
    let last = key(turn, MAX_PLACE);
    let next: Option<i64> = connection
        .prepare_cached("SELECT min(id) FROM legs WHERE id BETWEEN ?1 AND ?2")?
        .query_row([key(turn, keeps), last], |row| row.get(0))?;
    connection.prepare_cached("DELETE FROM legs WHERE id BETWEEN ?1 AND ?2")?.execute([key(turn, keeps), last])?;
    let end = next.map_or(count, place_of);
    if keeps == 0 || end == keeps {
        return Ok(());
    }
    // The last row that is left has some of what is taken away.
    let row: Option<(i64, String)> = connection
        .prepare_cached("SELECT id, messages FROM legs WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1")?
        .query_row([key(turn, 0), last], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (id, json) = row.ok_or_else(|| corrupt("a turn that lacks its first messages"))?;
    let mut messages: Vec<Message> = serde_json::from_str(&format!("[{json}]")).map_err(corrupt)?;
    messages.truncate(keeps - place_of(id));
    connection.prepare_cached("DELETE FROM legs WHERE id = ?1")?.execute([id])?;
    insert(connection, turn, place_of(id), &messages)
}

/// Deletes the rows of a turn.
pub(super) fn delete(connection: &Connection, turn: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM legs WHERE id BETWEEN ?1 AND ?2")?
        .execute([key(turn, 0), key(turn, MAX_PLACE)])?;
    Ok(())
}
