//! One session with an engine, as a client meets it.

use std::{
    ops::Deref,
    sync::{Mutex, MutexGuard, atomic::AtomicBool},
};

use everturn_core::{
    Answer, CallId, Content, Event, Message, SessionId, TenantId, TurnId, TurnState,
    submission::{OnBusy, Submission},
};
use everturn_engine::{Engine, Flow, SessionUpdate, Started, Submit, SubmitError, Target};
use everturn_store::{SimStore, TurnStatus};
use expect_test::Expect;

use super::{Names, Setup, in_time, until};

/// Something that a client does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends a message.
    User(&'static str),
    /// Answers waiting calls.
    Answers(Vec<Reply>),
    /// Answers waiting calls and changes settings by the same request.
    AnswersWith(Box<SessionUpdate>, Vec<Reply>),
    /// Looks at full history.
    History,
}

/// An answer to a call, by the call's short name.
pub(crate) type Reply = (&'static str, Verdict);

#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Result(&'static str),
    Permission(bool, Option<&'static str>),
}

pub(crate) fn result(call: &'static str, text: &'static str) -> Reply {
    (call, Verdict::Result(text))
}

pub(crate) fn grant(call: &'static str) -> Reply {
    (call, Verdict::Permission(true, None))
}

pub(crate) fn deny(call: &'static str, reason: Option<&'static str>) -> Reply {
    (call, Verdict::Permission(false, reason))
}

/// Plays a scenario and compares its transcript.
pub(crate) async fn check(setup: Setup, acts: impl IntoIterator<Item = Act>, expect: Expect) {
    let world = World::start(setup).await;
    let mut transcript = String::new();
    for act in acts {
        transcript.push_str(&world.act(act).await);
    }
    expect.assert_eq(&transcript);
}

/// An engine over a simulated store, with one session at a time.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) store: SimStore,
    pub(crate) engine: Engine,
    pub(crate) tenant: TenantId,
    pub(super) names: Mutex<Names>,
    /// Whether sessions were forked or truncated, so that less can be said of what belongs to them.
    pub(super) cut: AtomicBool,
    session: Mutex<Option<SessionId>>,
}

impl Deref for World {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl World {
    pub(crate) async fn start(setup: Setup) -> Self {
        let store = SimStore::new();
        let engine = setup.start(store.clone()).await.expect("a new store works");
        let (names, cut, session) = (Mutex::default(), AtomicBool::new(false), Mutex::default());
        Self { setup, store, engine, tenant: TenantId::local(), names, cut, session }
    }

    /// Another engine over what is stored now, as after a crash: the old one keeps nothing more, and its work ends.
    pub(crate) async fn restart(mut self) -> Self {
        self.store = self.store.crash();
        self.engine.shutdown(std::time::Duration::ZERO).await;
        self.engine = self.setup.start(self.store.clone()).await.expect("the store works");
        self
    }

    /// The same, with this session in view.
    pub(crate) async fn restart_in(self, session: SessionId) -> Self {
        self.restart().await.in_session(session)
    }

    /// Looks at another session.
    pub(crate) fn in_session(self, session: SessionId) -> Self {
        *self.session.lock().unwrap() = Some(session);
        self
    }

    /// The session in view, to look at another.
    pub(crate) fn session_in_view(&self) -> MutexGuard<'_, Option<SessionId>> {
        self.session.lock().unwrap()
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session.lock().unwrap().clone().expect("a turn was begun")
    }

    /// Lets the next message open a session of its own.
    pub(crate) fn new_session(&self) {
        *self.session.lock().unwrap() = None;
    }

    /// What a message of the user's submits: to a new session at first.
    pub(crate) fn message(&self, text: &str) -> Submit {
        self.submission(Submission::Begin(vec![Message::user(text)]), SessionUpdate::default())
    }

    pub(crate) fn answers(&self, replies: Vec<Reply>) -> Submit {
        self.submission(self.reply(replies), SessionUpdate::default())
    }

    pub(crate) fn reply(&self, replies: Vec<Reply>) -> Submission {
        let names = self.names.lock().unwrap();
        let answer = |(call, verdict): Reply| {
            let call_id = names.call_id(call).unwrap_or_else(|| CallId::new(call));
            match verdict {
                Verdict::Result(text) => Answer::Result { call_id, content: Content::Text(text.to_owned()) },
                Verdict::Permission(granted, reason) => {
                    Answer::Permission { call_id, granted, reason: reason.map(str::to_owned) }
                }
            }
        };
        Submission::Answers(replies.into_iter().map(answer).collect())
    }

