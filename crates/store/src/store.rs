//! The contract of a store.

use std::sync::Arc;

use everturn_core::{Segment, SessionId, TenantId, Timestamp, TurnId};
use futures_util::future::BoxFuture;

use crate::{
    ClaimedTurn, Command, CommandKey, NodeId, Receipt, Refusal, SessionRecord, SessionRow, StoreError, TurnRecord,
};

/// Keeps sessions, turns and logs.
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
/// **Tenants.** Every session belongs to one; what belongs to another is not there.
///
/// **Deletion.** What was deleted is gone from every read at once, its name is not given again to the same tenant, and
/// appends to its turns are refused as [`Refusal::NotFound`]. Its content is gone from the files of a store that was
/// closed in order, as far as the store says; only its name, and the keys of its commands until they are forgotten, remain.
///
/// Dropping a future may leave a commit to happen all the same; dropping a read has no effect.
pub trait Store: Send + Sync + 'static {
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
}
