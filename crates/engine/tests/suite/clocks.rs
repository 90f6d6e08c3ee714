//! Wall clocks that jump: waits last as long as they should, and nothing is deleted at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use everturn_core::{Event, Timestamp};
use everturn_engine::{Clock, Started};
use everturn_models::ModelErrorKind::RateLimited;
use tokio::time::Instant;

use super::harness::*;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const WAIT: &str = r#"{"seconds": 20}"#;

/// The clock of the paused runtime, and a wall clock that is set at will.
#[derive(Debug)]
pub(super) struct Clocks {
    begun: Instant,
    /// What the wall clock is ahead, in milliseconds.
    ahead: AtomicI64,
}

impl Clocks {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), ahead: AtomicI64::new(Timestamp::now().millis()) })
    }

    fn jump(&self, seconds: i64) {
        self.ahead.fetch_add(seconds * 1000, Ordering::Relaxed);
    }
}

impl Clock for Clocks {
    fn wall(&self) -> Timestamp {
        let passed = i64::try_from(self.begun.elapsed().as_millis()).unwrap();
        Timestamp(self.ahead.load(Ordering::Relaxed) + passed)
    }

    fn steady(&self) -> Duration {
        Duration::from_secs(7) + self.begun.elapsed()
    }
}

pub(super) fn with_clock(setup: Setup, clock: &Arc<Clocks>) -> Setup {
    let clock = Arc::clone(clock);
    setup.settings(|settings| settings.clock = clock)
}

fn waits(input: &str) -> Setup {
    Setup::new([vec![call("wait", input), stop()], vec![say("Time is up."), stop()]]).builtin("wait")
}

/// Begins a turn that waits. Tells when it came to rest.
async fn waiting(world: &World) -> (Started, Instant) {
    let started = world.begin("later").await;
    let transcript = world.transcript(&started).await;
    assert!(transcript.contains("waiting"), "{transcript}");
    (started, Instant::now())
}

/// How many seconds pass until the turn is over.
async fn lasts(world: &World, (started, since): (Started, Instant)) -> u64 {
    let end = world.end_of(&started.turn).await;
    assert!(end.ends_with("completed\n"), "{end}");
    since.elapsed().as_secs_f64().round() as u64
}

