//! Results of tool calls: they go on with the turn that waits for them, and never run anything twice.
//!
//! The ids of the calls say where they wait. The results themselves are the submission's key, so that the same results sent
//! again are shown the same leg. A turn that ended without having been answered, or that is not there, is no concern of
//! the results': they are history then, like all that was said.

use everturn_core::{
    Answer, Block, CallId, Content, Message, Outcome, Said, WaitingFor,
    submission::{Refused, Submission},
};
use everturn_engine::{Cursor, OpenError, ReadError, SubmissionKey, SubmitError, Target};
use everturn_http::{Caller, named_submission};
use everturn_store::{SessionRecord, TurnRecord, TurnStatus};

use crate::{
    call_id::{self, CallPlace},
    chat::{Asked, Running, submit, update},
    error::ApiError,
    messages::ToolResult,
    out::stream_path,
    parameters::Mode,
    projection::projection,
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
        let answer =
            |result: &ToolResult| Answer::Result { call_id: result.call(), content: in_short(&result.content) };
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
        let TurnStatus::Ended(Outcome::Cancelled { .. } | Outcome::Failed { .. }) = &self.turn.status else {
            return false;
        };
        let skipped = |message: &Message| match message {
            Message::Tool { call_id, is_error: true, .. } => results.iter().any(|result| result.call() == *call_id),
            Message::Tool { .. } | Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => false,
        };
        self.turn.messages.iter().any(skipped)
    }
}

/// A text that came as a part, as the text.
fn in_short(content: &Content) -> Content {
    match content.blocks() {
        [Block::Text(text)] => Content::Text(text.clone()),
        _ => content.clone(),
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
    /// Goes on with the turn that waits for these results, or has gone on with them before; with another in its place if it
    /// has failed with them; `None` if it is over without them.
    pub(crate) async fn go_on(
        &self,
        asked: &Asked,
        waiting: &Waiting,
        results: &[ToolResult],
    ) -> Result<Option<Running>, ApiError> {
        let rested = self.rested(asked, waiting, results).await?;
        let waiting = rested.as_ref().unwrap_or(waiting);
        waiting.check_complete(results)?;
        let agent = self.agent_of(asked, &waiting.record).await?;
        let update = update(asked, &waiting.record, &agent, waiting.steps());
        let (submission, key) = waiting.submission(results);
        let (target, named) = (Target::Existing(waiting.record.id.clone()), key.fingerprint.clone());
        match self.engine.submit(submit(asked, target, update, submission, Some(key))).await {
            Ok(started) if waiting.turn.status.is_ended() && self.has_failed(&asked.caller, &started).await? => {
                let again = self.try_again(asked, waiting, &agent, &named).await?;
                Ok(again.map(|started| Running { started, agent }))
            }
            Ok(started) => Ok(Some(Running { started, agent })),
            Err(error) => match self.refused_results(&asked.caller, waiting, results, error).await? {
                Some(refused) => Err(refused),
                None => Ok(None),
            },
        }
    }

    /// The turn once it rests, where the application was faster than the server's own tools: its calls are shown as soon as
    /// they are made. `None` if it rests, or runs because it has these results.
    async fn rested(
        &self,
        asked: &Asked,
        waiting: &Waiting,
        results: &[ToolResult],
    ) -> Result<Option<Waiting>, ApiError> {
        let (tenant, session, turn) = (&asked.caller.tenant, &waiting.record.id, &waiting.turn);
        if turn.status != TurnStatus::Running {
            return Ok(None);
        }
        let said = self.engine.conversation(tenant, session).await?;
        let is_given = |said: &Said| match &said.message {
            Message::Tool { call_id, .. } => results.iter().any(|result| result.call() == *call_id),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => false,
        };
        if said.iter().any(is_given) {
            return Ok(None);
        }
        let plain = projection(Mode::default());
        let reader = match self.engine.read_turn(tenant, session, &turn.id, plain, Cursor::after(turn.head)).await {
            Ok(reader) => reader,
            Err(OpenError::Store(error)) => return Err(error.into()),
            Err(OpenError::Read(error)) => return Err(error.into()),
            Err(OpenError::NotFound | OpenError::Cursor { .. } | OpenError::Part { .. }) => None,
        };
        if let Some(mut reader) = reader {
            let rest = async {
                while reader.next().await?.is_some() {}
                Ok::<_, ReadError>(())
            };
            // One that does not rest so soon is told to be busy, below.
            tokio::time::timeout(self.patience, rest).await.unwrap_or(Ok(()))?;
        }
        let turn = self.engine.turn(tenant, session, &turn.id).await?;
        let record = self.engine.session(tenant, session).await?;
        match (record, turn) {
            (Some(_), Some(turn)) if turn.status == TurnStatus::Running => {
                Err(ApiError::submit(SubmitError::Refused(Refused::Busy), Some(session)))
            }
            (Some(record), Some(turn)) => Ok(Some(Waiting { record, turn })),
            (None, _) | (_, None) => Ok(None),
        }
    }

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
    async fn refused_results(
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
                let path = stream_path(session, &now.turn.id, 0);
                let message = format!(
                    "these tool calls were answered before, with other results or in another protocol; an answer counts \
                     once. What came of it can be read at {path}"
                );
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
