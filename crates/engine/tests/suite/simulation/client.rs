//! Clients: people who write, answer, change their minds, and go on after whatever happened to the server.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{
    Message, Quota, SessionId, TenantId, TurnId, Wait,
    submission::{OnBusy, Refused, Submission},
};
use everturn_engine::{Account, DeleteError, Engine, SessionUpdate, Started, StopError, Submit, SubmitError, Target};
use everturn_store::{RecordFilter, SessionRecord, TurnStatus};
use futures_util::future::join_all;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use super::{
    answer::{Answered, answers, to_question},
    cutter,
};

/// What a client remembers.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) tenant: TenantId,
    /// A key of its own, and quotas that may be tight.
    account: Arc<Account>,
    name: usize,
    pub(super) session: Option<SessionId>,
    messages_left: usize,
    written: usize,
    /// The turns that it was told were begun or queued, with what it had written.
    pub(super) accepted: Vec<(SessionId, TurnId, String)>,
    /// The turns that it knows of.
    pub(super) known: Vec<(SessionId, TurnId)>,
    pub(super) deleted: Vec<SessionId>,
    /// The sessions whose end it may have cut off.
    pub(super) truncated: Vec<SessionId>,
    /// Whether it forks and truncates.
    pub(super) cuts: bool,
    /// How its next session is to be called, if it has a say in it.
    names: Option<usize>,
    /// Whether it has asked to delete its session, and perhaps not heard what came of it.
    deleting: bool,
    /// What the next session is opened with.
    update: SessionUpdate,
}

impl Client {
    pub(super) fn new(
        name: usize,
        messages: usize,
        update: SessionUpdate,
        cuts: bool,
        names: bool,
        tenant_quota: Quota,
    ) -> Arc<Mutex<Self>> {
        let key = format!("key_{name}").parse().expect("an id");
        let account = Account { key: Some(key), tenant_quota, ..Account::default() };
        Arc::new(Mutex::new(Self {
            tenant: TenantId::local(),
            account: Arc::new(account),
            name,
            session: None,
            messages_left: messages,
            written: 0,
            accepted: Vec::new(),
            known: Vec::new(),
            deleted: Vec::new(),
            truncated: Vec::new(),
            cuts,
            names: names.then_some(1),
            deleting: false,
            update,
        }))
    }

    fn learn(&mut self, session: &SessionId, turn: &TurnId) {
        if !self.known.iter().any(|(_, known)| known == turn) {
            self.known.push((session.clone(), turn.clone()));
        }
    }

    /// Its session is gone.
    fn lose(&mut self) {
        assert!(self.deleting, "a session that nobody deleted is gone");
        self.deleting = false;
        self.deleted.extend(self.session.take());
        // A name is not given again.
        self.names.iter_mut().for_each(|number| *number += 1);
    }

    /// A message that was not written before.
    fn compose(&mut self, on_busy: OnBusy) -> (Submit, String) {
        self.written += 1;
        let text = format!("message {} of client {}", self.written, self.name);
        let (target, update) = match &self.session {
            Some(session) => (Target::Existing(session.clone()), SessionUpdate::default()),
            None => (self.new_session(), self.update.clone()),
        };
        let submission = Submission::Begin(vec![Message::user(text.as_str())]);
        let tenant = self.tenant.clone();
        let begins_history = self.written.is_multiple_of(7);
        let (reply, request, key) = (None, None, None);
        (
            Submit {
                tenant,
                account: Arc::clone(&self.account),
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
            },
            text,
        )
    }

    fn new_session(&self) -> Target {
        let agent = "tester".to_owned();
        match self.names {
            Some(number) => {
                Target::Named { session: format!("session-{}-{number}", self.name).parse().expect("an id"), agent }
            }
            None => Target::New { agent },
        }
    }

    /// A message of its was taken.
    fn taken(&mut self, started: Started, text: String) {
        self.session = Some(started.session.clone());
        self.messages_left = self.messages_left.saturating_sub(1);
        self.learn(&started.session, &started.turn);
        self.accepted.push((started.session, started.turn, text));
    }
}

/// What a client does next.
enum Wish {
    Nothing,
    /// It has no more to say.
    Leave,
    Write(OnBusy),
    Answer(Wait),
}

