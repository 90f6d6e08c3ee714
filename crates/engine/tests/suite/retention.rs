//! Retention: what has been kept long enough is cleared away, and what is left still tells how it went.

use std::time::Duration;

use everturn_core::{Event, Outcome, Phase, Timestamp, TurnState};
use everturn_engine::{Cursor, Retention, Started};
use everturn_store::{RecordFilter, RecordKind, Store as _};
use expect_test::expect;

use super::harness::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The time so many days from now.
fn in_days(days: i64) -> Timestamp {
    Timestamp(Timestamp::now().millis() + days * 24 * 3600 * 1000)
}

fn keeps(setup: Setup, change: impl FnOnce(&mut Retention)) -> Setup {
    setup.settings(|settings| change(&mut settings.retention))
}

/// A turn with everything in it.
fn eventful() -> Setup {
    let poem = r#"{"title":"Poem","type":"text","content":"Roses"}"#;
    let mut writing = vec![think("Hm"), think("m."), say("I "), say("write."), call_begins(0, "create_artifact")];
    writing.extend([input(0, &poem[..poem.len() - 4]), input(0, &poem[poem.len() - 4..])]);
    writing.extend([call_ends(0, "create_artifact", poem), call("weather", "{}"), stop()]);
    Setup::new([writing, vec![say("All "), say("done."), stop()], vec![say("Next."), stop()]])
        .builtin("create_artifact")
}

/// An eventful turn that is over.
async fn ended(setup: Setup) -> (World, Started) {
    let world = World::start(setup).await;
    let started = world.begin("go").await;
    world.transcript(&started).await;
    world.act(Act::Answers(vec![result("c2", "sun")])).await;
    (world, started)
}

fn folded(log: &[(u64, Event)]) -> TurnState {
    let mut state = TurnState::default();
    log.iter().for_each(|(seq, event)| state.apply(*seq, event));
    state
}

