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

/// For so long after a call a server may still speak of it.
const ECHO: Duration = Duration::from_secs(10);
/// How long a question waits until it is known whose it is.
const PATIENCE: Duration = Duration::from_secs(60);
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
}

#[derive(Debug, Default)]
struct Table {
    last: u64,
    open: HashMap<CallKey, Open>,
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
        if (others > 0 && !is_one_turn) || self.left.get(&first.tenant).is_some_and(Left::may_ask) {
            return Certainty::NotYet;
        }
        let (reporter, over) = (first.reporter.clone(), first.over.clone());
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
    /// Whether a question of it is open.
    asks: bool,
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
            table.tenants.insert(open.tenant.clone(), Instant::now());
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
    /// Begins a call.
    pub(crate) fn open(&self, tenant: TenantId, turn: TurnId, reporter: Reporter) -> OpenCall {
        let key = self.table(|table| {
            table.last += 1;
            let key = CallKey(table.last);
            let open = Open {
                tenant,
                turn,
                asks: false,
                reporter,
                request: None,
                progress: None,
                over: CancellationToken::new(),
            };
            table.open.insert(key, open);
            key
        });
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

    /// Whether others than this tenant have left calls that the server may still speak of.
    pub(crate) fn others_have_left(&self, tenant: &TenantId) -> bool {
        self.table(|table| table.left.keys().any(|other| other != tenant))
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
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        name.parse().unwrap()
    }

    /// Whether a call is told what the server says of no call.
    fn hears(calls: &Calls, reports: &mut tokio::sync::mpsc::Receiver<everturn_tools::Report>) -> bool {
        calls.tell_own("notifications/message", || Some(Json::empty_object()));
        reports.try_recv().is_ok()
    }

    #[tokio::test]
    async fn nobody_hears_what_may_be_of_another_tenant() {
        let calls = Calls::default();
        let ((ann, mut to_ann), (bob, mut to_bob)) = (Reporter::new(4), Reporter::new(4));
        let mut first = calls.open(tenant("ann"), TurnId::mint(), ann);
        assert!(hears(&calls, &mut to_ann));
        assert!(asks_now(&calls));
        let second = calls.open(tenant("bob"), TurnId::mint(), bob);
        assert!(!hears(&calls, &mut to_ann) && !hears(&calls, &mut to_bob));
        assert!(!asks_now(&calls));
        // Answered: the server may still say something about it, but it asks no more.
        first.answered = true;
        drop(first);
        assert!(!hears(&calls, &mut to_bob) && asks_now(&calls));
        drop(second);
    }

    /// Whether a question that names no call is known at once to be of one.
    fn asks_now(calls: &Calls) -> bool {
        calls.asker(None).now_or_never().flatten().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_waits_until_the_other_calls_are_answered() {
        let calls = Calls::default();
        let ((ann, _to_ann), (bob, mut to_bob)) = (Reporter::new(4), Reporter::new(4));
        let mut first = calls.open(tenant("ann"), TurnId::mint(), ann);
        let second = calls.open(tenant("bob"), TurnId::mint(), bob);
        let question = calls.clone();
        let question = tokio::spawn(async move { question.asker(None).await });
        tokio::task::yield_now().await;
        // One that begins later cannot have asked.
        let third = calls.open(tenant("eve"), TurnId::mint(), Reporter::default());
        first.answered = true;
        drop(first);
        let asker = question.await.unwrap().unwrap();
        asker.reporter.notify("notifications/message", Json::empty_object());
        assert!(to_bob.try_recv().is_ok(), "the only call that was in flight and has no answer");
        drop(asker);
        // Two that never end: nobody is asked.
        assert!(calls.asker(None).await.is_none());
        drop((second, third));
    }

    #[test]
    fn what_must_be_about_a_call_is_a_sign_of_its_life() {
        let calls = Calls::default();
        let (ann, _to_ann) = Reporter::new(4);
        let life = ann.life();
        let gives_sign = |tell: &dyn Fn()| {
            let before = life.last();
            tell();
            life.last() > before
        };
        let news = || Some(Json::empty_object());
        let _first = calls.open(tenant("ann"), TurnId::mint(), ann);
        let token = ProgressToken(NumberOrString::Number(3));
        calls.table(|table| table.open.values_mut().for_each(|open| open.progress = Some(token.clone())));
        assert!(gives_sign(&|| calls.tell_own("notifications/message", news)));
        assert!(!gives_sign(&|| calls.tell_all("notifications/resources/list_changed", news)));
        let _second = calls.open(tenant("ann"), TurnId::mint(), Reporter::default());
        assert!(!gives_sign(&|| calls.tell_own("notifications/message", news)), "it may be about the other");
        assert!(gives_sign(&|| calls.tell_progress(&token, "notifications/progress", news)));
    }

    #[tokio::test]
    async fn a_call_that_was_left_may_ask_at_any_time() {
        let calls = Calls::default();
        let asks = |name: &str| {
            let (reporter, mut reports) = Reporter::new(4);
            let mut open = calls.open(tenant(name), TurnId::mint(), reporter);
            open.answered = true;
            (asks_now(&calls), hears(&calls, &mut reports))
        };
        assert_eq!(asks("ann"), (true, true));
        assert_eq!(asks("ann"), (true, true), "the one before was answered");
        drop(calls.open(tenant("ann"), TurnId::mint(), Reporter::default()));
        assert_eq!(asks("ann"), (true, true), "the one before was never sent");
        let request = RequestId::Number(7);
        let leave = || {
            let left = calls.open(tenant("ann"), TurnId::mint(), Reporter::default());
            calls.table(|table| table.open.values_mut().for_each(|open| open.request = Some(request.clone())));
            drop(left);
        };
        leave();
        // Of the same tenant: its news may be shown, its questions belong to another conversation.
        assert_eq!(asks("ann"), (false, true));
        calls.acknowledged(&request);
        assert_eq!(asks("ann"), (true, true), "the server knows that nobody waits for it");
        calls.table(|table| table.tenants.clear());
        assert_eq!(asks("bob"), (false, false), "however long ago");
        assert!(calls.others_have_left(&tenant("bob")) && !calls.others_have_left(&tenant("ann")));
        calls.answered(&request);
        calls.table(|table| table.tenants.clear());
        assert!(!calls.others_have_left(&tenant("bob")));
        assert_eq!(asks("bob"), (true, true), "nothing more comes of it");
        for _ in 0..2 * LEFT {
            leave();
        }
        calls.answered(&request);
        assert!(calls.others_have_left(&tenant("bob")), "some are not known any more");
    }
}
