//! Commands whose outcome is unknown: the store failed, and may have kept them all the same.
//!
//! Whoever sent such a command is told of the failure at once. But a turn that was kept belongs to this process, and
//! nobody else would ever run it; so once the store answers again we look, and take up what we find. And those who read
//! a turn that was ended must learn of it.

use std::time::Duration;

use everturn_core::{SessionId, TenantId, TurnId};
use everturn_store::{ClaimedTurn, Command, DeleteSession, Receipt, StoreError, TurnStatus};

use crate::{Engine, committer::CommitError};

/// How long to wait before asking a store again that does not answer.
const SETTLE_WAIT: Duration = Duration::from_secs(1);

impl Engine {
    /// Commits a command that makes this process the owner of a turn, or ends one that nobody owns. See
    /// [`Committer::commit`](crate::committer::Committer::commit).
    pub(crate) fn commit_turn(&self, command: Command) -> impl Future<Output = Result<Receipt, CommitError>> {
        let answer = self.0.committer.commit(command);
        async move {
            let outcome = answer.await;
            if let Err(CommitError::Unknown { command, .. }) = &outcome {
                let (engine, command) = (self.clone(), Command::clone(command));
                self.0.tasks.spawn(async move {
                    engine.show_kept_end(&command).await;
                    Box::pin(engine.settle(command)).await;
                });
            }
            outcome
        }
    }

    /// Tells those who read what a command has ended, if it was kept.
    async fn show_kept_end(&self, command: &Command) {
        while !self.0.draining() {
            match self.look_for_end(command).await {
                Err(error) if error.is_retryable() => self.settle_later().await,
                Ok(()) | Err(_) => return,
            }
        }
    }

    async fn look_for_end(&self, command: &Command) -> Result<(), StoreError> {
        if let Command::DeleteSession(DeleteSession { tenant, session, .. }) = command
            && self.0.store.session(tenant, session).await?.is_none()
        {
            self.show_deleted(tenant, session);
        }
        if let Some((tenant, session, turn)) = ended_by(command)
            && let Some(record) = self.0.store.turn(tenant, session, turn).await?
            && record.status.is_ended()
            && let Some(tail) = self.0.live.unpark(turn)
        {
            tail.reach(record.head);
            tail.close();
        }
        Ok(())
    }

    pub(crate) async fn settle_later(&self) {
        tokio::select! {
            () = tokio::time::sleep(SETTLE_WAIT) => {}
            () = self.0.drain.cancelled() => {}
        }
    }

    /// Finds out whether a command was kept, and runs its turn if so.
    async fn settle(&self, command: Command) {
        let Some((tenant, session, turn)) = turn_of(&command) else { return };
        // A server that shuts down leaves the turn to the next start.
        while !self.0.draining() {
            match self.0.store.turn(&tenant, &session, &turn).await {
                // Kept: the same command gives the same receipt, unless somebody else has the turn by now.
                Ok(Some(record)) if record.status == TurnStatus::Running => {
                    match self.0.committer.commit(command.clone()).await {
                        Ok(Receipt { epoch, .. }) => {
                            tracing::info!(%turn, "a turn was kept although its commit had failed; taking it up");
                            let (head, by) = (record.head, record.by);
                            let live = self.enlist(&tenant, &session, &turn, head);
                            let claimed = ClaimedTurn { tenant, session, turn, by, epoch, head };
                            return self.recover(claimed, live, None).await;
                        }
                        Err(CommitError::Refused(_)) => return,
                        Err(CommitError::Unknown { .. } | CommitError::Store(_)) => {}
                    }
                }
                Ok(Some(record)) if record.status == TurnStatus::Queued => {
                    return self.start_next(&tenant, &session).await;
                }
                Ok(_) => return,
                Err(error) if error.is_retryable() => {}
                Err(_) => return,
            }
            self.settle_later().await;
        }
    }
}

fn turn_of(command: &Command) -> Option<(TenantId, SessionId, TurnId)> {
    match command {
        Command::BeginTurn(begin) => Some((begin.tenant.clone(), begin.session.clone(), begin.turn.clone())),
        Command::ResumeTurn(resume) => Some((resume.tenant.clone(), resume.session.clone(), resume.turn.clone())),
        Command::CreateSession(_)
        | Command::EndTurn(_)
        | Command::TruncateSession(_)
        | Command::Append(_)
        | Command::Put(_)
        | Command::DeleteSession(_)
        | Command::ReplaceLog(_)
        | Command::ForgetDeleted { .. } => None,
    }
}

/// The resting turn that a command ends.
fn ended_by(command: &Command) -> Option<(&TenantId, &SessionId, &TurnId)> {
    match command {
        Command::BeginTurn(begin) => Some((&begin.tenant, &begin.session, &begin.supersedes.as_ref()?.turn)),
        Command::EndTurn(end) => Some((&end.tenant, &end.session, &end.turn)),
        Command::CreateSession(_)
        | Command::ResumeTurn(_)
        | Command::TruncateSession(_)
        | Command::Append(_)
        | Command::Put(_)
        | Command::DeleteSession(_)
        | Command::ReplaceLog(_)
        | Command::ForgetDeleted { .. } => None,
    }
}
