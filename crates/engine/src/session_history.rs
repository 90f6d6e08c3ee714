//! What a session's turns have left: from memory where the session was used lately, else from the store.

use std::time::Duration;

use everturn_core::{SessionId, TenantId, TurnId, TurnState};
use everturn_store::{SessionRecord, StoreError, TurnStatus};

use crate::{Engine, ReadError, earlier_history::EarlierHistory, metrics::Label, warm_sessions::WarmSession};

/// How long a turn that has come to rest may take to leave. It takes no time; the store knows as much if it does.
const LEAVING: Duration = Duration::from_secs(1);

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
        // The end of a turn is seen a moment before its task has left what the next one needs.
        if let Some(leaving) = record.last_turn.as_ref().and_then(|last| self.0.live.get(&last.id)) {
            leaving.stopped(LEAVING).await;
        }
        let warm = self.0.warm.get(record);
        let kind = if warm.is_some() { "memory" } else { "store" }.to_owned();
        self.0.metrics.history_loads.get_or_create(&Label { kind }).inc();
        if let Some(WarmSession { earlier, waiting, .. }) = warm {
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
