//! Results of tool calls: they go on with the turn that waits for them, and never run anything twice.
//!
//! The ids of the calls say where they wait. The results themselves are the submission's key, so that the same results sent
//! again are shown the same leg. A turn that ended without having been answered, or that is not there, is no concern of
//! the results': they are history then, like all that was said.

use everturn_core::{
    Answer, CallId, Message, Outcome, WaitingFor,
    submission::{Refused, Submission},
};
use everturn_engine::{SubmissionKey, SubmitError};
use everturn_http::{Caller, named_submission};
use everturn_store::{SessionRecord, TurnRecord, TurnStatus};

use crate::{
    call_id::{self, CallPlace},
    error::ApiError,
    messages::ToolResult,
    routes::Api,
};

/// The turn that results belong to.
pub(crate) struct Waiting {
    pub(crate) record: SessionRecord,
    pub(crate) turn: TurnRecord,
}

impl Waiting {
    /// How many model calls the turn has made.
    pub(crate) fn steps(&self) -> u32 {
        let messages = &self.turn.messages;
        let said = messages.iter().rposition(|message| matches!(message, Message::User { .. })).unwrap_or(0);
        let steps = messages[said..].iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        u32::try_from(steps).unwrap_or(u32::MAX)
    }

    /// Refuses results that leave out a call which waits for the application.
    pub(crate) fn check_complete(&self, results: &[ToolResult]) -> Result<(), ApiError> {
        let TurnStatus::Waiting(wait) = &self.turn.status else { return Ok(()) };
        let answered = |id: &CallId| results.iter().any(|result| result.call() == *id);
        let waits = wait.calls.iter().filter(|call| call.waiting_for == WaitingFor::Result);
        let (given, missing): (Vec<_>, Vec<_>) = waits.partition(|call| answered(&call.id));
        if given.is_empty() || missing.is_empty() {
            return Ok(());
        }
        let shown = |id: &CallId| call_id::shown(&self.record.id, &self.turn.id, id);
        let missing: Vec<_> = missing.into_iter().map(|call| shown(&call.id)).collect();
        Err(missing_results(&missing))
    }

    /// What the results submit. Calls that wait for a person stay waiting.
    pub(crate) fn submission(&self, results: &[ToolResult]) -> (Submission, SubmissionKey) {
        let answer = |result: &ToolResult| Answer::Result { call_id: result.call(), content: result.content.clone() };
        let answers: Vec<_> = results.iter().map(answer).collect();
        let mut named: Vec<_> = answers.iter().collect();
        named.sort_by(|one, other| one.call_id().cmp(other.call_id()));
        // Our own types with string keys: it cannot fail.
        let body = serde_json::to_vec(&named).unwrap_or_default();
        let operation = format!("tool results for {}", self.turn.id);
        let SubmissionKey { fingerprint, .. } = named_submission(String::new(), &operation, &body);
        let key = format!("openai-results-{}-{fingerprint}", self.turn.id);
        (Submission::SomeAnswers(answers), SubmissionKey { key, fingerprint })
    }

    /// Whether the turn was ended while it waited for one of these results.
    fn ended_unanswered(&self, results: &[ToolResult]) -> bool {
        let TurnStatus::Ended(Outcome::Cancelled { .. }) = &self.turn.status else { return false };
        let skipped = |message: &Message| match message {
            Message::Tool { call_id, is_error: true, .. } => results.iter().any(|result| result.call() == *call_id),
            Message::Tool { .. } | Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => false,
        };
        self.turn.messages.iter().any(skipped)
    }
}

/// Refuses results of which some are missing.
pub(crate) fn missing_results(missing: &[String]) -> ApiError {
    let message = format!(
        "every tool call must have its result: add a message of role \"tool\" for each of: {}",
        missing.join(", ")
    );
    ApiError::invalid("messages", message).with_code("tool_results_missing")
}

