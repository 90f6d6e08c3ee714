//! Calls that run at the same time, and what they tell and ask meanwhile.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use everturn_core::{CallId, Event, FormId, FormKind, FormOpened, Json, Timestamp};
use everturn_store::Write;
use everturn_tools::{Question, Reply, Report, Reporter};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream, FuturesUnordered, SelectAll},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

use crate::{
    forms::{FormState, closing},
    questions::{Answered, Questions},
    tool_run::Outcome,
    turn::{Stopped, Turn},
    turn_log::Pushed,
};

/// How many reports of one call may wait to be taken.
const REPORTS: usize = 256;
/// How much news of one call is kept. What comes after it is not shown.
const MAX_NEWS: u32 = 1000;
/// Longest news, in bytes.
const MAX_NEWS_BYTES: usize = 16 * 1024;
/// How many questions one call may ask, one after the other.
const MAX_QUESTIONS: usize = 20;
/// How long a question stays open after its time, if somebody is about to answer it.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Longest title and description of a question, in characters.
const MAX_TITLE: usize = 200;
const MAX_DESCRIPTION: usize = 4000;

/// What is known of a call while it runs.
struct Told {
    news: u32,
    questions: u32,
    /// Whether it waits for a person, which does not count as its time.
    asking: watch::Sender<bool>,
    open: Option<Asked>,
    /// What it asked meanwhile: people are asked one thing after the other.
    waiting: VecDeque<(Question, oneshot::Sender<Reply>)>,
}

struct Asked {
    form: FormOpened,
    expires: Instant,
    answer: oneshot::Sender<Reply>,
}

/// Calls under way.
pub(crate) struct Running {
    outcomes: FuturesUnordered<BoxFuture<'static, Outcome>>,
    reports: SelectAll<BoxStream<'static, (CallId, Report)>>,
    told: HashMap<CallId, Told>,
    answers: mpsc::Receiver<Answered>,
    answer_to: mpsc::Sender<Answered>,
    questions: Arc<Questions>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for asked in self.told.values().filter_map(|told| told.open.as_ref()) {
            self.questions.remove(&asked.form.form_id);
        }
    }
}

/// What happens next among calls that run.
enum Happened {
    Finished(Outcome),
    Reported(CallId, Report),
    Answered(FormId, Json),
    /// The time to answer some question is over.
    Expired,
}

impl Running {
    pub(crate) fn new(questions: Arc<Questions>) -> Self {
        let (answer_to, answers) = mpsc::channel(REPORTS);
        let (outcomes, reports) = (FuturesUnordered::new(), SelectAll::new());
        Self { outcomes, reports, told: HashMap::new(), answers, answer_to, questions }
    }

    /// Adds a call, which is given where to report to, and is told whether it waits for a person.
    pub(crate) fn add<F>(&mut self, call: &CallId, start: impl FnOnce(Reporter, watch::Receiver<bool>) -> F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let (reporter, reports) = Reporter::new(REPORTS);
        let (asking, is_asking) = watch::channel(false);
        self.told.insert(call.clone(), Told { news: 0, questions: 0, asking, open: None, waiting: VecDeque::new() });
        let call = call.clone();
        let reports = stream::unfold((call, reports), async |(call, mut reports)| {
            let report = reports.recv().await?;
            Some(((call.clone(), report), (call, reports)))
        });
        self.reports.push(reports.boxed());
        self.outcomes.push(start(reporter, is_asking).boxed());
    }

    /// `None` once all calls have finished.
    async fn next(&mut self) -> Option<Happened> {
        let expiry = self.told.values().filter_map(|told| told.open.as_ref()).map(|asked| asked.expires).min();
        let expired = async {
            match expiry {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The calls first: news that never ends must not keep them from going on.
            biased;
            outcome = self.outcomes.next() => outcome.map(Happened::Finished),
            Some((form, value)) = self.answers.recv() => Some(Happened::Answered(form, value)),
            Some((call, report)) = self.reports.next() => Some(Happened::Reported(call, report)),
            () = expired => Some(Happened::Expired),
        }
    }

    /// The next report that is there already.
    fn report_now(&mut self) -> Option<(CallId, Report)> {
        // The runtime would have us come back for the rest of many.
        tokio::task::unconstrained(self.reports.next()).now_or_never().flatten()
    }

    /// Of the call that asked it, if the question is still open.
    fn take_question(&mut self, is_it: impl Fn(&Asked) -> bool) -> Option<Asked> {
        let told = self.told.values_mut().find(|told| told.open.as_ref().is_some_and(&is_it))?;
        told.asking.send_replace(false);
        let asked = told.open.take()?;
        self.questions.remove(&asked.form.form_id);
        Some(asked)
    }

    /// The questions whose time is over, unless somebody is about to answer them.
    fn take_expired(&mut self) -> Vec<Asked> {
        let now = Instant::now();
        let mut expired = Vec::new();
        for told in self.told.values_mut() {
            let Some(asked) = told.open.take_if(|asked| asked.expires <= now) else { continue };
            if self.questions.expire(&asked.form.form_id) {
                told.asking.send_replace(false);
                expired.push(asked);
            } else {
                told.open = Some(Asked { expires: now + LAST_WORDS, ..asked });
            }
        }
        expired
    }
}

impl Turn {
    /// Follows calls until all have finished.
    pub(crate) async fn follow(&mut self, mut running: Running) -> Result<(), Stopped> {
        while let Some(happened) = running.next().await {
            match happened {
                Happened::Reported(call, report) => self.take_report(&mut running, call, report).await?,
                Happened::Answered(form, value) => {
                    if let Some(asked) = running.take_question(|asked| asked.form.form_id == form) {
                        // Its record says so already.
                        self.close_question(&asked.form, Some(value.clone()), Vec::new())?;
                        let _ = asked.answer.send(Reply::Accepted(value));
                        self.ask_next(&mut running, asked.form.call_id)?;
                    }
                }
                Happened::Expired => {
                    for asked in running.take_expired() {
                        let expired = vec![closing(&asked.form, FormState::Expired, None)];
                        self.close_question(&asked.form, None, expired)?;
                        let _ = asked.answer.send(Reply::Cancelled);
                        self.ask_next(&mut running, asked.form.call_id)?;
                    }
                }
                Happened::Finished(outcome) => {
                    // What it said before its result comes before it; it may be behind what the others say.
                    for _ in 0..REPORTS * running.told.len() {
                        let Some((call, report)) = running.report_now() else { break };
                        self.take_report(&mut running, call, report).await?;
                    }
                    let call = outcome.call_id.clone();
                    running.take_question(|asked| asked.form.call_id == call);
                    // Whatever it has left running is not heard any more.
                    running.told.remove(&call);
                    self.finished(outcome)?;
                }
            }
        }
        Ok(())
    }

