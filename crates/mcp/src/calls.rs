//! The calls in flight on one connection: who is told what the server says, and who is asked what it asks.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use everturn_core::{Json, TenantId, TurnId};
use everturn_tools::Reporter;
use rmcp::model::{GetExtensions as _, GetMeta as _, NumberOrString, ProgressToken, RequestId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::habits::{Habit, Habits};

/// For so long after a call a server may still speak of it.
const ECHO: Duration = Duration::from_secs(10);
/// How long a question waits until it is known whose it is.
const PATIENCE: Duration = Duration::from_secs(60);
/// For so long after its beginning a call is likely to ask: most questions come at once.
const ASKS_WITHIN: Duration = Duration::from_secs(3);
/// How long a call waits at most until no other turn's call is likely to ask.
const ALONE: Duration = Duration::from_secs(10);
/// How often it looks whether a call that was left asks no more.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Calls of one tenant that were left, of which it is known which they are.
const LEFT: usize = 1000;

/// Names an outgoing request before it has an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKey(u64);

/// The calls in flight. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    over: Notify,
    habits: Habits,
}

/// What a call is made for.
#[derive(Clone, Debug)]
pub(crate) struct Purpose {
    pub(crate) tenant: TenantId,
    pub(crate) turn: TurnId,
    pub(crate) tool: String,
}

#[derive(Debug, Default)]
struct Table {
    last: u64,
    open: HashMap<CallKey, Open>,
    /// Which turns have calls in flight, each with what ends with the last of them.
    turns: HashMap<TurnId, CancellationToken>,
    /// When each tenant last had a call in flight.
    tenants: HashMap<TenantId, Instant>,
    /// Those who have left calls before they were answered: the server may work on these still, and speak of them at any
    /// time.
    left: HashMap<TenantId, Left>,
}

/// What one tenant has left.
#[derive(Debug, Default)]
struct Left {
    calls: Vec<LeftCall>,
    /// Whether there were more than are known.
    more: bool,
}

#[derive(Debug)]
struct LeftCall {
    request: RequestId,
    at: Instant,
    /// Whether the server has answered since it was told that nobody waits for the call.
    acknowledged: bool,
}

impl Left {
    fn add(&mut self, request: RequestId) {
        if self.calls.len() == LEFT {
            self.calls.remove(0);
            self.more = true;
        }
        self.calls.push(LeftCall { request, at: Instant::now(), acknowledged: false });
    }

    /// Whether a question may be of one of them. One that the server was told about asks no more; if it does, the question
    /// reaches another conversation of the same tenant, and no other tenant.
    fn may_ask(&self) -> bool {
        self.calls.iter().any(|call| !call.acknowledged && call.at.elapsed() < ECHO)
    }
}

impl Table {
    /// Whose calls what the server says now can be about, if they are one tenant's.
    fn only_tenant(&mut self) -> Option<TenantId> {
        let now = Instant::now();
        for open in self.open.values() {
            self.tenants.insert(open.tenant.clone(), now);
        }
        self.tenants.retain(|_, last| now.duration_since(*last) < ECHO);
        let mut tenants = self.tenants.keys();
        let only = tenants.next().filter(|_| tenants.next().is_none())?;
        self.left.keys().all(|tenant| tenant == only).then(|| only.clone())
    }

    /// How long a call of this turn must wait to be told from those of other turns, if it or one of them asks. `None` if it
    /// may begin.
    fn wait(&self, turn: &TurnId, habit: Habit) -> Option<Duration> {
        let others = self.open.values().filter(|open| open.turn != *turn && !open.asks);
        let others = others.filter(|open| !(habit == Habit::Quiet && open.habit == Habit::Quiet));
        others.filter_map(|open| ASKS_WITHIN.checked_sub(open.begun.elapsed())).filter(|wait| !wait.is_zero()).max()
    }