fn any_way(rng: &mut StdRng) -> OnBusy {
    [OnBusy::Supersede, OnBusy::Reject, OnBusy::Enqueue, OnBusy::Interrupt][rng.random_range(0..4)]
}

fn wish(record: &SessionRecord, left: usize, rng: &mut StdRng) -> Wish {
    let Some(turn) = &record.last_turn else { return Wish::Nothing };
    match &turn.status {
        TurnStatus::Ended(_) if record.queued == 0 && left == 0 => Wish::Leave,
        TurnStatus::Ended(_) if record.queued == 0 => Wish::Write(any_way(rng)),
        // Some cannot wait.
        TurnStatus::Running | TurnStatus::Queued | TurnStatus::Ended(_) if left > 0 && rng.random_ratio(1, 6) => {
            Wish::Write(any_way(rng))
        }
        TurnStatus::Running | TurnStatus::Queued | TurnStatus::Ended(_) => Wish::Nothing,
        TurnStatus::Waiting(_) if left > 0 && rng.random_ratio(1, 6) => Wish::Write(any_way(rng)),
        // Some never come back; the turn waits.
        TurnStatus::Waiting(_) if left == 0 && rng.random_ratio(1, 20) => Wish::Leave,
        // It goes on by itself.
        TurnStatus::Waiting(wait) if wait.is_timed() => Wish::Nothing,
        TurnStatus::Waiting(wait) => Wish::Answer(wait.clone()),
    }
}

/// Goes on until everything is written and answered, or the server dies.
pub(super) async fn talk(engine: Engine, client: Arc<Mutex<Client>>, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(1..200))).await;
        let (tenant, session, left) = {
            let client = client.lock().unwrap();
            (client.tenant.clone(), client.session.clone(), client.messages_left)
        };
        let Some(session) = session else {
            if left == 0 {
                return;
            }
            write(&engine, &client, any_way(&mut rng)).await;
            continue;
        };
        let Ok(record) = engine.session(&tenant, &session).await else { continue };
        let Some(record) = record else {
            client.lock().unwrap().lose();
            continue;
        };
        if let Some(turn) = &record.last_turn {
            client.lock().unwrap().learn(&session, &turn.id);
        }
        if let Some(turn) = record.last_turn.as_ref().filter(|turn| turn.status == TurnStatus::Running)
            && rng.random_ratio(2, 3)
            && answer_question(&engine, &client, &turn.id, &mut rng).await
        {
            continue;
        }
        if client.lock().unwrap().cuts && rng.random_ratio(1, 15) {
            cutter::cut(&engine, &client, &session, &mut rng).await;
            continue;
        }
        if rng.random_ratio(1, 150) {
            client.lock().unwrap().deleting = true;
            delete(&engine, &tenant, &session).await;
            client.lock().unwrap().lose();
            continue;
        }
        if rng.random_ratio(1, 25) {
            let known: Vec<_> = client.lock().unwrap().known.clone();
            let one = known.get(rng.random_range(0..known.len() + 1)).filter(|(of, _)| *of == session);
            stop(&engine, &tenant, &session, one.map(|(_, turn)| turn)).await;
            continue;
        }
        match wish(&record, left, &mut rng) {
            Wish::Nothing => {}
            Wish::Leave => return,
            Wish::Write(on_busy) => write(&engine, &client, on_busy).await,
            Wish::Answer(wait) => reply(&engine, &client, &wait, &mut rng).await,
        }
    }
}

/// Says something to what a tool asks while it runs, if one does. Two who do so at once do not both count.
async fn answer_question(engine: &Engine, client: &Mutex<Client>, turn: &TurnId, rng: &mut StdRng) -> bool {
    let (mut submit, text) = client.lock().unwrap().compose(OnBusy::Reject);
    let filter = RecordFilter { session: client.lock().unwrap().session.clone(), state: Some("open".to_owned()) };
    let Ok(forms) = engine.forms(&submit.tenant, &filter, None, 10).await else { return false };
    let Some(form) = forms.iter().find(|form| form.turn == *turn && form.opened.form_id.as_str().contains('.')) else {
        return false;
    };
    let reply = to_question(&form.opened.form_id, rng);
    let in_words = reply.form.is_none();
    submit.reply = Some(reply);
    let outcomes = join_all((0..rng.random_range(1..3)).map(|_| engine.submit(submit.clone()))).await;
    let mut counted = 0;
    for outcome in outcomes {
        match outcome {
            Ok(started) if started.turn != *turn && in_words && started.leg_start == 1 => {
                // The turn had ended meanwhile: what was said is a message like any other.
                client.lock().unwrap().taken(started, text.clone());
            }
            Ok(_) => counted += 1,
            Err(error) => expected(&error),
        }
    }
    // In words, the second may answer the next question.
    assert!(counted <= 1 || in_words, "both counted");
    true
}

