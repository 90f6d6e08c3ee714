//! Clients: people who write, answer, change their minds, and go on after whatever happened to the server.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{
    Answer, Content, Message, SessionId, TenantId, TurnId, WaitingCall, WaitingFor,
    submission::{OnBusy, Refused, Submission},
};
use everturn_engine::{DeleteError, Engine, SessionUpdate, Submit, SubmitError, Target};
use everturn_store::TurnStatus;
use futures_util::future::join_all;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

/// What a client remembers.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) tenant: TenantId,
    name: usize,
    session: Option<SessionId>,
    messages_left: usize,
    written: usize,
    /// The turns that it was told were begun, with what it had written.
    pub(super) accepted: Vec<(SessionId, TurnId, String)>,
    /// The turns that it knows of.
    pub(super) known: Vec<(SessionId, TurnId)>,
    pub(super) deleted: Vec<SessionId>,
    /// Whether it has asked to delete its session, and perhaps not heard what came of it.
    deleting: bool,
    /// What the next session is opened with.
    update: SessionUpdate,
}

impl Client {
    pub(super) fn new(name: usize, messages: usize, update: SessionUpdate) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            tenant: TenantId::local(),
            name,
            session: None,
            messages_left: messages,
            written: 0,
            accepted: Vec::new(),
            known: Vec::new(),
            deleted: Vec::new(),
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
    }

    fn write(&mut self) -> (Submit, String) {
        self.written += 1;
        let text = format!("message {} of client {}", self.written, self.name);
        let (target, update) = match &self.session {
            Some(session) => (Target::Existing(session.clone()), SessionUpdate::default()),
            None => (Target::New { agent: "tester".to_owned() }, self.update.clone()),
        };
        let submission = Submission::Begin(vec![Message::user(text.as_str())]);
        let (tenant, on_busy) = (self.tenant.clone(), OnBusy::Supersede);
        (Submit { tenant, target, update, submission, reply: None, on_busy, key: None }, text)
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
            write(&engine, &client).await;
            continue;
        };
        let Ok(record) = engine.session(&tenant, &session).await else { continue };
        let Some(record) = record else {
            client.lock().unwrap().lose();
            continue;
        };
        let Some(turn) = record.last_turn else { continue };
        client.lock().unwrap().learn(&session, &turn.id);
        if rng.random_ratio(1, 150) {
            client.lock().unwrap().deleting = true;
            delete(&engine, &tenant, &session).await;
            client.lock().unwrap().lose();
            continue;
        }
        match turn.status {
            TurnStatus::Running | TurnStatus::Queued => {}
            TurnStatus::Ended(_) if left == 0 => return,
            TurnStatus::Ended(_) => write(&engine, &client).await,
            // It goes on by itself.
            TurnStatus::Waiting(wait) if wait.is_timed() => {}
            TurnStatus::Waiting(_) if left > 0 && rng.random_ratio(1, 6) => write(&engine, &client).await,
            // Some never come back; the turn waits.
            TurnStatus::Waiting(_) if left == 0 && rng.random_ratio(1, 20) => return,
            TurnStatus::Waiting(wait) => {
                let answers = wait.calls.iter().map(|call| answer(call, &mut rng)).collect();
                let (target, update) = (Target::Existing(session), SessionUpdate::default());
                let (submission, on_busy) = (Submission::Answers(answers), OnBusy::Supersede);
                let submit = Submit { tenant, target, update, submission, reply: None, on_busy, key: None };
                // Some are impatient.
                let times = if rng.random_ratio(1, 4) { 2 } else { 1 };
                let submissions = join_all((0..times).map(|_| engine.submit(submit.clone()))).await;
                for refused in submissions.iter().filter_map(|outcome| outcome.as_ref().err()) {
                    expected(refused);
                }
                assert!(submissions.iter().filter(|outcome| outcome.is_ok()).count() <= 1, "both counted");
            }
        }
    }
}

async fn write(engine: &Engine, client: &Mutex<Client>) {
    let (submit, text) = client.lock().unwrap().write();
    match engine.submit(submit).await {
        Ok(started) => {
            let mut client = client.lock().unwrap();
            client.session = Some(started.session.clone());
            client.messages_left -= 1;
            client.learn(&started.session, &started.turn);
            client.accepted.push((started.session, started.turn, text));
        }
        Err(error) => expected(&error),
    }
}

fn answer(call: &WaitingCall, rng: &mut StdRng) -> Answer {
    let call_id = call.id.clone();
    match call.waiting_for {
        WaitingFor::Result => Answer::Result { call_id, content: Content::Text("sunny".to_owned()) },
        WaitingFor::Form | WaitingFor::Timer => panic!("no such tools"),
        WaitingFor::Permission => {
            let granted = rng.random_bool(0.7);
            Answer::Permission { call_id, granted, reason: (!granted).then(|| "no".to_owned()) }
        }
    }
}

/// Deletes a session for certain.
async fn delete(engine: &Engine, tenant: &TenantId, session: &SessionId) {
    // Not found is what an attempt finds whose predecessor was kept after all.
    while let Err(DeleteError::Store(_)) = engine.delete(tenant, session, None).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A refusal for a good reason: the client tries again later.
fn expected(error: &SubmitError) {
    match error {
        SubmitError::Refused(Refused::Busy) | SubmitError::Store(_) | SubmitError::ShuttingDown => {}
        // The answers were kept although the submission failed, or somebody was faster.
        SubmitError::Read(_) => {}
        SubmitError::Refused(Refused::AlreadyAnswered(_) | Refused::UnknownCall(_)) => {}
        SubmitError::NotFound
        | SubmitError::UnknownAgent { .. }
        | SubmitError::Refused(_)
        | SubmitError::Update(_)
        | SubmitError::Overloaded { .. }
        | SubmitError::Rejected(_)
        | SubmitError::KeyReused { .. }
        | SubmitError::QueueFull { .. }
        | SubmitError::FormClosed { .. }
        | SubmitError::FormInvalid { .. }
        | SubmitError::UnknownDocument { .. }
        | SubmitError::Stop(_)
        | SubmitError::Crashed => panic!("a good submission was refused: {error}"),
    }
}
