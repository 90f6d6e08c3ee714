//! Results of tool calls: they go on with the turn that waits for them, and never run anything twice.
//!
//! The ids of the calls say where they wait. The results themselves are the submission's key, so that the same results sent
//! again are shown the same leg. A turn that ended without having been answered, or that is not there, is no concern of
//! the results': they are history then, like all that was said.

use everturn_core::{
    Answer, Block, CallId, Content, Message, Outcome, SessionId, WaitingFor,
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

/// How many turns are looked through at once for the one that results belong to.
const PAGE: usize = 200;
/// How often.
const MAX_PAGES: usize = 20;

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

/// The calls that a turn has made, and those that it waits for.
fn calls(turn: &TurnRecord) -> impl Iterator<Item = &CallId> {
    let waiting: &[_] = match &turn.status {
        TurnStatus::Waiting(wait) => &wait.calls,
        TurnStatus::Running | TurnStatus::Ended(_) | TurnStatus::Queued => &[],
    };
    let made = turn.messages.iter().flat_map(Message::tool_uses).map(|call| &call.id);
    waiting.iter().map(|call| &call.id).chain(made)
}

fn has_call(turn: &TurnRecord, place: &CallPlace) -> bool {
    // The messages of a turn that runs are not written yet.
    turn.status == TurnStatus::Running || calls(turn).any(|call| place.is(call))
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
    /// has failed with them; `None` if it is over without them. `system` is what the request has as system, if it says so.
    pub(crate) async fn go_on(
        &self,
        asked: &Asked,
        waiting: &Waiting,
        results: &[ToolResult],
        system: Option<&str>,
    ) -> Result<Option<Running>, ApiError> {
        let rested = self.rested(asked, waiting, results).await?;
        let waiting = rested.as_ref().unwrap_or(waiting);
        waiting.check_complete(results)?;
        let agent = self.agent_of(asked, &waiting.record).await?;
        let update = update(asked, &waiting.record, &agent, waiting.steps(), system);
        let (submission, key) = waiting.submission(results);
        let (target, named) = (Target::Existing(waiting.record.id.clone()), key.fingerprint.clone());
        match self.engine.submit(submit(asked, target, update, submission, Some(key))).await {
            Ok(started) if waiting.turn.status.is_ended() && self.has_failed(&asked.caller, &started).await? => {
                let again = self.try_again(asked, waiting, &agent, (&named, system)).await?;
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
        let said = self.engine.said_in(&turn.id).await?;
        let is_given = |said: &Message| match said {
            Message::Tool { call_id, .. } => results.iter().any(|result| result.answers(call_id)),
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

    /// The turn that results belong to by the ids of their calls; `None` if the caller has no such turn. The results are told
    /// the calls' own ids.
    pub(crate) async fn find_waiting(
        &self,
        caller: &Caller,
        results: &mut [ToolResult],
    ) -> Result<Option<Waiting>, ApiError> {
        let mut looked: Vec<SessionId> = Vec::new();
        for session in results.iter().filter_map(|result| Some(result.place.as_ref()?.session.clone())) {
            if looked.contains(&session) {
                continue;
            }
            if let Some(record) = self.engine.session(&caller.tenant, &session).await?
                && let Some(turn) = self.turn_of(caller, &record, results).await?
            {
                let waiting = Waiting { record, turn };
                self.find_calls(&waiting, results).await?;
                return match results.iter().find(|result| !result.is_found()) {
                    Some(other) => Err(unknown(other)),
                    None => Ok(Some(waiting)),
                };
            }
            looked.push(session);
        }
        Ok(None)
    }

    /// The turn of a session that waits, for results that name the session.
    pub(crate) async fn waiting_in(
        &self,
        caller: &Caller,
        record: SessionRecord,
        results: &mut [ToolResult],
    ) -> Result<Waiting, ApiError> {
        let elsewhere = |place: &CallPlace| place.session != record.id;
        if let Some(other) = results.iter().find(|result| result.place.as_ref().is_some_and(elsewhere)) {
            return Err(unknown(other));
        }
        match (self.turn_of(caller, &record, results).await?, &*results) {
            (Some(turn), _) => {
                let waiting = Waiting { record, turn };
                self.find_calls(&waiting, results).await?;
                // Calls of a turn that runs are known before they are shown: nothing else is worth waiting for.
                let must_be_found = waiting.turn.status == TurnStatus::Running;
                let is_lost = |result: &&ToolResult| (must_be_found || result.place.is_some()) && !result.is_found();
                match results.iter().find(is_lost) {
                    Some(other) => Err(unknown(other)),
                    None => Ok(waiting),
                }
            }
            (None, [first, ..]) => Err(unknown(first)),
            (None, []) => Err(ApiError::no_session(record.id.as_str())),
        }
    }

    /// Tells results which calls of the turn they are for.
    async fn find_calls(&self, waiting: &Waiting, results: &mut [ToolResult]) -> Result<(), ApiError> {
        let Waiting { record, turn } = waiting;
        let mut ids: Vec<CallId> = calls(turn).cloned().collect();
        if turn.status == TurnStatus::Running {
            let said = self.engine.said_in(&turn.id).await?;
            ids.extend(said.iter().flat_map(Message::tool_uses).map(|call| call.id.clone()));
        }
        let elsewhere = |place: &CallPlace| place.session != record.id;
        for result in results.iter_mut().filter(|result| !result.place.as_ref().is_some_and(elsewhere)) {
            result.find(ids.iter());
        }
        Ok(())
    }

    /// The turn whose calls these results are for: the last one as a rule, an earlier one where results are sent again. Ids
    /// that do not say where they belong are for the last one.
    async fn turn_of(
        &self,
        caller: &Caller,
        record: &SessionRecord,
        results: &[ToolResult],
    ) -> Result<Option<TurnRecord>, ApiError> {
        let mut places = results.iter().filter_map(|result| result.place.as_ref());
        self.turn_with(caller, record, places.find(|place| place.session == record.id)).await
    }

    /// The turn of a session that has made a call; the last one for no call in particular.
    pub(crate) async fn turn_with(
        &self,
        caller: &Caller,
        record: &SessionRecord,
        place: Option<&CallPlace>,
    ) -> Result<Option<TurnRecord>, ApiError> {
        let (tenant, session) = (&caller.tenant, &record.id);
        let Some(last) = &record.last_turn else { return Ok(None) };
        let last = self.engine.turn(tenant, session, &last.id).await?;
        let Some(place) = place else { return Ok(last) };
        if last.as_ref().is_some_and(|last| place.may_be_of(&last.id) && has_call(last, place)) {
            return Ok(last);
        }
        let mut below = None;
        for _ in 0..MAX_PAGES {
            // Ids of calls name their turn, so that only few turns are read with what was said in them.
            let page = self.engine.outlines_below(tenant, session, below, PAGE).await?;
            let Some(oldest) = page.last() else { return Ok(None) };
            below = Some(oldest.ordinal);
            for outline in page.iter().filter(|outline| place.may_be_of(&outline.id)) {
                let turn = self.engine.turn(tenant, session, &outline.id).await?;
                if let Some(turn) = turn.filter(|turn| has_call(turn, place)) {
                    return Ok(Some(turn));
                }
            }
        }
        Ok(None)
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