    /// Whether a call would better be made on another connection: if it, or one that is in flight here, asks, it could not be
    /// told whose the question is. What is another tenant's is never taken for one's own; within a tenant, a tool counts
    /// that is known to ask.
    fn is_crowded(&self, tenant: &TenantId, turn: &TurnId, habit: Habit) -> bool {
        let others = || self.open.values().filter(|open| open.turn != *turn && !open.asks);
        let asks = |open: &Open| habit == Habit::Asks || open.habit == Habit::Asks;
        let is_quiet = |open: &Open| habit == Habit::Quiet && open.habit == Habit::Quiet;
        self.left.keys().any(|other| other != tenant)
            || others().any(|open| if open.tenant == *tenant { asks(open) } else { !is_quiet(open) })
    }

    /// Whose a question is that names no call and came when so many calls had been begun. A call asks until it is answered,
    /// and no call asks before it is begun.
    fn asker(&mut self, begun: u64) -> Certainty {
        // A call that has a question open asks no second one.
        let mut keys: Vec<CallKey> =
            self.open.iter().filter(|(key, open)| key.0 <= begun && !open.asks).map(|(key, _)| *key).collect();
        keys.sort_unstable_by_key(|key| key.0);
        let Some((first, others)) = keys.first().and_then(|key| Some((self.open.get(key)?, keys.len() - 1))) else {
            return Certainty::Never;
        };
        // Calls of one turn are one person's: it does not matter which of them a form is shown with.
        let is_one_turn = keys.iter().all(|key| self.open.get(key).is_some_and(|open| open.turn == first.turn));
        if self.left.keys().any(|tenant| *tenant != first.tenant) {
            return Certainty::Never;
        }
        let is_unsure = others > 0 && !is_one_turn;
        let reporter = first.reporter.clone();
        // Which of a turn's calls has asked is not known: the question stands until the last of them is over.
        let over =
            if others > 0 { self.turns.get(&first.turn).cloned().unwrap_or_default() } else { first.over.clone() };
        let is_left = self.left.get(&first.tenant).is_some_and(Left::may_ask);
        let is_sure = !is_unsure && !is_left;
        for key in &keys {
            if let Some(open) = self.open.get_mut(key) {
                open.may_have_asked |= open.habit != Habit::Quiet || is_sure;
            }
        }
        if is_unsure || is_left {
            return Certainty::NotYet;
        }
        if let Some(open) = self.open.get_mut(&keys[0]) {
            open.asks = true;
        }
        Certainty::Of(keys[0], reporter, over)
    }
}

/// What is known of whose a question is.
enum Certainty {
    Of(CallKey, Reporter, CancellationToken),
    /// It may be another's that is still to be answered.
    NotYet,
    /// It will not be known.
    Never,
}

#[derive(Debug)]
struct Open {
    tenant: TenantId,
    turn: TurnId,
    tool: String,
    begun: tokio::time::Instant,
    /// What was known of its tool when it began.
    habit: Habit,
    /// Whether a question of it is open.
    asks: bool,
    /// Whether a question came that may be its.
    may_have_asked: bool,
    reporter: Reporter,
    request: Option<RequestId>,
    progress: Option<ProgressToken>,
    over: CancellationToken,
}

/// A call in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) key: CallKey,
    /// Whether the server has said what came of it.
    pub(crate) answered: bool,
    calls: Calls,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let open = self.calls.table(|table| {
            let open = table.open.remove(&self.key)?;
            if !table.open.values().any(|other| other.turn == open.turn)
                && let Some(over) = table.turns.remove(&open.turn)
            {
                over.cancel();
            }
            table.tenants.insert(open.tenant.clone(), Instant::now());
            if self.answered {
                let habit = if open.may_have_asked { Habit::Asks } else { Habit::Quiet };
                self.calls.0.habits.learn(&open.tool, habit);
            }
            // What was never sent, the server knows nothing of.
            if !self.answered
                && let Some(request) = open.request.clone()
            {
                table.left.entry(open.tenant.clone()).or_default().add(request);
            }
            Some(open)
        });
        self.calls.0.over.notify_waiters();
        if let Some(open) = open {
            open.over.cancel();
        }
    }
}

/// Whom a question goes to.
#[derive(Debug)]
pub(crate) struct Asker {
    /// Who asks the person.
    pub(crate) reporter: Reporter,
    /// When nobody waits for the call any more.
    pub(crate) over: CancellationToken,
    /// The call, where it was found out which it is; it may ask again afterwards.
    asking: Option<(Calls, CallKey)>,
}

