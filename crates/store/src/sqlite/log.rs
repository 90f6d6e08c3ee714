//! Where the events of a turn are: in `log` while they are fresh, in `chunks` afterwards.
//!
//! The key of a chunk is the turn's row (33 bits) and the seq of its first event (30 bits), so chunks lie in the order
//! in which they are read. A chunk is
//!
//! ```text
//! for each segment, in order:
//! count    u32, little endian   how many events
//! length   u32, little endian   of the segment, in bytes
//! segment  bytes                as it was appended
//! ```

use bytes::Bytes;
use everturn_core::Segment;
use rusqlite::{Connection, OptionalExtension, params};

use super::{fault::corrupt, live::HotRow};
use crate::StoreError;

const SEQ_BITS: u32 = 30;

/// The last seq that a log can have: a turn that makes a thousand events a second gets there after twelve days.
pub(super) const MAX_SEQ: u64 = (1 << SEQ_BITS) - 1;

/// A chunk is closed once it is this large. Small enough to be read in part, large enough to be few.
const CHUNK_BYTES: usize = 64 * 1024;

const FRAME_HEAD: usize = 8;

fn key(turn: i64, seq: u64) -> i64 {
    (turn << SEQ_BITS) | i64::try_from(seq.min(MAX_SEQ)).unwrap_or(0)
}

fn seq_of(key: i64) -> u64 {
    u64::try_from(key).unwrap_or(0) & MAX_SEQ
}

/// Adds a row to `log`.
pub(super) fn append(connection: &Connection, id: i64, turn: i64, segment: &Segment) -> Result<HotRow, StoreError> {
    connection
        .prepare_cached("INSERT INTO log (id, turn, first_seq, count, bytes) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![id, turn, segment.first_seq(), segment.count(), segment.bytes().as_ref()])?;
    Ok(HotRow { id, first_seq: segment.first_seq(), bytes: segment.bytes().len() as u64 })
}

/// Copies rows of `log`, all that a turn has there, into chunks, and what comes after them. The rows are dead then.
pub(super) fn gather(
    connection: &Connection,
    turn: i64,
    rows: &[HotRow],
    last: Option<&Segment>,
) -> Result<(), StoreError> {
    let mut chunk = Chunk { connection, turn, first_seq: 0, bytes: Vec::new() };
    {
        let mut select = connection.prepare_cached("SELECT count, bytes FROM log WHERE id = ?1")?;
        for row in rows {
            let mut found = select.query([row.id])?;
            let found = found.next()?.ok_or_else(|| corrupt(format_args!("row {} of the log is missing", row.id)))?;
            let bytes = found.get_ref(1)?.as_blob().map_err(corrupt)?;
            chunk.add(row.first_seq, found.get(0)?, bytes)?;
        }
    }
    if let Some(segment) = last.filter(|segment| segment.count() > 0) {
        chunk.add(segment.first_seq(), segment.count(), segment.bytes())?;
    }
    chunk.flush()
}

/// Writes a whole log into chunks. The turn has none.
pub(super) fn write_chunks(connection: &Connection, turn: i64, segments: &[Segment]) -> Result<(), StoreError> {
    let mut chunk = Chunk { connection, turn, first_seq: 0, bytes: Vec::new() };
    for segment in segments.iter().filter(|segment| segment.count() > 0) {
        chunk.add(segment.first_seq(), segment.count(), segment.bytes())?;
    }
    chunk.flush()
}

/// Deletes all of `log`. Its rows have been gathered, or are dead.
pub(super) fn clear(connection: &Connection) -> Result<(), StoreError> {
    connection.execute("DELETE FROM log", [])?;
    Ok(())
}

/// Deletes rows of `log`.
pub(super) fn delete_rows(connection: &Connection, rows: &[HotRow]) -> Result<(), StoreError> {
    let mut delete = connection.prepare_cached("DELETE FROM log WHERE id = ?1")?;
    for row in rows {
        delete.execute([row.id])?;
    }
    Ok(())
}

/// Deletes the chunks of a turn.
pub(super) fn delete_chunks(connection: &Connection, turn: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM chunks WHERE id BETWEEN ?1 AND ?2")?
        .execute([key(turn, 0), key(turn, MAX_SEQ)])?;
    Ok(())
}

/// A chunk being filled.
struct Chunk<'a> {
    connection: &'a Connection,
    turn: i64,
    first_seq: u64,
    bytes: Vec<u8>,
}

impl Chunk<'_> {
    fn add(&mut self, first_seq: u64, count: u32, segment: &[u8]) -> Result<(), StoreError> {
        if self.bytes.is_empty() {
            self.first_seq = first_seq;
        }
        let length = u32::try_from(segment.len())
            .map_err(|_| StoreError::Unavailable(format!("a segment of {} bytes is too large", segment.len())))?;
        self.bytes.extend_from_slice(&count.to_le_bytes());
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(segment);
        if self.bytes.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if !self.bytes.is_empty() {
            self.connection
                .prepare_cached("INSERT INTO chunks (id, segments) VALUES (?1, ?2)")?
                .execute(params![key(self.turn, self.first_seq), &self.bytes])?;
            self.bytes.clear();
        }
        Ok(())
    }
}

