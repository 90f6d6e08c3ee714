//! Submissions that a client sends again because it does not know whether the first one arrived.
//!
//! A key makes them one: the first is kept together with its key, a second one of that key gets the same leg to read.

use std::time::Duration;

use everturn_core::{SessionId, TenantId, Timestamp, TurnId};
use everturn_store::{Command, CommandKey, Put, Refusal, StoreError};
use serde::{Deserialize, Serialize};

use crate::{Engine, OpenError, Started, Submit, SubmitError, Target};

/// A client's name for a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionKey {
    /// Unique among the tenant's submissions of the last 24 hours.
    pub key: String,
    /// Tells what is submitted, so that a repetition can be told from a key that was used twice.
    pub fingerprint: String,
}

/// Where a kept submission can be read.
#[derive(Serialize, Deserialize)]
struct Leg {
    session: SessionId,
    turn: TurnId,
    leg_start: u64,
}

/// The key of a command that begins this leg.
pub(crate) fn command_key(
    key: Option<&SubmissionKey>,
    session: &SessionId,
    turn: &TurnId,
    leg_start: u64,
) -> Option<CommandKey> {
    let SubmissionKey { key, fingerprint } = key?.clone();
    let leg = Leg { session: session.clone(), turn: turn.clone(), leg_start };
    // Our own type with string keys: it cannot fail.
    Some(CommandKey { key, fingerprint, outcome: serde_json::to_string(&leg).unwrap_or_default() })
}

impl Engine {
    /// Whether something was submitted with this key.
    pub async fn was_submitted(&self, tenant: &TenantId, key: &str) -> Result<bool, StoreError> {
        Ok(self.0.store.kept(tenant, key, Timestamp::now()).await?.is_some())
    }

    /// Whether the turn that a submission with this key began had ended when the server was started.
    pub async fn was_over_at_start(&self, tenant: &TenantId, key: &str) -> Result<bool, StoreError> {
        let store = &self.0.store;
        let Some(kept) = store.kept(tenant, key, Timestamp::now()).await? else { return Ok(false) };
        let Ok(Leg { session, turn, .. }) = serde_json::from_str(&kept.outcome) else { return Ok(false) };
        let turn = store.turn(tenant, &session, &turn).await?;
        Ok(turn
            .is_some_and(|turn| turn.status.is_ended() && turn.rested_at.is_some_and(|rested| rested < self.0.started)))
    }

    /// Keeps a name in the background, so that [`Self::was_submitted`] knows it: after a while, or when the server is stopped.
    pub fn keep_name(&self, tenant: &TenantId, name: String) {
        /// What is lost if the process dies in between.
        const WHILE: Duration = Duration::from_secs(1);
        let (engine, tenant) = (self.clone(), tenant.clone());
        self.0.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(WHILE) => {}
                () = engine.0.drain.cancelled() => {}
            }
            let key = Some(CommandKey { key: name, fingerprint: String::new(), outcome: String::new() });
            let put = Put { tenant, expects: Vec::new(), writes: Vec::new(), key, at: Timestamp::now() };
            if let Err(error) = engine.0.committer.commit(Command::Put(Box::new(put))).await {
                tracing::debug!(%error, "a name was not kept");
            }
        });
    }

    /// Whether the turn that a submission with this key began was taken away since, from a session that is still there.
    pub async fn was_taken_away(&self, tenant: &TenantId, key: &str) -> Result<bool, StoreError> {
        let store = &self.0.store;
        let Some(kept) = store.kept(tenant, key, Timestamp::now()).await? else { return Ok(false) };
        let Ok(Leg { session, turn, .. }) = serde_json::from_str(&kept.outcome) else { return Ok(false) };
        Ok(store.session(tenant, &session).await?.is_some() && store.turn(tenant, &session, &turn).await?.is_none())
    }

    /// The leg of a submission that was kept before, if this is a repetition.
    pub(crate) async fn find_repetition(&self, submit: &Submit) -> Result<Option<Started>, SubmitError> {
        let Some(SubmissionKey { key, .. }) = &submit.key else { return Ok(None) };
        match self.0.store.kept(&submit.tenant, key, Timestamp::now()).await? {
            Some(CommandKey { fingerprint, outcome, .. }) => {
                self.repeated(submit, Refusal::Repeated { fingerprint, outcome }).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// What a submission gets that the store refused; a repetition gets the leg of the first one.
    pub(crate) async fn repeated(&self, submit: &Submit, refusal: Refusal) -> Result<Started, SubmitError> {
        let (Refusal::Repeated { fingerprint, outcome }, Some(key)) = (&refusal, &submit.key) else {
            return Err(SubmitError::Rejected(refusal));
        };
        if *fingerprint != key.fingerprint {
            return Err(SubmitError::KeyReused { key: key.key.clone() });
        }
        let Ok(Leg { session, turn, leg_start }) = serde_json::from_str(outcome) else {
            return Err(SubmitError::Rejected(refusal));
        };
        // A turn that waits has nobody who works on it, and goes on all the same.
        let (tail, _) = self.tail_and_record(&submit.tenant, &session, &turn).await.map_err(|error| match error {
            OpenError::Store(error) => SubmitError::Store(error),
            OpenError::Read(error) => SubmitError::Read(error),
            // What it began was deleted or taken back since.
            OpenError::NotFound | OpenError::Cursor { .. } | OpenError::Part { .. } => match submit.target {
                Target::New { .. } | Target::Seeded { .. } => SubmitError::RepeatedGone { session: session.clone() },
                Target::Existing(_) | Target::Named { .. } => SubmitError::NotFound,
            },
        })?;
        Ok(Started { tenant: submit.tenant.clone(), session, turn, leg_start, tail })
    }
}