impl Drop for Asker {
    fn drop(&mut self) {
        if let Some((calls, key)) = &self.asking {
            calls.table(|table| {
                if let Some(open) = table.open.get_mut(key) {
                    open.asks = false;
                }
            });
            calls.0.over.notify_waiters();
        }
    }
}

impl Calls {
    /// No calls yet of a server with these habits.
    pub(crate) fn new(habits: Habits) -> Self {
        Self(Arc::new(Shared { habits, ..Shared::default() }))
    }

    /// Begins a call on a connection on which questions do not say which call they are of. Where it or another turn's call
    /// in flight may ask, it waits a little until that one asks or is answered.
    pub(crate) async fn begin_alone(&self, purpose: Purpose, reporter: Reporter) -> OpenCall {
        let wait = async {
            loop {
                let mut changed = std::pin::pin!(self.0.over.notified());
                changed.as_mut().enable();
                let habit = self.0.habits.of(&purpose.tool);
                let begun = self.table(|table| match table.wait(&purpose.turn, habit) {
                    None => Ok(self.add(table, &purpose, &reporter)),
                    Some(wait) => Err(wait),
                });
                match begun {
                    Ok(begun) => return begun,
                    Err(wait) => drop(tokio::time::timeout(wait, changed).await),
                }
            }
        };
        match tokio::time::timeout(ALONE, wait).await {
            Ok(begun) => begun,
            Err(_) => self.begin(&purpose, &reporter),
        }
    }

    /// Begins a call, unless it would better be made on another connection.
    pub(crate) fn begin_apart(&self, purpose: &Purpose, reporter: &Reporter) -> Option<OpenCall> {
        let habit = self.0.habits.of(&purpose.tool);
        self.table(|table| {
            let is_crowded = table.is_crowded(&purpose.tenant, &purpose.turn, habit);
            // Calls that nothing is known of are told apart by their time.
            let may_begin = !is_crowded && table.wait(&purpose.turn, habit).is_none();
            may_begin.then(|| self.add(table, purpose, reporter))
        })
    }

    /// Whether a call would better be made on another connection.
    pub(crate) fn are_crowded(&self, purpose: &Purpose) -> bool {
        let habit = self.0.habits.of(&purpose.tool);
        self.table(|table| table.is_crowded(&purpose.tenant, &purpose.turn, habit))
    }

    /// Begins a call.
    pub(crate) fn begin(&self, purpose: &Purpose, reporter: &Reporter) -> OpenCall {
        self.table(|table| self.add(table, purpose, reporter))
    }

    fn add(&self, table: &mut Table, purpose: &Purpose, reporter: &Reporter) -> OpenCall {
        table.last += 1;
        let key = CallKey(table.last);
        let Purpose { tenant, turn, tool } = purpose.clone();
        let open = Open {
            tenant,
            turn,
            habit: self.0.habits.of(&tool),
            tool,
            begun: tokio::time::Instant::now(),
            asks: false,
            may_have_asked: false,
            reporter: reporter.clone(),
            request: None,
            progress: None,
            over: CancellationToken::new(),
        };
        table.turns.entry(open.turn.clone()).or_default();
        table.open.insert(key, open);
        OpenCall { key, answered: false, calls: self.clone() }
    }

    /// Notes what a call is called on the wire. Happens before its request is sent, so that nothing said about it is lost.
    pub(crate) fn sent(&self, request: &rmcp::model::ClientRequest, id: &RequestId) {
        let Some(key) = request.extensions().get::<CallKey>() else { return };
        let progress = request.get_meta().get_progress_token();
        self.table(|table| {
            if let Some(open) = table.open.get_mut(key) {
                open.request = Some(id.clone());
                open.progress = progress;
            }
        });
    }

    /// Tells one call. That is a sign of life: the server works on it.
    pub(crate) fn tell_progress(&self, token: &ProgressToken, method: &str, params: impl FnOnce() -> Option<Json>) {
        let reporter = self.table(|table| {
            table
                .open
                .values()
                .find(|open| open.progress.as_ref().is_some_and(|own| same(&own.0, &token.0)))
                .map(|open| open.reporter.clone())
        });
        if let Some(reporter) = reporter
            && let Some(params) = params()
        {
            reporter.notify(method, params);
        }
    }

