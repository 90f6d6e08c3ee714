use futures_util::FutureExt as _;

use super::*;

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

/// A call of its own turn.
fn begin(calls: &Calls, name: &str, reporter: Reporter) -> OpenCall {
    calls.begin(&purpose(name, "look"), &reporter)
}

fn purpose(name: &str, tool: &str) -> Purpose {
    Purpose { tenant: tenant(name), turn: TurnId::mint(), tool: tool.to_owned() }
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
    let mut first = begin(&calls, "ann", ann);
    assert!(hears(&calls, &mut to_ann));
    assert!(asks_now(&calls));
    let second = begin(&calls, "bob", bob);
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
    let mut first = begin(&calls, "ann", ann);
    let second = begin(&calls, "bob", bob);
    let question = calls.clone();
    let question = tokio::spawn(async move { question.asker(None).await });
    tokio::task::yield_now().await;
    // One that begins later cannot have asked.
    let third = begin(&calls, "eve", Reporter::default());
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
    let _first = begin(&calls, "ann", ann);
    let token = ProgressToken(NumberOrString::Number(3));
    calls.table(|table| table.open.values_mut().for_each(|open| open.progress = Some(token.clone())));
    assert!(gives_sign(&|| calls.tell_own("notifications/message", news)));
    assert!(!gives_sign(&|| calls.tell_all("notifications/resources/list_changed", news)));
    let _second = begin(&calls, "ann", Reporter::default());
    assert!(!gives_sign(&|| calls.tell_own("notifications/message", news)), "it may be about the other");
    assert!(gives_sign(&|| calls.tell_progress(&token, "notifications/progress", news)));
}

#[tokio::test]
async fn a_call_that_was_left_may_ask_at_any_time() {
    let calls = Calls::default();
    let asks = |name: &str| {
        let (reporter, mut reports) = Reporter::new(4);
        let mut open = begin(&calls, name, reporter);
        open.answered = true;
        (asks_now(&calls), hears(&calls, &mut reports))
    };
    assert_eq!(asks("ann"), (true, true));
    assert_eq!(asks("ann"), (true, true), "the one before was answered");
    drop(begin(&calls, "ann", Reporter::default()));
    assert_eq!(asks("ann"), (true, true), "the one before was never sent");
    let request = RequestId::Number(7);
    let leave = || {
        let left = begin(&calls, "ann", Reporter::default());
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
    let have_left = |name: &str| calls.are_crowded(&purpose(name, "look"));
    assert!(have_left("bob") && !have_left("ann"));
    calls.answered(&request);
    calls.table(|table| table.tenants.clear());
    assert!(!have_left("bob"));
    assert_eq!(asks("bob"), (true, true), "nothing more comes of it");
    for _ in 0..2 * LEFT {
        leave();
    }
    calls.answered(&request);
    assert!(have_left("bob"), "some are not known any more");
}

/// Calls whose questions could not be told apart are made on connections of their own.
#[test]
fn calls_that_ask_are_made_apart() {
    let calls = Calls::default();
    let begin = |name: &str, tool: &str| calls.begin_apart(&purpose(name, tool), &Reporter::default());
    let mut first = begin("ann", "login").expect("nobody else is there");
    assert!(begin("bob", "look").is_none(), "the other may ask");
    assert!(calls.are_crowded(&purpose("bob", "look")) && !calls.are_crowded(&purpose("ann", "look")));
    first.answered = true;
    drop(first);
    // One tool is known to ask nothing, another to ask.
    let quiet = begin("ann", "login").expect("nobody else is there");
    assert!(begin("bob", "login").is_some(), "neither asks");
    calls.0.habits.learn("ask", Habit::Asks);
    assert!(calls.are_crowded(&purpose("ann", "ask")), "also for one's own tenant");
    drop(quiet);
}

/// The question of one of a turn's calls stands until all of them are over.
#[tokio::test]
async fn a_question_among_siblings_outlives_one_of_them() {
    let calls = Calls::default();
    let purpose = purpose("ann", "ask");
    let [first, second] = [(), ()].map(|()| calls.begin(&purpose, &Reporter::default()));
    let asker = calls.asker(None).now_or_never().flatten().expect("it is this turn's");
    drop(first);
    assert!(!asker.over.is_cancelled());
    drop(second);
    assert!(asker.over.is_cancelled());
}

/// Questions of calls that may ask are told apart because such calls begin one after the other; others are not held up.
#[tokio::test(start_paused = true)]
async fn calls_that_may_ask_begin_one_after_the_other() {
    let calls = Calls::new(Habits::default());
    let begin = |name: &str, tool: &str| {
        let (calls, purpose) = (calls.clone(), purpose(name, tool));
        async move {
            let begun = tokio::time::Instant::now();
            let mut open = calls.begin_alone(purpose, Reporter::default()).await;
            open.answered = true;
            (open, begun.elapsed())
        }
    };
    // Nobody knows the tool: the second call begins when the first one has asked.
    let (first, waited) = begin("ann", "login").await;
    assert!(waited.is_zero());
    let second = tokio::spawn(begin("bob", "login"));
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    let of_ann = calls.asker(None).now_or_never().flatten().expect("it can be nobody else's");
    let (second, waited) = second.await.unwrap();
    assert!(waited.is_zero());
    let of_bob = calls.asker(None).now_or_never().flatten().expect("it can be nobody else's");
    drop((of_ann, of_bob, first, second));
    // It asks again, so the next is held up again; one that is silent for long does not hold up others for ever.
    let (third, _) = begin("ann", "login").await;
    let (fourth, waited) = begin("bob", "login").await;
    assert_eq!(waited, ASKS_WITHIN);
    drop((third, fourth));
    // A tool that was answered without a question holds nobody up.
    let (fifth, _) = begin("ann", "look").await;
    drop(fifth);
    let (sixth, _) = begin("ann", "look").await;
    let (seventh, waited) = begin("bob", "look").await;
    assert!(waited.is_zero());
    drop((sixth, seventh));
}
