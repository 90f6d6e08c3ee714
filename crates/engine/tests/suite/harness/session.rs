//! What else clients do with a session: send messages into a busy one, stop it, answer its forms, look at its turns.

use std::sync::atomic::Ordering;

use everturn_core::{
    CallId, FormId, Json, Message, Outcome, SessionId, TurnId,
    submission::{OnBusy, Submission},
};
use everturn_engine::{CutError, Form, Started, StopError, Submit, SubmitError};
use everturn_store::{RecordFilter, TurnRecord, TurnStatus};

use super::{
    History::{Cut, Whole},
    World, check_history, until,
    world::Reply,
};

impl World {
    /// Checks all that must hold of a session.
    pub(crate) async fn check(&self, session: &SessionId) {
        let history = if self.cut.load(Ordering::Relaxed) { Cut } else { Whole };
        check_history(&self.store, &self.engine, &self.tenant, session, history).await;
    }

    /// Makes a session of what a cut leaves of the one in view.
    pub(crate) async fn fork(&self, cut: everturn_engine::Cut) -> Result<SessionId, CutError> {
        self.cut.store(true, Ordering::Relaxed);
        let fork = self.engine.fork(&self.tenant, &self.session(), cut, None).await?;
        self.check(&self.session()).await;
        self.check(&fork).await;
        Ok(fork)
    }

    /// Takes away what a cut does not leave of the session in view.
    pub(crate) async fn truncate(&self, cut: everturn_engine::Cut) -> Result<(), CutError> {
        self.cut.store(true, Ordering::Relaxed);
        self.engine.truncate(&self.tenant, &self.session(), cut, None).await?;
        self.check(&self.session()).await;
        Ok(())
    }

    /// Sends a message that says what becomes of it if the session is busy.
    pub(crate) async fn send(&self, text: &str, on_busy: OnBusy) -> Result<Started, SubmitError> {
        self.submit(Submit { on_busy, ..self.message(text) }).await
    }

    /// Sends a message that waits its turn.
    pub(crate) async fn enqueue(&self, text: &str) -> Started {
        self.send(text, OnBusy::Enqueue).await.expect("the message is taken")
    }

    /// Stops whatever runs or waits.
    pub(crate) async fn stop(&self) -> Result<(), StopError> {
        self.engine.stop(&self.tenant, &self.session(), None, None).await
    }

    /// Stops this turn.
    pub(crate) async fn stop_turn(&self, turn: &TurnId) -> Result<(), StopError> {
        self.engine.stop(&self.tenant, &self.session(), Some(turn), None).await
    }

    /// An answer to a form; without a form, to the first that the session waits for. What is not JSON is said in words.
    pub(crate) fn form_reply(&self, form: Option<&str>, value: &str) -> Submit {
        let form = form.map(|name| self.form_id(name));
        let value = Json::parse(value).unwrap_or_else(|_| Json::of(&value).expect("a text"));
        let words = value.as_str().trim_matches('"').to_owned();
        Submit { reply: Some(everturn_engine::Reply { form, value }), ..self.message(&words) }
    }

    /// Answers to some of the waiting calls.
    pub(crate) fn some_answers(&self, replies: Vec<Reply>) -> Submit {
        let Submission::Answers(answers) = self.reply(replies) else { panic!("answers are answers") };
        let submission = Submission::SomeAnswers(answers);
        self.submission(submission, Default::default())
    }

    /// A text with short names in place of ids.
    pub(crate) fn shortened(&self, mut text: String) -> String {
        self.names.lock().unwrap().shorten_ids(&mut text);
        text
    }

    /// The form behind a short name.
    pub(crate) fn form_id(&self, name: &str) -> FormId {
        let call = |name: &str| self.call_id(&name.replacen('f', "c", 1));
        match name.split_once('.') {
            Some((name, number)) => FormId::of_question(&call(name), number.parse().expect("a number")),
            None => FormId::of_call(&call(name)),
        }
    }

    /// The call behind a short name.
    pub(crate) fn call_id(&self, name: &str) -> CallId {
        self.names.lock().unwrap().call_id(name).expect("the call was shown")
    }

    /// One turn of the session, as it is stored.
    pub(crate) async fn turn_record(&self, turn: &TurnId) -> TurnRecord {
        let record = self.engine.turn(&self.tenant, &self.session(), turn).await.expect("the store works");
        record.expect("the turn is there")
    }

    /// Waits until a turn rests, and gives its stored transcript.
    pub(crate) async fn rest_of(&self, turn: &TurnId) -> String {
        let session = self.session();
        until(async || !matches!(self.turn_record(turn).await.status, TurnStatus::Running | TurnStatus::Queued)).await;
        self.check(&session).await;
        let log = self.log_of(turn).await;
        self.lines(&log)
    }

    /// Waits until a turn is over, and gives its stored transcript.
    pub(crate) async fn end_of(&self, turn: &TurnId) -> String {
        until(async || self.turn_record(turn).await.status.is_ended()).await;
        self.rest_of(turn).await
    }

    /// Waits until nothing runs, waits or is queued in the session.
    pub(crate) async fn idle(&self) {
        let session = self.session();
        until(async || {
            let record = self.engine.session(&self.tenant, &session).await.unwrap().expect("the session is there");
            record.queued == 0 && record.last_turn.is_none_or(|turn| turn.status.is_ended())
        })
        .await;
        self.check(&session).await;
    }

    /// The session's turns, a line each.
    pub(crate) async fn turns(&self) -> String {
        let turns = self.engine.turns_below(&self.tenant, &self.session(), None, 1000).await.expect("the store works");
        turns.iter().rev().map(|turn| format!("{}\n", shown(turn))).collect()
    }

    /// The tenant's forms, oldest first.
    pub(crate) async fn all_forms(&self) -> Vec<Form> {
        let mut forms = self.engine.forms(&self.tenant, &RecordFilter::default(), None, 1000).await.unwrap();
        forms.reverse();
        forms
    }

    /// The same, a line each.
    pub(crate) async fn forms_shown(&self) -> String {
        let line = |form: &Form| {
            let answer = form.answer.as_ref().map(|answer| format!(" {}", answer.as_str())).unwrap_or_default();
            format!("{} {}{answer}: {:?}\n", form.opened.form_id, form.state, form.opened.title)
        };
        self.shortened(self.all_forms().await.iter().map(line).collect())
    }
}

fn shown(turn: &TurnRecord) -> String {
    let status = match &turn.status {
        TurnStatus::Running => "running".to_owned(),
        TurnStatus::Waiting(_) => "waiting".to_owned(),
        TurnStatus::Queued => "queued".to_owned(),
        TurnStatus::Ended(Outcome::Cancelled { reason }) => format!("cancelled: {reason:?}"),
        TurnStatus::Ended(Outcome::Failed { code, .. }) => format!("failed: {code:?}"),
        TurnStatus::Ended(outcome) => format!("{outcome:?}").to_lowercase(),
    };
    let said = turn.messages.iter().find_map(|message| match message {
        Message::User { content } => Some(content.text()),
        _ => None,
    });
    format!("{} {} {status}", turn.ordinal, said.map_or("-".to_owned(), |text| format!("{text:?}")))
}
