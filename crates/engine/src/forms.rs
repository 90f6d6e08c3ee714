//! Forms: what people are asked, kept as records beside the turns that wait for the answers.

use std::time::Duration;

use everturn_core::submission::OnBusy;
use everturn_core::{
    Answer, CallId, CallRoute, CallState, Content, Event, FormId, FormKind, FormOpened, Json, SessionId, TenantId,
    Timestamp, TurnId, TurnState,
};
use everturn_store::{Expect, Record, RecordFilter, RecordKind, RecordRow, Refusal, StoreError, TurnStatus, Write};
use everturn_tools::{FormRequest, answer_from_text, approval_schema};
use serde::Deserialize;

use crate::{
    Engine, Started, Submit, SubmitError, committer::CommitError, repetition::command_key, session_head::SessionHead,
    turn::Turn,
};

/// How many open forms of a session are looked through for what a running tool asks.
const MAX_OPEN: usize = 100;

/// Where a form stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormState {
    /// It waits for its answer.
    Open,
    /// It was answered.
    Answered,
    /// Nobody answered in time.
    Expired,
    /// Its turn was ended first.
    Cancelled,
}

impl FormState {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Open, Self::Answered, Self::Expired, Self::Cancelled];

    /// The state as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A form as it is kept.
#[derive(Clone, Debug)]
pub struct Form {
    /// Its place in the list.
    pub position: u64,
    /// The session that waits for it.
    pub session: SessionId,
    /// The turn that does.
    pub turn: TurnId,
    /// What is asked.
    pub opened: FormOpened,
    /// `open`, `answered`, `expired` or `cancelled`.
    pub state: String,
    /// The answer, if there is one.
    pub answer: Option<Json>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was answered, or ended otherwise.
    pub closed_at: Option<Timestamp>,
}

impl Form {
    fn of(row: RecordRow) -> Option<Self> {
        let opened: FormOpened = serde_json::from_str(row.record.body.as_str()).ok()?;
        let is_open = row.record.state == FormState::Open.as_str();
        Some(Self {
            position: row.position,
            session: row.record.session?,
            turn: row.record.turn?,
            opened,
            state: row.record.state,
            answer: row.record.outcome,
            created_at: row.created_at,
            closed_at: (!is_open).then_some(row.updated_at),
        })
    }
}