    async fn take_report(&mut self, running: &mut Running, call: CallId, report: Report) -> Result<(), Stopped> {
        match self.reported(running, call, report)? {
            // So that news does not pile up before a slow store.
            Some(pushed) if pushed.full => Ok(self.log.durable(pushed.seq).await?),
            Some(_) | None => Ok(()),
        }
    }

    fn reported(&mut self, running: &mut Running, call: CallId, report: Report) -> Result<Option<Pushed>, Stopped> {
        let Some(told) = running.told.get_mut(&call) else { return Ok(None) };
        match report {
            Report::Notification { method, params } => {
                if told.news >= MAX_NEWS || method.len() + params.as_str().len() > MAX_NEWS_BYTES {
                    return Ok(None);
                }
                told.news += 1;
                self.record(Event::Notified { call_id: Some(call), method, params }).map(Some)
            }
            Report::Question(question, answer) => {
                if told.questions as usize + told.waiting.len() >= MAX_QUESTIONS {
                    let _ = answer.send(Reply::Cancelled);
                    return Ok(None);
                }
                if told.open.is_some() {
                    told.waiting.push_back((question, answer));
                    return Ok(None);
                }
                told.questions += 1;
                let patience = self.shared.settings.question_patience;
                let form = opened(&call, told.questions, question, patience);
                let record = self.form_record(&form);
                let notice = self.shared.notices.of_question(self.noticed(), self.state.head + 1, &form.form_id);
                told.asking.send_replace(true);
                running.questions.insert(form.form_id.clone(), running.answer_to.clone());
                told.open = Some(Asked { form: form.clone(), expires: Instant::now() + patience, answer });
                let writes = record.into_iter().chain(notice).collect();
                let opened = self.record_all(&[Event::FormOpened(form)], writes);
                self.shared.notices.tell();
                opened.map(Some)
            }
        }
    }

    /// Asks what a call has asked while its last question was open.
    fn ask_next(&mut self, running: &mut Running, call: CallId) -> Result<(), Stopped> {
        let told = running.told.get_mut(&call);
        match told.and_then(|told| told.waiting.pop_front()) {
            Some((question, answer)) => self.reported(running, call, Report::Question(question, answer)).map(drop),
            None => Ok(()),
        }
    }

    fn close_question(&mut self, form: &FormOpened, answer: Option<Json>, writes: Vec<Write>) -> Result<(), Stopped> {
        let (form_id, call_id) = (form.form_id.clone(), form.call_id.clone());
        self.record_all(&[Event::FormClosed { form_id, call_id, answer }], writes).map(drop)
    }

    /// Closes the question of a call that asks no more.
    pub(crate) fn drop_question(&mut self, call: &CallId) -> Result<(), Stopped> {
        let state = self.state.calls.iter().find(|state| state.call.id == *call);
        let Some(form) = state.and_then(|state| state.question.clone()) else { return Ok(()) };
        self.close_question(&form, None, vec![closing(&form, FormState::Cancelled, None)])
    }
}

fn opened(call: &CallId, number: u32, question: Question, patience: Duration) -> FormOpened {
    let Question { title, description, schema } = question;
    let cut = |text: String, longest| text.chars().take(longest).collect::<String>();
    let patience = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
    FormOpened {
        form_id: FormId::of_question(call, number),
        call_id: call.clone(),
        kind: FormKind::Clarify,
        title: cut(title, MAX_TITLE),
        description: description.map(|text| cut(text, MAX_DESCRIPTION)),
        schema,
        asks_for: None,
        expires_at: Some(Timestamp(Timestamp::now().millis().saturating_add(patience))),
    }
}
