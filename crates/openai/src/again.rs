//! Results that are sent again after their turn has failed or was stopped: there is no answer to show, so the session goes on
//! from where it stood, in another turn.
//!
//! That turn begins with the session's own history, so that nothing which ran is run again: the model is asked again, and
//! has the results of the server's own tools too. What was half said is left out. Every such turn is named after the one
//! whose place it takes, so that all who try at once share it.

use std::sync::Arc;

use everturn_core::{
    Event, Json, Message, TurnId,
    submission::{OnBusy, Refused, Submission},
};
use everturn_engine::{Agent, Flow, Reserved, Started, SubmissionKey, Submit, SubmitError, Target};
use everturn_http::Caller;
use everturn_store::TurnStatus;
use serde::{Deserialize, Serialize};

use crate::{
    answer::waits_for_client,
    chat::{Asked, submit, update},
    end,
    error::ApiError,
    follow_up::Waiting,
    routes::Api,
};

/// The note that says which results were tried again last, and in whose place.
const NOTE: &str = "openai-again";
/// How many turns that failed are looked through, where the note is about other results.
const MAX_FAILED: usize = 100;

/// What the note says.
#[derive(Serialize, Deserialize)]
struct Again {
    /// What names the results.
    results: String,
    /// The turn that failed.
    after: TurnId,
}

impl Again {
    /// The name of the turn that takes its place.
    fn key(&self) -> SubmissionKey {
        let Self { results, after } = self;
        SubmissionKey { key: format!("openai-again-{after}-{results}"), fingerprint: results.clone() }
    }
}

impl Api {
    /// Whether a leg that was there before ended without an answer.
    pub(crate) async fn has_failed(&self, caller: &Caller, started: &Started) -> Result<bool, ApiError> {
        let turn = self.engine.turn(&caller.tenant, &started.session, &started.turn).await?;
        let Some(TurnStatus::Ended(outcome)) = turn.map(|turn| turn.status) else { return Ok(false) };
        if end::finish(&outcome).is_ok() {
            return Ok(false);
        }
        // It may be an earlier leg, which was answered with calls.
        let mut failed = false;
        let mut events = self.engine.leg_events(started);
        let look = |_, event| match event {
            Event::Waiting(wait) if waits_for_client(&wait) => Flow::Close,
            Event::TurnEnded(_) => {
                failed = true;
                Flow::Close
            }
            _ => Flow::Continue,
        };
        events.each(look).await?;
        Ok(failed)
    }

    /// Goes on after a turn that failed with these results, or shows the turn that does; `None` if the session has gone on
    /// with something else. `results` is what names them, `system` what the request has as system.
    pub(crate) async fn try_again(
        &self,
        asked: &Asked,
        waiting: &Waiting,
        agent: &Arc<Agent>,
        (results, system): (&str, Option<&str>),
    ) -> Result<Option<Started>, ApiError> {
        let noted = waiting.record.config.notes.get(NOTE);
        let noted = noted.and_then(|note| serde_json::from_str::<Again>(note.as_str()).ok());
        let noted = noted.filter(|again| again.results == results).map(|again| again.after);
        let mut after = noted.unwrap_or_else(|| waiting.turn.id.clone());
        for _ in 0..MAX_FAILED {
            let again = Again { results: results.to_owned(), after };
            let Some(started) = self.tried(asked, waiting, again.key()).await? else {
                let begun = self.try_after(asked, waiting, agent, &again, system).await?;
                // Somebody else may have begun it just now.
                return if begun.is_some() { Ok(begun) } else { self.tried(asked, waiting, again.key()).await };
            };
            if !self.has_failed(&asked.caller, &started).await? {
                return Ok(Some(started));
            }
            after = started.turn;
        }
        Ok(None)
    }

    /// The turn of this name, if there is one.
    async fn tried(&self, asked: &Asked, waiting: &Waiting, key: SubmissionKey) -> Result<Option<Started>, ApiError> {
        let target = Target::Existing(waiting.record.id.clone());
        // It says nothing, so that it begins nothing.
        let look = submit(asked, target, Default::default(), Submission::Begin(Vec::new()), Some(key));
        match self.engine.submit(look).await {
            Ok(started) => Ok(Some(started)),
            Err(SubmitError::NotFound | SubmitError::Refused(Refused::Empty | Refused::Busy)) => Ok(None),
            Err(error) => Err(ApiError::submit(error, Some(&waiting.record.id))),
        }
    }

    /// Begins a turn in the place of the last one.
    async fn try_after(
        &self,
        asked: &Asked,
        waiting: &Waiting,
        agent: &Arc<Agent>,
        again: &Again,
        system: Option<&str>,
    ) -> Result<Option<Started>, ApiError> {
        let (tenant, session) = (&asked.caller.tenant, &waiting.record.id);
        let Reserved { value: said, memory: _held } = self.engine.conversation(tenant, session).await?;
        let history = without_half_said(said.into_iter().map(|said| said.message).collect());
        // After the history: what is said from now on finds the session busy, or has come too late to be left out of it.
        let Some(record) = self.engine.session(tenant, session).await? else { return Ok(None) };
        if record.last_turn.as_ref().is_none_or(|last| last.id != again.after) || history.is_empty() {
            return Ok(None);
        }
        let mut update = update(asked, &record, agent, 0, system);
        let note = Json::of(again).map_err(|error| ApiError::internal(&error))?;
        update.notes.insert(NOTE.to_owned(), note);
        let target = Target::Existing(session.clone());
        let submit = submit(asked, target, update, Submission::Begin(history), Some(again.key()));
        // A turn that waits is somebody else's, and one that is queued is to come after this.
        let submit = Submit { begins_history: true, on_busy: OnBusy::Reject, ..submit };
        match self.engine.submit(submit).await {
            Ok(started) => Ok(Some(started)),
            Err(SubmitError::NotFound) => Ok(None),
            Err(error) => Err(ApiError::submit(error, Some(session))),
        }
    }
}

/// History up to what the model was last given: an answer that broke off is void, as when a step is started again.
fn without_half_said(mut history: Vec<Message>) -> Vec<Message> {
    while let Some(last @ Message::Assistant { .. }) = history.last()
        && last.tool_uses().next().is_none()
    {
        history.pop();
    }
    history
}