impl Engine {
    /// A page of the tenant's forms, newest first.
    pub async fn forms(
        &self,
        tenant: &TenantId,
        filter: &RecordFilter,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Form>, StoreError> {
        let rows = self.0.store.records(tenant, RecordKind::Form, filter, below, limit).await?;
        Ok(rows.into_iter().filter_map(Form::of).collect())
    }

    /// One form.
    pub async fn form(&self, tenant: &TenantId, form: &FormId) -> Result<Option<Form>, StoreError> {
        Ok(self.0.store.record(tenant, RecordKind::Form, form.as_str()).await?.and_then(Form::of))
    }

    /// Whether this form of a session waits for its answer, or any.
    pub(crate) async fn is_open_in(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        form: Option<&FormId>,
    ) -> Result<bool, StoreError> {
        let is_open = |form: &Form| form.session == *session && form.state == FormState::Open.as_str();
        if let Some(form) = form {
            return Ok(self.form(tenant, form).await?.as_ref().is_some_and(is_open));
        }
        let open = Some(FormState::Open.as_str().to_owned());
        let filter = RecordFilter { session: Some(session.clone()), state: open };
        Ok(!self.forms(tenant, &filter, None, 1).await?.is_empty())
    }
}

impl Engine {
    /// Answers what a running tool asks, if that is what a submission does.
    pub(crate) async fn answer_question(
        &self,
        submit: &Submit,
        head: &SessionHead,
    ) -> Result<Option<Started>, SubmitError> {
        let Submit { tenant, reply, key, .. } = submit;
        let running = head.last_turn.as_ref().filter(|turn| turn.status == TurnStatus::Running);
        let (Some(reply), Some(turn)) = (reply, running) else { return Ok(None) };
        let asked = match &reply.form {
            Some(form) => Some(form.clone()),
            // Who says that the turn is to be ended does not mean to answer it.
            None if submit.on_busy == OnBusy::Interrupt => None,
            None => {
                let state = Some(FormState::Open.as_str().to_owned());
                let filter = RecordFilter { session: Some(head.id.clone()), state };
                let open =
                    self.forms(tenant, &filter, None, MAX_OPEN).await?.into_iter().map(|form| form.opened.form_id);
                open.filter(|form| self.0.questions.contains(form)).last()
            }
        };
        let Some((form, answering)) = asked.and_then(|form| Some((form.clone(), self.0.questions.answer(&form)?)))
        else {
            return Ok(None);
        };
        let row = self.0.store.record(tenant, RecordKind::Form, form.as_str()).await?;
        let row = row.filter(|row| row.record.session.as_ref() == Some(&head.id));
        let Some(row) = row else { return Ok(None) };
        let revision = Some(row.revision);
        let opened = Form::of(row).filter(|form| form.state == FormState::Open.as_str());
        let Some(Form { opened, .. }) = opened else { return Err(SubmitError::FormClosed { form }) };
        let value = self.checked_answer(tenant, &opened, reply.value.clone()).await?;
        let tail = self.0.live.tail(&turn.id);
        let leg_start = tail.as_ref().map_or(0, |tail| tail.head().seq) + 1;
        let expects = vec![Expect { kind: RecordKind::Form, id: form.as_str().to_owned(), revision }];
        let writes = vec![closing(&opened, FormState::Answered, Some(value.clone()))];
        let kept = command_key(key.as_ref(), &head.id, &turn.id, leg_start);
        match self.put_if(tenant, expects, writes, kept).await {
            Ok(()) => {}
            Err(CommitError::Refused(Refusal::Changed)) => return Err(SubmitError::FormClosed { form }),
            Err(error) => {
                if matches!(error, CommitError::Unknown { .. }) {
                    self.settle_answer(tenant.clone(), answering);
                }
                return Err(error.into());
            }
        }
        answering.give(value).await;
        let (tenant, session, turn) = (tenant.clone(), head.id.clone(), turn.id.clone());
        Ok(Some(Started { tenant, session, turn, leg_start, tail }))
    }
}

impl Turn {
    /// The forms that these calls open, and their records.
    pub(crate) fn open_forms(&self, calls: &[CallId]) -> (Vec<Event>, Vec<Write>) {
        let now = self.now();
        let settings = &self.shared.settings;
        let after = |expiry: Duration| {
            Timestamp(now.millis().saturating_add(i64::try_from(expiry.as_millis()).unwrap_or(i64::MAX)))
        };
        let open = self.state.calls.iter().filter(|state| calls.contains(&state.call.id));
        let form = |state: &CallState| {
            let is_approval = state.route == CallRoute::Permission;
            let expiry = if is_approval { settings.approval_expiry } else { settings.form_expiry };
            opened(state, expiry.map(after))
        };
        let forms: Vec<_> = open.map(form).collect();
        let writes = forms.iter().filter_map(|form| self.form_record(form)).collect();
        (forms.into_iter().map(Event::FormOpened).collect(), writes)
    }

    pub(crate) fn form_record(&self, form: &FormOpened) -> Option<Write> {
        Some(Write::Record(Record {
            kind: RecordKind::Form,
            id: form.form_id.as_str().to_owned(),
            session: Some(self.session.clone()),
            turn: Some(self.log.turn().clone()),
            state: FormState::Open.as_str().to_owned(),
            body: Json::of(form).ok()?,
            outcome: None,
        }))
    }
}

/// The form that a call opens.
fn opened(state: &CallState, expires_at: Option<Timestamp>) -> FormOpened {
    let call = &state.call;
    let (form_id, call_id) = (FormId::of_call(&call.id), call.id.clone());
    if state.route == CallRoute::Form
        && let Ok(FormRequest { kind, title, description, schema }) = FormRequest::parse(&call.input)
    {
        return FormOpened { form_id, call_id, kind, title, description, schema, asks_for: None, expires_at };
    }
    let (title, description) = (format!("Allow {}?", call.name), Some(shown_input(&call.input)));
    let (kind, schema, asks_for) = (FormKind::Approval, approval_schema(), Some(call.clone()));
    FormOpened { form_id, call_id, kind, title, description, schema, asks_for, expires_at }
}

/// What a tool is called with, for the person who shall allow it.
fn shown_input(input: &Json) -> String {
    const LIMIT: usize = 2000;
    let text = input.as_str();
    let cut = text.floor_char_boundary(LIMIT);
    if cut == text.len() {
        format!("Input: {text}")
    } else {
        format!("Input: {}… ({} bytes)", &text[..cut], text.len())
    }
}

/// What an approval says.
#[derive(Deserialize)]
struct Approval {
    approved: bool,
    reason: Option<String>,
}

impl Engine {
    /// Answers in the form in which the log keeps them: those to forms valid by their schema, those to approvals as
    /// permissions, through whichever protocol they came.
    pub(crate) async fn settle_answers(
        &self,
        tenant: &TenantId,
        state: &TurnState,
        answers: Vec<Answer>,
    ) -> Result<Vec<Answer>, SubmitError> {
        let mut settled = Vec::with_capacity(answers.len());
        for answer in answers {
            settled.push(self.settle_one(tenant, state, answer).await?);
        }
        Ok(settled)
    }