async fn read_from(world: &World, started: &Started, cursor: Cursor) -> Vec<Frame> {
    match world.read_turn(&world.tenant, &started.session, &started.turn, &PATIENT, cursor).await.unwrap() {
        Some(mut reader) => read_all(&mut reader).await,
        None => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn deltas_go_and_the_turn_replays_to_the_same_end() {
    let (world, started) = ended(keeps(eventful(), |retention| retention.deltas = Some(7 * DAY))).await;
    let before = world.log_of(&started.turn).await;
    let cursors: Vec<_> = read_from(&world, &started, Cursor::default()).await.iter().map(|f| f.cursor).collect();
    world.clear_once(in_days(6)).await.unwrap();
    assert_eq!(world.log_of(&started.turn).await, before, "not yet");
    world.clear_once(in_days(8)).await.unwrap();
    let after = world.log_of(&started.turn).await;
    expect![[r#"
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 4 events dropped
        7 artifact a1 version 1, text "Poem"
        8 2 events dropped
        10 call c1 create_artifact{"title":"Poem","type":"text","content":"Roses"} (inline)
        11 call c2 weather{} (client)
        12 step finished: ToolUse, 100+10 tokens: [thinking "Hmm.", "I write.", c1 create_artifact{"title":"Poem","type":"text","content":"Roses"}, c2 weather{}]
        13 intent c1 as e1 (Idempotent)
        14 artifact a1 version 1 kept, text/plain; charset=utf-8: "Poem"
        15 result c1: "Kept as artifact a1, version 1."
        16 waiting for result of c2 weather
        17 resumed: c2 gave "sun"
        18 step 2 with test/one
        19 2 events dropped
        21 step finished: Stop, 100+10 tokens: "All done."
        22 ended, 200+20 tokens: completed, a1 version 1
    "#]]
    .assert_eq(&world.lines(&after));
    assert_eq!(folded(&after), folded(&before), "a log without its deltas folds to the same state");
    let told = |event: &Event| matches!(event, Event::StepFinished(finished) if finished.deltas_dropped);
    assert_eq!(after.iter().filter(|(_, event)| told(event)).count(), 2, "that the deltas are gone is said");
    check_session(&world.store, &world.engine, &world.tenant, &world.session()).await;
    // Every cursor that a reader was given before still means the same: what comes after it.
    let all = all_frames(&world.store, &started.session, &started.turn).await;
    assert_eq!(read_from(&world, &started, Cursor::default()).await, all);
    for cursor in cursors {
        let seen = read_from(&world, &started, cursor).await;
        assert!(all.ends_with(&seen), "after {cursor:?}");
        assert!(seen.iter().all(|frame| (frame.cursor.seq, frame.cursor.part) > (cursor.seq, cursor.part)));
        let missed = all.iter().filter(|frame| frame.cursor.seq > cursor.seq).count();
        assert!(seen.len() >= missed, "after {cursor:?} {missed} frames were to be seen");
    }
    // Once is enough, and the session goes on as ever.
    world.clear_once(in_days(9)).await.unwrap();
    assert_eq!(world.log_of(&started.turn).await, after);
    assert!(world.act(Act::User("and?")).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn logs_go_but_for_their_ends() {
    let (world, started) = ended(keeps(eventful(), |retention| {
        retention.deltas = Some(DAY);
        retention.logs = Some(7 * DAY);
    }))
    .await;
    let before = world.log_of(&started.turn).await;
    let history = world.act(Act::History).await;
    world.clear_once(in_days(2)).await.unwrap();
    assert!(world.log_of(&started.turn).await.len() > 3);
    world.clear_once(in_days(8)).await.unwrap();
    let after = world.log_of(&started.turn).await;
    expect![[r#"
        1 turn started in a new session: user: "go"
        2 19 events dropped
        21 step finished: Stop, 100+10 tokens: "All done."
        22 ended, 200+20 tokens: completed, a1 version 1
    "#]]
    .assert_eq(&world.lines(&after));
    let (short, whole) = (folded(&after), folded(&before));
    assert_eq!((short.head, &short.phase), (whole.head, &whole.phase));
    let Phase::Ended(end) = &short.phase else { panic!("{short:?}") };
    assert_eq!((&end.outcome, end.response.as_str(), end.artifacts.len()), (&Outcome::Completed, "All done.", 1));
    // Messages stay.
    assert_eq!(world.act(Act::History).await, history);
    let frames = read_from(&world, &started, Cursor::default()).await;
    assert_eq!(frames.iter().map(|frame| frame.cursor.seq).collect::<Vec<_>>(), [1, 20, 21, 21, 21, 22, 22]);
    assert_eq!(read_from(&world, &started, Cursor::after(10)).await, frames[1..], "what was dropped is said to be");
    assert_eq!(read_from(&world, &started, Cursor::after(20)).await, frames[2..]);
    // And the conversation goes on as if nothing had happened.
    let next = world.begin("and?").await;
    assert!(world.lines(&leg_of(&world.engine, &next).await).ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_over_is_not_touched() {
    let setup = keeps(eventful(), |retention| {
        retention.deltas = Some(DAY);
        retention.logs = Some(DAY);
        retention.sessions = Some(DAY);
    });
    let world = World::start(setup).await;
    let started = world.begin("go").await;
    world.transcript(&started).await;
    let queued = world.enqueue("later").await;
    let before = world.log_of(&started.turn).await;
    world.clear_once(in_days(100)).await.unwrap();
    assert_eq!(world.log_of(&started.turn).await, before);
    world.submit(world.answers(vec![result("c2", "sun")])).await.unwrap();
    assert!(world.end_of(&queued.turn).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn artifacts_go_and_the_turn_still_tells_of_them() {
    let (world, started) = ended(keeps(eventful(), |retention| retention.artifacts = Some(7 * DAY))).await;
    let id = world.artifacts(&world.tenant, None, None, 10).await.unwrap().remove(0).id;
    world.clear_once(in_days(6)).await.unwrap();
    assert!(world.artifact(&world.tenant, &id).await.unwrap().is_some());
    world.clear_once(in_days(8)).await.unwrap();
    assert!(world.artifact(&world.tenant, &id).await.unwrap().is_none());
    assert_eq!(world.artifact_content(&world.tenant, &id, 1).await, Ok(None));
    let log = world.log_of(&started.turn).await;
    assert!(world.lines(&log).contains("artifact a1 version 1 kept"));
}

#[tokio::test(start_paused = true)]
async fn sessions_in_which_nothing_happens_go() {
    let setup = keeps(eventful(), |retention| retention.sessions = Some(7 * DAY));
    let (world, _) = ended(setup).await;
    let idle = world.session();
    world.clear_once(in_days(6)).await.unwrap();
    assert!(world.engine.session(&world.tenant, &idle).await.unwrap().is_some());
    world.clear_once(in_days(8)).await.unwrap();
    assert_eq!(world.engine.session(&world.tenant, &idle).await, Ok(None));
    let all = RecordFilter::default();
    assert_eq!(world.store.records(&world.tenant, RecordKind::Artifact, &all, None, 10).await, Ok(vec![]));
}

/// There is more than fits into one look.
#[tokio::test(start_paused = true)]
async fn all_of_it_goes_however_much_there_is() {
    let model = ScriptedModel::thinking("test/one", |_| vec![say("Yes"), say("."), stop()]);
    let setup = keeps(Setup::with_models([model]), |retention| {
        retention.deltas = Some(DAY);
        retention.sessions = Some(30 * DAY);
    });
    let world = World::start(setup).await;
    let mut turns = Vec::new();
    for number in 0..120 {
        world.new_session();
        let started = world.begin(&format!("message {number}")).await;
        world.transcript(&started).await;
        turns.push(started.turn);
    }
    world.clear_once(in_days(2)).await.unwrap();
    for turn in &turns {
        let log = world.log_of(turn).await;
        assert!(log.iter().any(|(_, event)| matches!(event, Event::Dropped { count: 2 })), "{log:?}");
    }
    world.clear_once(in_days(31)).await.unwrap();
    assert_eq!(world.sessions(&world.tenant, None, 1000).await, Ok(vec![]));
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_unless_it_is_said() {
    let (world, started) = ended(eventful()).await;
    let before = world.log_of(&started.turn).await;
    world.clear_once(in_days(10_000)).await.unwrap();
    assert_eq!(world.log_of(&started.turn).await, before);
    assert_eq!(world.artifacts(&world.tenant, None, None, 10).await.unwrap().len(), 1);
}

/// The server does it by itself, from time to time.
#[tokio::test]
async fn it_is_done_without_being_asked_for() {
    let setup = keeps(eventful(), |retention| {
        retention.deltas = Some(Duration::ZERO);
        retention.interval = Duration::from_millis(5);
    });
    let (world, started) = ended(setup).await;
    until(async || !world.log_of(&started.turn).await.iter().any(|(_, event)| matches!(event, Event::TextDelta(_))))
        .await;
    check_session(&world.store, &world.engine, &world.tenant, &world.session()).await;
}

/// A crash in the middle leaves the old log or the new one.
#[tokio::test(start_paused = true)]
async fn a_crash_in_the_middle_does_no_harm() {
    for kept in [false, true] {
        let (world, started) = ended(keeps(eventful(), |retention| retention.deltas = Some(DAY))).await;
        let before = world.log_of(&started.turn).await;
        let dying = CrashStore::new(world.store.clone(), Some(Death { commit: 1, kept }));
        let engine = world.setup.start(dying.clone()).await.unwrap();
        tokio::select! {
            cleared = engine.clear_once(in_days(2)) => panic!("{cleared:?}"),
            () = dying.dead() => {}
        }
        let world = world.restart().await;
        let after = world.log_of(&started.turn).await;
        assert_eq!(after == before, !kept);
        assert_eq!(folded(&after), folded(&before));
        world.clear_once(in_days(2)).await.unwrap();
        assert!(world.log_of(&started.turn).await.len() < before.len());
        check_session(&world.store, &world.engine, &world.tenant, &world.session()).await;
    }
}

/// What cannot be read stays, and keeps nothing else from being cleared away.
#[tokio::test(start_paused = true)]
async fn a_damaged_log_does_not_end_retention() {
    let setup = Setup::new((0..3).map(|_| vec![say("So "), say("it is."), stop()]));
    let world = World::start(keeps(setup, |retention| retention.deltas = Some(7 * DAY))).await;
    let mut turns = Vec::new();
    for _ in 0..3 {
        let started = world.begin("go").await;
        world.transcript(&started).await;
        turns.push(started.turn);
    }
    let whole = world.log_of(&turns[0]).await;
    world.store.faults().damage(&turns[1]);
    world.clear_once(in_days(8)).await.unwrap();
    let (first, last) = (world.log_of(&turns[0]).await, world.log_of(&turns[2]).await);
    assert!(first.len() < whole.len() && last.len() == first.len(), "{first:?} {last:?}");
}
