//! The contract of a store.

use std::sync::Arc;

use bytes::Bytes;
use everturn_core::{Day, KeyId, Segment, SessionId, TenantId, Timestamp, TurnId, Usage};
use futures_util::future::BoxFuture;

use crate::{
    ClaimedTurn, Command, CommandKey, DueTurn, NodeId, Receipt, RecordFilter, RecordKind, RecordRow, Refusal,
    SessionRecord, SessionRow, StoreError, TurnOutline, TurnRecord, UnfinishedTurn, UsageRow, UsageSlot,
};

/// Keeps sessions, turns and logs, and the records that lie beside them.
///
/// **Durability.** When [`Store::commit`] returns `Ok`, every command that has a receipt survives a crash of the process
/// and, unless durability was relaxed by configuration, of the machine. When it returns `Err`, no command was
/// acknowledged; the caller may submit the same batch again, and commands that were kept after all are recognised.
///
/// **Fencing.** A turn has one writer. Beginning, resuming and claiming give its owner an epoch; each gives a higher one
/// than all before. An append with another epoch is refused as [`Refusal::Fenced`].
///
/// **Keys.** A command may carry a name that its caller gave it; a second one of that name has no effect, for as long as
/// [`CommandKey`] says.
///
/// **Visibility.** A read that begins after a commit has returned sees that commit. Reads never wait for a commit.
///
/// **Tenants.** Every session and every record belongs to one; what belongs to another is not there.
///
/// **Deletion.** A session that was deleted is gone from every read at once, with its turns and records; its name is not
/// given again to the same tenant until [`Command::ForgetDeleted`], and appends to its turns are refused as
/// [`Refusal::NotFound`]. Its content, and that of removed records and replaced logs, is gone from the files of a store
/// that was closed in order, as far as the store says; only its name, and the keys of its commands until they are
/// forgotten, remain.
///
/// **Sharing.** Sessions of a tenant may have turns in common, all of which have ended. A turn that a session lets go of,
/// by deletion or truncation, is gone from its reads at once, and stays as it is for the others. Once none has it, it is
/// deleted, and its content is gone as that of a deleted session is.
///
/// Dropping a future may leave a commit to happen all the same; dropping a read has no effect.
pub trait Store: Send + Sync + 'static {
    /// Whether it can keep anything, as far as it knows without being asked to: `Err` says why not, and commits are refused
    /// for the same reason. Never blocks.
    fn health(&self) -> Result<(), StoreError>;

    /// Keeps a batch in one transaction. Commands are judged one after the other, in order, each seeing those before
    /// it; one that is refused does not hinder the others.
    fn commit(&self, batch: Arc<Vec<Command>>) -> BoxFuture<'_, Result<Vec<Result<Receipt, Refusal>>, StoreError>>;

    /// Makes this node the owner of up to `limit` running turns whose owner is gone, oldest first. Durable on return.
    ///
    /// When it returns `Err`, turns may have been claimed all the same, and this node is not told of them again; under
    /// a new [`NodeId`] they can be claimed once more.
    fn claim(&self, node: &NodeId, limit: usize) -> BoxFuture<'_, Result<Vec<ClaimedTurn>, StoreError>>;

    /// One session.
    fn session(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>>;

    /// The kept command of this key, if it is younger than [`CommandKey::KEPT`] at the given time.
    fn kept(
        &self,
        tenant: &TenantId,
        key: &str,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<CommandKey>, StoreError>>;

    /// The tenant's sessions, newest first, below a position if one is given; `limit` at most. The cost of a page does
    /// not depend on how many sessions there are.
    fn sessions(
        &self,
        tenant: &TenantId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<SessionRow>, StoreError>>;

    /// The session's turns, in order. Empty if there is no such session.
    fn turns(&self, tenant: &TenantId, session: &SessionId) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>>;

    /// A page of the session's turns, newest first, below an ordinal if one is given; `limit` at most. Queued turns are
    /// the newest. Empty if there is no such session.
    fn turns_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>>;

    /// The same page without what was said in the turns: its cost does not depend on how much that is.
    fn outlines_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnOutline>, StoreError>>;

    /// The session's queued turns, in order; `limit` at most. The cost does not depend on how many others there are. Empty if
    /// there is no such session.
    fn queued(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>>;

    /// How many messages the session's turns have, as of their last rest, those that it shares included; those before the
    /// last turn that began history anew are not counted. Zero if there is no such session. Does not read the messages
    /// themselves.
    fn message_count(&self, tenant: &TenantId, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// About how many bytes of memory a page of [`Store::turns_below`] takes for what was said in its turns: as many as are
    /// stored. Zero if there is no such session. Does not read them.
    fn history_bytes(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// How many turns are queued in all sessions of the tenant.
    fn queued_of_tenant(&self, tenant: &TenantId) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// The waiting turns of all tenants that go on by themselves, those that come first before the others; `limit` at
    /// most. Also those whose time has not come.
    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Vec<DueTurn>, StoreError>>;

    /// The sessions of all tenants that have queued turns, and no turn that runs or waits, oldest first; `limit` at most.
    fn stalled(&self, limit: usize) -> BoxFuture<'_, Result<Vec<(TenantId, SessionId)>, StoreError>>;

    /// One record.
    fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        id: &str,
    ) -> BoxFuture<'_, Result<Option<RecordRow>, StoreError>>;

    /// The tenant's records of a kind, newest first, below a position if one is given; `limit` at most. The cost of a
    /// page does not depend on how many records are in other states or sessions.
    fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        filter: &RecordFilter,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>>;

    /// A part of a record's content.
    fn blob(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        id: &str,
        part: u32,
    ) -> BoxFuture<'_, Result<Option<Bytes>, StoreError>>;

    /// Turns of all tenants that ended before a time and whose log has been shortened to less than this level (a log
    /// that nobody shortened is at level 0), those that ended first before the others; `limit` at most.
    fn old_logs(&self, before: Timestamp, level: u8, limit: usize) -> BoxFuture<'_, Result<Vec<TurnId>, StoreError>>;

    /// Records of all tenants of a kind and in a state that last changed before a time, those that changed first before the others;
    /// `limit` at most.
    fn old_records(
        &self,
        kind: RecordKind,
        state: &str,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>>;

    /// Records of all tenants of a kind and in a state, oldest first, above a position if one is given; `limit` at most.
    /// Cheap for keys and notices only.
    fn records_of_all(
        &self,
        kind: RecordKind,
        state: &str,
        above: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>>;

    /// What the tenant used from a day to another, both included, in the order of [`UsageSlot`], after a slot if one is
    /// given; `limit` at most.
    fn usage(
        &self,
        tenant: &TenantId,
        days: (Day, Day),
        after: Option<&UsageSlot>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<UsageRow>, StoreError>>;

    /// The tokens that the tenant used on a day: all of them, or those used with a key.
    fn used_on(&self, tenant: &TenantId, day: Day, key: Option<&KeyId>) -> BoxFuture<'_, Result<Usage, StoreError>>;

    /// How many bytes the tenant's documents, artifacts and logs have. The log of a turn that runs counts as far as it was
    /// gathered, all of it once the turn rests; one that sessions share counts once.
    fn stored_bytes(&self, tenant: &TenantId) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Sessions of all tenants that last changed before a time and have no turn that runs, waits or is queued, those that
    /// changed first before the others; `limit` at most.
    fn idle_sessions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(TenantId, SessionId)>, StoreError>>;

    /// One turn of a session.
    fn turn(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
    ) -> BoxFuture<'_, Result<Option<TurnRecord>, StoreError>>;

    /// Durable events of a turn after `seq`, in order and without a gap: whole segments, the first of which may begin
    /// at or before `seq`; at least one segment if there is any such event, and no more once `max_bytes` are reached.
    /// Empty if there is none (yet), or no such turn. Whoever asks has been given the turn's name by a read of its
    /// tenant.
    fn read(&self, turn: &TurnId, seq: u64, max_bytes: usize) -> BoxFuture<'_, Result<Vec<Segment>, StoreError>>;

    /// What [`Self::session`], [`Self::turns_below`] and [`Self::read`] say of each of these turns, with this many turns
    /// of its session and bytes of its log at most; turns that are queued behind it, which may be many and large, are not
    /// read; `None` where the session is not there. A store for which each read has
    /// a price makes one of them.
    fn unfinished<'a>(
        &'a self,
        turns: &'a [ClaimedTurn],
        page: usize,
        max_bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<Option<UnfinishedTurn>>, StoreError>> {
        let read = async move {
            let mut found = Vec::with_capacity(turns.len());
            for ClaimedTurn { tenant, session, turn, .. } in turns {
                let behind = self.turn(tenant, session, turn).await?.map(|turn| turn.ordinal + 1);
                found.push(match self.session(tenant, session).await? {
                    None => None,
                    Some(record) => Some(UnfinishedTurn {
                        session: record,
                        turns: self.turns_below(tenant, session, behind, page).await?,
                        log: self.read(turn, 0, max_bytes).await?,
                    }),
                });
            }
            Ok(found)
        };
        Box::pin(read)
    }
}