/// One segment within a chunk.
#[derive(Clone, Copy)]
struct Frame {
    first_seq: u64,
    count: u32,
    /// Where its bytes begin and end.
    start: usize,
    end: usize,
}

/// The segments of a chunk. Rubbish gives an error, never a wrong place.
fn frames(first_seq: u64, chunk: &[u8]) -> impl Iterator<Item = Result<Frame, StoreError>> {
    let mut offset = 0;
    let mut seq = first_seq;
    std::iter::from_fn(move || {
        if offset >= chunk.len() {
            return None;
        }
        let frame = (|| {
            let count = u32::from_le_bytes(chunk.get(offset..offset + 4)?.try_into().ok()?);
            let length = u32::from_le_bytes(chunk.get(offset + 4..offset + FRAME_HEAD)?.try_into().ok()?);
            let start = offset + FRAME_HEAD;
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            (end <= chunk.len() && count > 0).then_some(Frame { first_seq: seq, count, start, end })
        })();
        let Some(frame) = frame else {
            let what = format!("the chunk that begins at seq {first_seq} makes no sense at byte {offset}");
            offset = chunk.len();
            return Some(Err(corrupt(what)));
        };
        offset = frame.end;
        seq += u64::from(frame.count);
        Some(Ok(frame))
    })
}

/// Reads events after `seq`, see [`crate::Store::read`]. `rows` are the turn's rows of `log` as they were known before
/// the snapshot that `connection` sees.
pub(super) fn read(
    connection: &Connection,
    turn: i64,
    seq: u64,
    max_bytes: usize,
    rows: &[HotRow],
) -> Result<Vec<Segment>, StoreError> {
    if seq >= MAX_SEQ {
        return Ok(Vec::new());
    }
    let mut page = Page { segments: Vec::new(), bytes: 0, max_bytes, after: seq };
    let mut covered = 0;
    {
        let mut select = connection.prepare_cached(
            "SELECT id, segments FROM chunks WHERE id BETWEEN
                 ifnull((SELECT max(id) FROM chunks WHERE id BETWEEN ?1 AND ?2), ?2) AND ?3
             ORDER BY id",
        )?;
        let mut chunks = select.query([key(turn, 0), key(turn, seq + 1), key(turn, MAX_SEQ)])?;
        while let Some(row) = chunks.next()? {
            let first_seq = seq_of(row.get(0)?);
            if covered != 0 && covered + 1 != first_seq {
                return Err(corrupt(format_args!("a log goes from seq {covered} to {first_seq}")));
            }
            covered = page.add_chunk(first_seq, row.get_ref(1)?.as_blob().map_err(corrupt)?)?;
            if page.is_full() {
                return Ok(page.segments);
            }
        }
    }
    let mut select = connection.prepare_cached("SELECT turn, count, bytes FROM log WHERE id = ?1")?;
    for row in rows.iter().filter(|row| row.first_seq > covered) {
        let found = select.query_row([row.id], |found| {
            let bytes = Bytes::copy_from_slice(found.get_ref(2)?.as_blob()?);
            Ok((found.get::<_, i64>(0)?, Segment::from_stored(row.first_seq, found.get(1)?, bytes)))
        });
        match found.optional()? {
            // Deleted meanwhile, together with its session.
            None => break,
            Some((owner, segment)) => {
                if owner != turn {
                    return Err(corrupt(format_args!("row {} of the log belongs to another turn", row.id)));
                }
                page.add(segment);
            }
        }
        if page.is_full() {
            break;
        }
    }
    Ok(page.segments)
}

/// The segments that a read gives back.
struct Page {
    segments: Vec<Segment>,
    bytes: usize,
    max_bytes: usize,
    after: u64,
}

impl Page {
    fn is_full(&self) -> bool {
        !self.segments.is_empty() && self.bytes >= self.max_bytes
    }

    fn add(&mut self, segment: Segment) {
        if segment.first_seq() + u64::from(segment.count()) > self.after + 1 {
            self.bytes += segment.bytes().len();
            self.segments.push(segment);
        }
    }

    /// Takes what is wanted out of a chunk and copies no more than that. Gives the seq of the last event seen.
    fn add_chunk(&mut self, first_seq: u64, chunk: &[u8]) -> Result<u64, StoreError> {
        let mut covered = first_seq.saturating_sub(1);
        let mut wanted: Vec<Frame> = Vec::new();
        for frame in frames(first_seq, chunk) {
            let frame = frame?;
            covered = frame.first_seq + u64::from(frame.count) - 1;
            if covered <= self.after {
                continue;
            }
            self.bytes += frame.end - frame.start;
            wanted.push(frame);
            if self.bytes >= self.max_bytes {
                break;
            }
        }
        if let [first, .., last] | [first @ last] = wanted.as_slice() {
            let copy = Bytes::copy_from_slice(&chunk[first.start..last.end]);
            let base = first.start;
            self.segments.extend(wanted.iter().map(|frame| {
                Segment::from_stored(frame.first_seq, frame.count, copy.slice(frame.start - base..frame.end - base))
            }));
        }
        Ok(covered)
    }
}
