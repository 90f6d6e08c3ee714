//! The conversation of a session, message by message, each under its name.

use std::sync::Arc;

use everturn_core::{Content, Message, Said, SessionId, TenantId, Timestamp, TurnId, TurnState};
use everturn_store::{Store, TurnRecord, TurnStatus};

use crate::{
    Engine, Flow, ReadError, Reserved,
    earlier_history::{self, has_begun},
    follower::Follower,
    memory::{ALL_TURNS, ANSWER},
    session_history::PAGE,
};

impl Engine {
    /// The session's conversation, the finished steps of a running turn included. Empty if there is no such session.
    pub async fn conversation(&self, tenant: &TenantId, session: &SessionId) -> Result<Reserved<Vec<Said>>, ReadError> {
        let memory = self.reserve_history(tenant, session, ALL_TURNS, ANSWER).await?;
        let mut turns = self.0.store.turns(tenant, session).await?;
        if let Some(running) = turns.iter_mut().find(|turn| turn.status == TurnStatus::Running) {
            running.messages = self.fold(&running.id).await?.messages();
        }
        Ok(Reserved { value: said(turns), memory })
    }

    /// Shows the messages of a session's conversation, the newest turn first, until `look` has seen enough. Reads as much as
    /// that takes, a page at a time.
    pub async fn look_back(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        mut look: impl FnMut(&Message) -> Flow,
    ) -> Result<(), ReadError> {
        let mut below = None;
        loop {
            let page = self.0.store.turns_below(tenant, session, below, PAGE).await?;
            let is_last = page.len() < PAGE;
            below = page.last().map(|turn| turn.ordinal);
            for turn in page.into_iter().filter(|turn| has_begun(&turn.status, turn.head)) {
                let messages = match turn.status {
                    TurnStatus::Running => self.fold(&turn.id).await?.messages(),
                    _ => turn.messages,
                };
                if messages.iter().any(|message| look(message) == Flow::Close) || turn.begins_history {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// What was said in one turn, which may run still: its finished steps.
    pub async fn said_in(&self, turn: &TurnId) -> Result<Vec<Message>, ReadError> {
        Ok(self.fold(turn).await?.messages())
    }
}

/// What these turns, in order, have left of the conversation.
pub(crate) fn said(turns: Vec<TurnRecord>) -> Vec<Said> {
    earlier_history::in_history(turns).into_iter().flat_map(said_in_turn).collect()
}

pub(crate) fn said_in_turn(turn: TurnRecord) -> Vec<Said> {
    let rested = turn.rested_at.unwrap_or(turn.created_at);
    Said::of_turn(&turn.id, turn.created_at, rested, turn.messages)
}

/// The conversation as of an event of a turn: what was there before the turn, its steps so far, and what there is of the
/// answer under way.
pub(crate) async fn as_of(
    store: &Arc<dyn Store>,
    follower: &Follower,
    tenant: &TenantId,
    session: &SessionId,
    turn: &TurnId,
    seq: u64,
) -> Result<Arc<[Said]>, ReadError> {
    let mut state = TurnState::default();
    let (mut began, mut last) = (None, Timestamp::default());
    follower
        .each_until(seq, |event| {
            state.apply(event.seq, &event.decode()?);
            began.get_or_insert(event.at);
            last = event.at;
            Ok(())
        })
        .await?;
    let mut messages = state.messages();
    let answer = state.step.as_ref().map(everturn_core::StepState::content).filter(|content| !content.is_empty());
    messages.extend(answer.map(|content: Content| Message::Assistant { content }));
    let mut turns = store.turns(tenant, session).await?;
    let own = turns.iter().position(|other| other.id == *turn);
    let begins_history = own.is_some_and(|at| turns[at].begins_history);
    turns.truncate(own.unwrap_or(turns.len()));
    let mut conversation = if begins_history { Vec::new() } else { said(turns) };
    conversation.extend(Said::of_turn(turn, began.unwrap_or_default(), last, messages));
    Ok(conversation.into())
}