#[tokio::test(start_paused = true)]
async fn a_wait_lasts_as_long_as_it_says_whatever_the_wall_clock_does() {
    for jumps in [vec![], vec![DAY], vec![-DAY], vec![DAY, -2 * DAY], vec![19], vec![-HOUR, HOUR]] {
        let clock = Clocks::new();
        let world = World::start(with_clock(waits(WAIT), &clock)).await;
        let wait = waiting(&world).await;
        for jump in &jumps {
            clock.jump(*jump);
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        assert_eq!(lasts(&world, wait).await, 20, "{jumps:?}");
    }
}

/// Its times are stored as the wall clock has them now, so that a restart finds them right.
#[tokio::test(start_paused = true)]
async fn a_wait_that_begins_after_a_jump() {
    for jump in [DAY, -DAY] {
        let clock = Clocks::new();
        let world = World::start(with_clock(waits(WAIT), &clock)).await;
        clock.jump(jump);
        let wait = waiting(&world).await;
        let set = world.log().await.into_iter().find_map(|(_, event)| match event {
            Event::TimerSet { wake_at, .. } => Some(wake_at.millis() - clock.wall().millis()),
            _ => None,
        });
        assert!(set.is_some_and(|ahead| (19_000..=20_000).contains(&ahead)), "{set:?}");
        clock.jump(-jump);
        assert_eq!(lasts(&world, wait).await, 20, "{jump}");
    }
}

#[tokio::test(start_paused = true)]
async fn turns_of_several_timelines_wait_beside_each_other() {
    let model = ScriptedModel::thinking("test/one", |request| match request.messages.last() {
        Some(everturn_core::Message::Tool { .. }) => vec![say("Time is up."), stop()],
        _ => vec![call("wait", WAIT), stop()],
    });
    let clock = Clocks::new();
    let world = World::start(with_clock(Setup::with_models([model]).builtin("wait"), &clock)).await;
    let mut waits = Vec::new();
    for jump in [0, DAY, -3 * DAY, DAY] {
        clock.jump(jump);
        world.new_session();
        waits.push(waiting(&world).await);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    for (started, since) in waits {
        *world.session_in_view() = Some(started.session.clone());
        assert!(world.end_of(&started.turn).await.ends_with("completed\n"));
        // It may have ended before those that were looked at earlier.
        assert!(since.elapsed() >= Duration::from_secs(20), "{:?}", since.elapsed());
        assert!(since.elapsed() < Duration::from_secs(28), "{:?}", since.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_for_a_rate_limit_lasts_as_long_as_the_provider_says() {
    for jump in [DAY, -DAY] {
        let clock = Clocks::new();
        let script = vec![fail_after(RateLimited, Duration::from_secs(60))];
        let setup = Setup::new([script, vec![say("Now."), stop()]]);
        let world = World::start(with_clock(setup, &clock)).await;
        let pause = waiting(&world).await;
        clock.jump(jump);
        assert_eq!(lasts(&world, pause).await, 60, "{jump}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_form_expires_after_its_time_and_not_by_a_jump() {
    let form = r#"{"kind": "clarify", "title": "Which?", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}"#;
    let setup = Setup::new([vec![call("request_form", form), stop()], vec![say("Nobody."), stop()]]);
    let setup = setup.builtin("request_form").settings(|settings| settings.form_expiry = Some(Duration::from_secs(60)));
    let clock = Clocks::new();
    let world = World::start(with_clock(setup, &clock)).await;
    let form = waiting(&world).await;
    clock.jump(DAY);
    assert_eq!(lasts(&world, form).await, 60);
}

/// A time of day is the wall clock's business.
#[tokio::test(start_paused = true)]
async fn a_wait_until_a_time_of_day_follows_the_wall_clock() {
    let clock = Clocks::new();
    let in_an_hour = jiff::Timestamp::from_millisecond(clock.wall().millis() + HOUR * 1000).unwrap();
    let world = World::start(with_clock(waits(&format!(r#"{{"until": "{in_an_hour}"}}"#)), &clock)).await;
    let wait = waiting(&world).await;
    clock.jump(HOUR - 60);
    assert_eq!(lasts(&world, wait).await, 60);
}

/// After a restart the wall clock is all there is.
#[tokio::test(start_paused = true)]
async fn after_a_restart_the_wall_clock_counts() {
    let clock = Clocks::new();
    let world = World::start(with_clock(waits(r#"{"seconds": 3660}"#), &clock)).await;
    let wait = waiting(&world).await;
    clock.jump(HOUR);
    let world = world.restart().await;
    assert_eq!(lasts(&world, wait).await, 60);
}

/// Sessions that are kept for thirty days, looked at every ten minutes.
fn retains(clock: &Arc<Clocks>) -> Setup {
    let setup = Setup::new([vec![say("Hello."), stop()]]);
    with_clock(setup, clock).settings(|settings| settings.retention.sessions = Some(Duration::from_secs(30 * 86_400)))
}

/// How many hours pass until the session is gone; a hundred at most.
async fn deleted_after(world: &World) -> Option<u64> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(100 * 3600) {
        if world.engine.session(&world.tenant, &world.session()).await.unwrap().is_none() {
            return Some(begun.elapsed().as_secs().div_ceil(3600));
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_jump_ahead_deletes_nothing_at_once() {
    let clock = Clocks::new();
    let world = World::start(retains(&clock)).await;
    world.act(Act::User("hi")).await;
    tokio::time::sleep(Duration::from_secs(5 * 3600)).await;
    clock.jump(365 * DAY);
    tokio::time::sleep(Duration::from_secs(3000)).await;
    assert!(world.engine.session(&world.tenant, &world.session()).await.unwrap().is_some(), "within the grace");
    clock.jump(-365 * DAY);
    assert_eq!(deleted_after(&world).await, None, "the clock was set right in time");
    clock.jump(365 * DAY);
    tokio::time::sleep(Duration::from_secs(29 * 86_400)).await;
    assert_eq!(deleted_after(&world).await, Some(25), "after thirty days by the steady clock");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_at_the_start_deletes_nothing_at_once() {
    let clock = Clocks::new();
    let world = World::start(retains(&clock)).await;
    world.act(Act::User("hi")).await;
    clock.jump(365 * DAY);
    let session = world.session();
    let world = world.restart_in(session).await;
    tokio::time::sleep(Duration::from_secs(3500)).await;
    assert!(world.engine.session(&world.tenant, &world.session()).await.unwrap().is_some(), "within the grace");
    assert_eq!(deleted_after(&world).await, Some(1));
}

/// What is kept for a minute waits for a minute, not for the whole grace.
#[tokio::test(start_paused = true)]
async fn short_times_have_a_short_grace() {
    let clock = Clocks::new();
    let setup = retains(&clock).settings(|settings| {
        settings.retention.sessions = Some(Duration::from_secs(60));
        settings.retention.interval = Duration::from_secs(10);
    });
    let world = World::start(setup).await;
    let begun = Instant::now();
    world.act(Act::User("hi")).await;
    assert_eq!(deleted_after(&world).await, Some(1));
    assert!(begun.elapsed() <= Duration::from_secs(180), "{:?}", begun.elapsed());
}