    pub(crate) fn submission(&self, submission: Submission, update: SessionUpdate) -> Submit {
        let (target, update) = match &*self.session.lock().unwrap() {
            Some(session) => (Target::Existing(session.clone()), update),
            None => (Target::New { agent: "tester".to_owned() }, self.setup.update.clone()),
        };
        let (tenant, on_busy) = (self.tenant.clone(), OnBusy::Supersede);
        let (reply, begins_history, request, key) = (None, false, None, None);
        Submit {
            tenant,
            account: Default::default(),
            target,
            update,
            submission,
            reply,
            on_busy,
            begins_history,
            request,
            options: everturn_core::ModelOptions::default(),
            options_of_answers: false,
            key,
        }
    }

    /// Submits and remembers the session.
    pub(crate) async fn submit(&self, submit: Submit) -> Result<Started, SubmitError> {
        let started = self.engine.submit(submit).await?;
        *self.session.lock().unwrap() = Some(started.session.clone());
        Ok(started)
    }

    /// Begins a turn.
    pub(crate) async fn begin(&self, text: &str) -> Started {
        self.submit(self.message(text)).await.expect("the message is taken")
    }

    /// Does something, and gives the transcript of what came of it, up to the turn's next rest.
    pub(crate) async fn act(&self, act: Act) -> String {
        let (head, submit) = match act {
            Act::User(text) => (format!("> {text}\n"), self.message(text)),
            Act::Answers(replies) => ("> answers\n".to_owned(), self.answers(replies)),
            Act::AnswersWith(update, replies) => {
                ("> answers with other settings\n".to_owned(), self.submission(self.reply(replies), *update))
            }
            Act::History => {
                let history = self.engine.history(&self.tenant, &self.session()).await.unwrap();
                return format!("> history\n{}", self.names.lock().unwrap().messages(&history.full));
            }
        };
        match self.submit(submit).await {
            Ok(started) => head + &self.transcript(&started).await,
            Err(error) => {
                let mut line = format!("refused: {error}\n");
                self.names.lock().unwrap().shorten_ids(&mut line);
                head + &line
            }
        }
    }

    /// The transcript of a leg, once it rests. Checks the session as well.
    pub(crate) async fn transcript(&self, started: &Started) -> String {
        let events = leg_of(&self.engine, started).await;
        assert!(events.last().is_some_and(|(_, event)| rests(event)), "the leg ended before it rested: {events:?}");
        self.check(&started.session).await;
        self.lines(&events)
    }

    pub(crate) fn lines(&self, events: &[(u64, Event)]) -> String {
        let mut names = self.names.lock().unwrap();
        events.iter().map(|(seq, event)| names.event(*seq, event) + "\n").collect()
    }

    /// Messages as lines.
    pub(crate) fn shown(&self, messages: &[Message]) -> String {
        self.names.lock().unwrap().messages(messages)
    }

    /// The whole stored log of the session's last turn.
    pub(crate) async fn log(&self) -> Vec<(u64, Event)> {
        let record = self.engine.session(&self.tenant, &self.session()).await.unwrap().expect("the session is there");
        self.log_of(&record.last_turn.expect("it has a turn").id).await
    }

    /// The whole stored log of a turn.
    pub(crate) async fn log_of(&self, turn: &TurnId) -> Vec<(u64, Event)> {
        super::invariants::stored_log(&self.store, turn).await
    }

    /// The transcript of the session's last turn, as stored.
    pub(crate) async fn stored(&self) -> String {
        let log = self.log().await;
        self.lines(&log)
    }

    /// What the stored log of the last turn folds to.
    pub(crate) async fn state(&self) -> TurnState {
        let mut state = TurnState::default();
        self.log().await.iter().for_each(|(seq, event)| state.apply(*seq, event));
        state
    }

    /// Waits until the session's last turn rests, however it got there, and gives its stored transcript.
    pub(crate) async fn rested(&self) -> String {
        let session = self.session();
        until(async || {
            let record = self.engine.session(&self.tenant, &session).await.unwrap().expect("the session is there");
            record.last_turn.expect("it has a turn").status != TurnStatus::Running
        })
        .await;
        self.check(&session).await;
        self.stored().await
    }
}

/// Whether an event brings its turn to rest.
pub(crate) fn rests(event: &Event) -> bool {
    matches!(event, Event::Waiting(_) | Event::TurnEnded(_))
}

/// The events of a leg, up to its rest or to where the engine gave it up.
pub(crate) async fn leg_of(engine: &Engine, started: &Started) -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    let take = |seq, event| {
        let flow = if rests(&event) { Flow::Close } else { Flow::Continue };
        events.push((seq, event));
        flow
    };
    in_time("for the end of a leg", engine.leg_events(started).each(take)).await.expect("the log can be read");
    events
}