async fn write(engine: &Engine, client: &Mutex<Client>, on_busy: OnBusy) {
    let (submit, text) = client.lock().unwrap().compose(on_busy);
    match engine.submit(submit).await {
        Ok(started) => client.lock().unwrap().taken(started, text),
        Err(error) => expected(&error),
    }
}

async fn reply(engine: &Engine, client: &Mutex<Client>, wait: &Wait, rng: &mut StdRng) {
    let (mut submit, text) = client.lock().unwrap().compose(OnBusy::Reject);
    match answers(wait, rng) {
        Answered::Calls(submission) => submit.submission = submission,
        Answered::Form(reply) => submit.reply = Some(reply),
        // If nobody is asked any more, it is a message like any other.
        Answered::Words(reply) => {
            submit.reply = Some(reply);
            match engine.submit(submit).await {
                Ok(started) if started.leg_start == 1 => client.lock().unwrap().taken(started, text),
                Ok(_) => {}
                Err(error) => expected(&error),
            }
            return;
        }
    }
    // Some are impatient.
    let times = if rng.random_ratio(1, 4) { 2 } else { 1 };
    let submissions = join_all((0..times).map(|_| engine.submit(submit.clone()))).await;
    for refused in submissions.iter().filter_map(|outcome| outcome.as_ref().err()) {
        expected(refused);
    }
    assert!(submissions.iter().filter(|outcome| outcome.is_ok()).count() <= 1, "both counted");
}

/// Deletes a session for certain.
async fn delete(engine: &Engine, tenant: &TenantId, session: &SessionId) {
    // Not found is what an attempt finds whose predecessor was kept after all.
    while let Err(DeleteError::Store(_)) = engine.delete(tenant, session, None).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Says stop, once. On return what was meant has ended.
pub(super) async fn stop(engine: &Engine, tenant: &TenantId, session: &SessionId, turn: Option<&TurnId>) {
    match engine.stop(tenant, session, turn, None).await {
        Ok(()) => {
            if let Some(turn) = turn
                && let Ok(Some(record)) = engine.turn(tenant, session, turn).await
            {
                assert!(record.status.is_ended(), "{turn} was stopped, and is {:?}", record.status);
            }
        }
        Err(StopError::Store(_) | StopError::Read(_) | StopError::Busy) => {}
        Err(error @ (StopError::Rejected(_) | StopError::Crashed)) => {
            panic!("a good stop was refused: {error}");
        }
    }
}

/// A refusal for a good reason: the client tries again later.
fn expected(error: &SubmitError) {
    match error {
        SubmitError::Refused(Refused::Busy)
        | SubmitError::Store(_)
        | SubmitError::ShuttingDown
        | SubmitError::Overloaded { .. }
        | SubmitError::QueueFull { .. }
        | SubmitError::TenantQueueFull { .. }
        | SubmitError::Quota(_)
        | SubmitError::Stop(_) => {}
        // The answers were kept although the submission failed, or somebody was faster.
        SubmitError::Read(_) | SubmitError::FormClosed { .. } => {}
        SubmitError::Refused(Refused::AlreadyAnswered(_) | Refused::UnknownCall(_)) => {}
        // Some do not say what they were asked.
        SubmitError::FormInvalid { .. } => {}
        SubmitError::NotFound
        | SubmitError::Deleted { .. }
        | SubmitError::RepeatedGone { .. }
        | SubmitError::Exists { .. }
        | SubmitError::TooManyPermissions { .. }
        | SubmitError::Overlay { .. }
        | SubmitError::UnknownAgent { .. }
        | SubmitError::Refused(_)
        | SubmitError::Update(_)
        | SubmitError::Rejected(_)
        | SubmitError::KeyReused { .. }
        | SubmitError::UnknownDocument { .. }
        | SubmitError::Crashed => panic!("a good submission was refused: {error}"),
    }
}