    async fn settle_one(&self, tenant: &TenantId, state: &TurnState, answer: Answer) -> Result<Answer, SubmitError> {
        let call = state.calls.iter().find(|call| call.call.id == *answer.call_id());
        let Some((call, form)) = call.and_then(|call| Some((call, call.form.as_ref()?))) else { return Ok(answer) };
        let (call_id, given) = match answer {
            Answer::Form { call_id, value } => (call_id, value),
            Answer::Result { call_id, content } if call.route == CallRoute::Form => {
                let text = content.text();
                let value = Json::parse(&text).ok().filter(Json::is_object);
                (call_id, value.or_else(|| Json::of(&text).ok()).unwrap_or_else(Json::empty_object))
            }
            other => return Ok(other),
        };
        let value = self.checked_answer(tenant, form, given).await?;
        if call.route != CallRoute::Permission {
            return Ok(Answer::Form { call_id, value });
        }
        let Ok(Approval { approved, reason }) = serde_json::from_str(value.as_str()) else {
            let problems = vec!["an approval says {\"approved\": true} or {\"approved\": false}".to_owned()];
            return Err(SubmitError::FormInvalid { form: form.form_id.clone(), problems });
        };
        Ok(Answer::Permission { call_id, granted: approved, reason })
    }

    /// What was given as the answer to a form, if it is not too long and fits the form's schema.
    async fn checked_answer(&self, tenant: &TenantId, form: &FormOpened, given: Json) -> Result<Json, SubmitError> {
        let invalid = |problems| SubmitError::FormInvalid { form: form.form_id.clone(), problems };
        let (bytes, max) = (given.as_str().len(), self.0.settings.form_answer_bytes);
        if bytes > max {
            return Err(invalid(vec![format!("the answer has {bytes} bytes, at most {max} are allowed")]));
        }
        let value = in_words(&form.schema, given);
        let checked = self.0.tools.schemas().check_answer(tenant.as_str(), &form.schema, &value).await;
        checked.map(|()| value).map_err(invalid)
    }
}

/// A JSON string is what a person said in plain words.
fn in_words(schema: &Json, given: Json) -> Json {
    match serde_json::from_str::<String>(given.as_str()) {
        Ok(text) => answer_from_text(schema, &text).unwrap_or(given),
        Err(_) => given,
    }
}

/// What changes of the forms of a turn by these answers.
pub(crate) fn closed(state: &TurnState, answers: &[Answer]) -> Vec<Write> {
    let close = |answer: &Answer| {
        let call = state.calls.iter().find(|call| call.call.id == *answer.call_id())?;
        let form = call.form.as_ref()?;
        let (state, outcome) = match answer {
            Answer::Form { value, .. } => (FormState::Answered, Some(value.clone())),
            // Nobody has answered what it asks.
            Answer::Permission { .. } if call.route == CallRoute::Form => (FormState::Cancelled, None),
            Answer::Permission { granted, reason, .. } => {
                // As the form's schema has it: a reason is a text, or not there.
                let mut outcome = serde_json::json!({ "approved": granted });
                if let Some(reason) = reason {
                    outcome["reason"] = reason.as_str().into();
                }
                (FormState::Answered, Json::of(&outcome).ok())
            }
            Answer::Result { content, .. } => (FormState::Answered, outcome_of(content)),
            Answer::Expired { .. } => (FormState::Expired, None),
            Answer::Elapsed { .. } => return None,
        };
        Some(closing(form, state, outcome))
    };
    answers.iter().filter_map(close).collect()
}

fn outcome_of(content: &Content) -> Option<Json> {
    Json::of(&content.text()).ok()
}

/// What becomes of the open forms of a turn that is ended.
pub(crate) fn cancelled(state: &TurnState) -> Vec<Write> {
    let asks = |call: &&CallState| call.granted.is_none();
    let forms = state.open_calls().filter(asks).filter_map(|call| call.form.as_ref());
    let questions = state.open_calls().filter_map(|call| call.question.as_ref());
    forms.chain(questions).map(|form| closing(form, FormState::Cancelled, None)).collect()
}

pub(crate) fn closing(form: &FormOpened, state: FormState, outcome: Option<Json>) -> Write {
    let id = form.form_id.as_str().to_owned();
    Write::Close { kind: RecordKind::Form, id, state: state.as_str().to_owned(), outcome }
}
