//! What a session's turns have left: from memory where the session was used lately, else from the store.

use everturn_core::{SessionId, TenantId, TurnId, TurnState};
use everturn_store::{SessionRecord, StoreError, TurnStatus};

use crate::{Engine, ReadError, earlier_history::EarlierHistory, warm_sessions::WarmSession};

/// What is there when a session's next turn begins, or the last one goes on.
pub(crate) struct SessionHistory {
    /// What the turns that have ended left.
    pub(crate) earlier: EarlierHistory,
    /// The last turn, if it waits.
    pub(crate) waiting: Option<TurnState>,
}

impl Engine {
    /// The history of a session in which no turn runs.
    pub(crate) async fn session_history(&self, record: &SessionRecord) -> Result<SessionHistory, ReadError> {
        if let Some(WarmSession { earlier, waiting, .. }) = self.0.warm.get(record) {
            return Ok(SessionHistory { earlier, waiting: waiting.map(|waiting| waiting.state) });
        }
        let (tenant, session) = (&record.tenant, &record.id);
        match &record.last_turn {
            Some(last) if matches!(last.status, TurnStatus::Waiting(_)) => {
                let earlier = self.history_before(tenant, session, &last.id).await?;
                Ok(SessionHistory { earlier, waiting: Some(self.fold(&last.id).await?) })
            }
            Some(_) | None => {
                let turns = self.0.store.turns(tenant, session).await?;
                Ok(SessionHistory { earlier: EarlierHistory::of(turns), waiting: None })
            }
        }
    }

    /// What the session's other turns have left.
    pub(crate) async fn history_before(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<EarlierHistory, StoreError> {
        let mut turns = self.0.store.turns(tenant, session).await?;
        if turns.iter().any(|other| other.id == *turn && other.begins_history) {
            return Ok(EarlierHistory::default());
        }
        turns.retain(|other| other.id != *turn);
        Ok(EarlierHistory::of(turns))
    }
}
