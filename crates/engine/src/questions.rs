//! The questions that running calls have asked, and those who answer them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use everturn_core::{FormId, Json, TenantId};
use everturn_store::RecordKind;
use tokio::sync::mpsc;

use crate::{Engine, forms::FormState};

/// An answer to a question, as it reaches the turn.
pub(crate) type Answered = (FormId, Json);

/// The questions that wait for their answers, with who waits.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<HashMap<FormId, Waiting>>);

#[derive(Debug)]
struct Waiting {
    turn: mpsc::Sender<Answered>,
    /// How many are about to answer it. An answer that is being kept must not find that its time is over.
    answering: usize,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<FormId, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, form: FormId, turn: mpsc::Sender<Answered>) {
        self.lock().insert(form, Waiting { turn, answering: 0 });
    }

    pub(crate) fn remove(&self, form: &FormId) {
        self.lock().remove(form);
    }

    /// Whether somebody waits for the answer to a question.
    pub(crate) fn contains(&self, form: &FormId) -> bool {
        self.lock().contains_key(form)
    }

    /// Takes a question off the list because its time is over, unless somebody is about to answer it.
    pub(crate) fn expire(&self, form: &FormId) -> bool {
        let mut questions = self.lock();
        let expires = questions.get(form).is_none_or(|waiting| waiting.answering == 0);
        if expires {
            questions.remove(form);
        }
        expires
    }

    /// Says that somebody is about to answer a question; `None` if nobody waits for that.
    pub(crate) fn answer(self: &Arc<Self>, form: &FormId) -> Option<Answering> {
        let mut questions = self.lock();
        let waiting = questions.get_mut(form)?;
        waiting.answering += 1;
        Some(Answering { questions: Arc::clone(self), form: form.clone(), turn: waiting.turn.clone() })
    }
}

/// Somebody who is about to answer a question.
pub(crate) struct Answering {
    questions: Arc<Questions>,
    form: FormId,
    turn: mpsc::Sender<Answered>,
}

impl Answering {
    /// Gives the turn an answer that is kept.
    pub(crate) async fn give(self, value: Json) {
        // Who asked may be gone by now; then the tool is, too.
        let _ = self.turn.send((self.form.clone(), value)).await;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(waiting) = self.questions.lock().get_mut(&self.form) {
            waiting.answering = waiting.answering.saturating_sub(1);
        }
    }
}

impl Engine {
    /// The store failed while it had an answer, and may have kept it all the same: gives it to the turn if so.
    pub(crate) fn settle_answer(&self, tenant: TenantId, answering: Answering) {
        let engine = self.clone();
        self.0.tasks.spawn(async move {
            while !engine.0.draining() {
                match engine.0.store.record(&tenant, RecordKind::Form, answering.form.as_str()).await {
                    Ok(row) => {
                        let row = row.filter(|row| row.record.state == FormState::Answered.as_str());
                        if let Some(value) = row.and_then(|row| row.record.outcome) {
                            answering.give(value).await;
                        }
                        return;
                    }
                    Err(error) if error.is_retryable() => engine.settle_later().await,
                    Err(_) => return,
                }
            }
        });
    }
}