impl Api {
    /// The turn that results belong to by the ids of their calls; `None` if the caller has no such turn.
    pub(crate) async fn find_waiting(
        &self,
        caller: &Caller,
        results: &[ToolResult],
    ) -> Result<Option<Waiting>, ApiError> {
        let mut found: Option<Waiting> = None;
        let mut looked: Vec<&CallPlace> = Vec::new();
        for place in results.iter().filter_map(|result| result.place.as_ref()) {
            if looked.iter().any(|other| other.session == place.session && other.turn == place.turn) {
                continue;
            }
            looked.push(place);
            if let Some(turn) = self.engine.turn(&caller.tenant, &place.session, &place.turn).await?
                && let Some(record) = self.engine.session(&caller.tenant, &place.session).await?
            {
                found = Some(Waiting { record, turn });
                break;
            }
        }
        let Some(waiting) = found else { return Ok(None) };
        let belongs = |place: &CallPlace| place.session == waiting.record.id && place.turn == waiting.turn.id;
        match results.iter().find(|result| !result.place.as_ref().is_some_and(belongs)) {
            Some(other) => Err(unknown(other)),
            None => Ok(Some(waiting)),
        }
    }

    /// The turn of a session that waits, for results that name the session.
    pub(crate) async fn waiting_in(
        &self,
        caller: &Caller,
        record: SessionRecord,
        results: &[ToolResult],
    ) -> Result<Waiting, ApiError> {
        // An id that knows its turn knows better: the results may be sent again after it has ended.
        let named = results.iter().find_map(|result| result.place.as_ref());
        let turn = match (named, &record.last_turn) {
            (Some(place), _) => Some(place.turn.clone()),
            (None, Some(last)) => Some(last.id.clone()),
            (None, None) => None,
        };
        let belongs = |place: &CallPlace| place.session == record.id && Some(&place.turn) == turn.as_ref();
        if let Some(other) = results.iter().find(|result| !result.place.as_ref().is_none_or(belongs)) {
            return Err(unknown(other));
        }
        let found = match &turn {
            Some(turn) => self.engine.turn(&caller.tenant, &record.id, turn).await?,
            None => None,
        };
        match (found, results) {
            (Some(turn), _) => Ok(Waiting { record, turn }),
            (None, [first, ..]) => Err(unknown(first)),
            (None, []) => Err(ApiError::no_session(record.id.as_str())),
        }
    }

    /// What becomes of results that were refused: `None` if their turn is over without them, so that they are history.
    pub(crate) async fn refused_results(
        &self,
        caller: &Caller,
        waiting: &Waiting,
        results: &[ToolResult],
        error: SubmitError,
    ) -> Result<Option<ApiError>, ApiError> {
        let (session, turn) = (&waiting.record.id, &waiting.turn.id);
        let (SubmitError::NotFound | SubmitError::Refused(_)) = error else {
            return Ok(Some(ApiError::submit(error, Some(session))));
        };
        let Some(turn) = self.engine.turn(&caller.tenant, session, turn).await? else { return Ok(None) };
        let now = Waiting { record: waiting.record.clone(), turn };
        if now.ended_unanswered(results) {
            return Ok(None);
        }
        Ok(Some(match error {
            SubmitError::Refused(Refused::AlreadyAnswered(_) | Refused::Busy) => {
                let message = "these tool calls were answered before, with other results; an answer counts once. Send the \
                               same results to see the same answer again";
                ApiError::conflict("tool_call_answered", message).about("messages").for_good()
            }
            SubmitError::Refused(Refused::UnknownCall(call)) => {
                results.iter().find(|result| result.call() == call).map_or_else(
                    || ApiError::submit(SubmitError::Refused(Refused::UnknownCall(call.clone())), Some(session)),
                    unknown,
                )
            }
            error => ApiError::submit(error, Some(session)),
        }))
    }
}

fn unknown(result: &ToolResult) -> ApiError {
    let shown: String = result.id.chars().take(256).collect();
    let param = format!("messages[{}].tool_call_id", result.index);
    ApiError::invalid(param, format!("no tool call {shown:?} waits together with the others for a result"))
}
