//! What a session's turns have left: from memory where the session was used lately, else from the store.

use std::time::Duration;

use everturn_core::{SessionId, TenantId, TurnId, TurnState};
use everturn_store::{StoreError, TurnOutline, TurnRecord, TurnStatus};

use crate::{
    Engine, ReadError,
    earlier_history::{EarlierHistory, EarlierTurn, has_begun},
    metrics::Label,
    session_head::SessionHead,
};

/// How long a turn that has come to rest may take to leave. It takes no time; the store knows as much if it does.
const LEAVING: Duration = Duration::from_secs(1);

/// How many turns are read at a time: of most sessions, all.
pub(crate) const PAGE: usize = 64;
/// How many outlines of turns are read at a time.
const OUTLINES: usize = 1000;

/// What is there when a session's next turn begins, or the last one goes on.
pub(crate) struct SessionHistory {
    /// What the turns that have ended left.
    pub(crate) earlier: EarlierHistory,
    /// The last turn, if it waits.
    pub(crate) waiting: Option<TurnState>,
}

impl Engine {
    /// The history of a session in which no turn runs.
    pub(crate) async fn session_history(&self, head: &SessionHead) -> Result<SessionHistory, ReadError> {
        // The end of a turn is seen a moment before its task has left what the next one needs.
        if let Some(leaving) = head.last_turn.as_ref().and_then(|last| self.0.live.get(&last.id)) {
            leaving.stopped(LEAVING).await;
        }
        let warm = self.0.warm.take(head);
        let kind = if warm.is_some() { "memory" } else { "store" }.to_owned();
        self.0.metrics.history_loads.get_or_create(&Label { kind }).inc();
        if let Some((earlier, waiting)) = warm {
            return Ok(SessionHistory { earlier, waiting });
        }
        let (tenant, session) = (&head.tenant, &head.id);
        match &head.last_turn {
            Some(last) if matches!(last.status, TurnStatus::Waiting(_)) => {
                let earlier = self.history_before(tenant, session, &last.id, None).await?;
                Ok(SessionHistory { earlier, waiting: Some(self.fold(&last.id).await?) })
            }
            Some(_) | None => {
                Ok(SessionHistory { earlier: self.load_history(tenant, session, None, None).await?, waiting: None })
            }
        }
    }

    /// What the session's other turns have left. The first page of its turns may have been read already.
    pub(crate) async fn history_before(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
        newest: Option<Vec<TurnRecord>>,
    ) -> Result<EarlierHistory, StoreError> {
        self.load_history(tenant, session, Some(turn), newest).await
    }

    /// What the session's turns have left, without one of them, from the store: of turns that a summary stands for only as
    /// much as is still needed.
    async fn load_history(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        without: Option<&TurnId>,
        mut newest: Option<Vec<TurnRecord>>,
    ) -> Result<EarlierHistory, StoreError> {
        let store = &self.0.store;
        // Newest first.
        let (mut turns, mut below): (Vec<TurnRecord>, _) = (Vec::new(), None);
        let compaction = loop {
            let page = match newest.take() {
                Some(newest) => newest,
                None => store.turns_below(tenant, session, below, PAGE).await?,
            };
            let is_last = page.len() < PAGE;
            below = page.last().map(|turn| turn.ordinal);
            for turn in page {
                let begins_history = turn.begins_history && has_begun(&turn.status, turn.head);
                match without {
                    Some(without) if turn.id == *without && turn.begins_history => return Ok(EarlierHistory::default()),
                    Some(without) if turn.id == *without => continue,
                    Some(_) | None if has_begun(&turn.status, turn.head) => turns.push(turn),
                    Some(_) | None => {}
                }
                if begins_history {
                    return Ok(EarlierHistory::of(turns.into_iter().rev().map(EarlierTurn::whole)));
                }
            }
            if is_last {
                return Ok(EarlierHistory::of(turns.into_iter().rev().map(EarlierTurn::whole)));
            }
            if let Some(compaction) = turns.iter().find_map(|turn| turn.compaction.clone())
                && compaction.system.is_some()
            {
                break compaction;
            }
        };
        let mut outlines = self.outlines(tenant, session, below).await?;
        outlines.reverse();
        let (mut earlier, mut end) = (Vec::new(), 0);
        for outline in outlines {
            let begin = end;
            end += usize::try_from(outline.message_count).unwrap_or(0);
            if (begin..end).all(|at| compaction.is_done_with(at)) {
                earlier.push(EarlierTurn::Outline(outline));
            } else {
                let whole = store.turns_below(tenant, session, Some(outline.ordinal + 1), 1).await?;
                earlier.extend(whole.into_iter().map(EarlierTurn::whole));
            }
        }
        Ok(EarlierHistory::of(earlier.into_iter().chain(turns.into_iter().rev().map(EarlierTurn::whole))))
    }

    /// The outlines of the turns of history below an ordinal, newest first.
    async fn outlines(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        mut below: Option<u64>,
    ) -> Result<Vec<TurnOutline>, StoreError> {
        let mut outlines = Vec::new();
        loop {
            let page = self.0.store.outlines_below(tenant, session, below, OUTLINES).await?;
            let is_last = page.len() < OUTLINES;
            below = page.last().map(|turn| turn.ordinal);
            for outline in page.into_iter().filter(|outline| has_begun(&outline.status, outline.head)) {
                let begins_history = outline.begins_history;
                outlines.push(outline);
                if begins_history {
                    return Ok(outlines);
                }
            }
            if is_last {
                return Ok(outlines);
            }
        }
    }
}