    /// Tells every call what is no secret.
    pub(crate) fn tell_all(&self, method: &str, params: impl FnOnce() -> Option<Json>) {
        let reporters = self.table(|table| table.open.values().map(|open| open.reporter.clone()).collect());
        tell(reporters, method, params);
    }

    /// Tells every call what may be about any of them, unless some are of another tenant: nobody knows whose it is then.
    /// If only one call is in flight, it is about that one, and a sign of life.
    pub(crate) fn tell_own(&self, method: &str, params: impl FnOnce() -> Option<Json>) {
        let reporters = self.table(|table| match table.only_tenant() {
            Some(_) => table.open.values().map(|open| open.reporter.clone()).collect(),
            None => Vec::new(),
        });
        match reporters.as_slice() {
            [only] => {
                if let Some(params) = params() {
                    only.notify(method, params);
                }
            }
            _ => tell(reporters, method, params),
        }
    }

    /// The call that asks: that of the request if it is known, else the only one that it can be. The question waits for a
    /// while until the others that were in flight with it are answered.
    pub(crate) async fn asker(&self, request: Option<&RequestId>) -> Option<Asker> {
        if let Some(id) = request {
            return self.table(|table| {
                let mut open = table.open.values();
                let open = open.find(|open| open.request.as_ref().is_some_and(|own| same(own, id)))?;
                Some(Asker { reporter: open.reporter.clone(), over: open.over.clone(), asking: None })
            });
        }
        let begun = self.table(|table| table.last);
        let wait = async {
            loop {
                let mut changed = std::pin::pin!(self.0.over.notified());
                changed.as_mut().enable();
                match self.table(|table| table.asker(begun)) {
                    Certainty::Of(key, reporter, over) => {
                        // Others may begin: what comes next of this call is the answer to its question.
                        self.0.over.notify_waiters();
                        return Some(Asker { reporter, over, asking: Some((self.clone(), key)) });
                    }
                    Certainty::Never => return None,
                    Certainty::NotYet => drop(tokio::time::timeout(LOOK_AGAIN, changed).await),
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.ok().flatten()
    }

    /// The server has said what came of a request. If that was left, nothing more is to come of it.
    pub(crate) fn answered(&self, request: &RequestId) {
        self.table(|table| {
            table.left.retain(|_, left| {
                left.calls.retain(|call| !same(&call.request, request));
                left.more || !left.calls.is_empty()
            });
        });
        self.0.over.notify_waiters();
    }

    /// The server has answered something after it was told that nobody waits for this request.
    pub(crate) fn acknowledged(&self, request: &RequestId) {
        self.table(|table| {
            let mut left = table.left.values_mut().flat_map(|left| &mut left.calls);
            if let Some(call) = left.find(|call| same(&call.request, request)) {
                call.acknowledged = true;
            }
        });
        self.0.over.notify_waiters();
    }

    /// Waits until no call is in flight.
    pub(crate) async fn idle(&self) {
        loop {
            let mut over = std::pin::pin!(self.0.over.notified());
            over.as_mut().enable();
            if self.table(|table| table.open.is_empty()) {
                return;
            }
            over.await;
        }
    }

    /// The request of the only call in flight.
    pub(crate) fn only_request(&self) -> Option<RequestId> {
        self.table(|table| {
            let mut all = table.open.values();
            all.next().filter(|_| all.next().is_none())?.request.clone()
        })
    }

    fn table<T>(&self, with: impl FnOnce(&mut Table) -> T) -> T {
        with(&mut self.0.table.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn tell(reporters: Vec<Reporter>, method: &str, params: impl FnOnce() -> Option<Json>) {
    if reporters.is_empty() {
        return;
    }
    if let Some(params) = params() {
        for reporter in reporters {
            reporter.overheard(method, params.clone());
        }
    }
}

/// Some servers give numbers back as texts.
fn same(own: &NumberOrString, theirs: &NumberOrString) -> bool {
    own == theirs || own.to_string() == theirs.to_string()
}

#[cfg(test)]
mod tests;
