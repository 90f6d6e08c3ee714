//! How fast the SQLite store commits and reads on this machine.
//!
//! `cargo run --release -p everturn-store --example commit_rate [directory]`

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use everturn_core::{
    Event, Message, ModelOptions, Outcome, Segment, SegmentBuilder, SessionConfig, SessionId, TenantId, Timestamp,
    TurnId, Usage,
};
use everturn_store::{
    Append, BeginTurn, Command, Durability, NodeId, Rest, SqliteStore, Start, Store, StoreError, TurnStatus,
    UsageCount, UsageRow, UsageSlot, Write,
};

const RUN: Duration = Duration::from_secs(2);

type Failure = Box<dyn std::error::Error>;

fn segment(first_seq: u64, count: u64) -> Segment {
    let mut builder = SegmentBuilder::new(first_seq);
    for _ in 0..count {
        builder.push(Timestamp::now(), &Event::TextDelta("a word or two ".to_owned()));
    }
    builder.take()
}

fn begin(turn: &TurnId) -> Command {
    begin_in(&SessionId::mint(), None, turn)
}

fn begin_in(session: &SessionId, expected_version: Option<u64>, turn: &TurnId) -> Command {
    Command::BeginTurn(Box::new(BeginTurn {
        tenant: TenantId::local(),
        session: session.clone(),
        expected_version,
        config: SessionConfig { agent: "demo".to_owned(), ..SessionConfig::default() },
        supersedes: None,
        turn: turn.clone(),
        start: Start::Now(NodeId("bench".to_owned())),
        segment: segment(1, 2),
        messages: vec![Message::user("Tell me something.")],
        begins_history: false,
        by: None,
        options: ModelOptions::default(),
        writes: Vec::new(),
        key: None,
        at: Timestamp::now(),
    }))
}

fn append(turn: &TurnId, segment: Segment, rest: Option<Rest>) -> Command {
    Command::Append(Append { turn: turn.clone(), epoch: 1, segment, rest, writes: Vec::new(), at: Timestamp::now() })
}

fn rest() -> Rest {
    Rest {
        status: TurnStatus::Ended(Outcome::Completed),
        keeps: 0,
        messages: vec![Message::user("Tell me something."), Message::assistant("a word or two ".repeat(20))],
        usage: Usage::of(10, 20),
        compaction: None,
    }
}

async fn commit(store: &SqliteStore, batch: Vec<Command>) -> Result<(), Failure> {
    for verdict in store.commit(Arc::new(batch)).await? {
        verdict?;
    }
    Ok(())
}

/// Commits of `turns` turns with `events` events each.
async fn appends(store: &SqliteStore, turns: usize, events: u64) -> Result<(), Failure> {
    let names: Vec<TurnId> = (0..turns).map(|_| TurnId::mint()).collect();
    commit(store, names.iter().map(begin).collect()).await?;
    let mut head = 2;
    let mut times = Vec::new();
    let started = Instant::now();
    while started.elapsed() < RUN {
        let batch = names.iter().map(|turn| append(turn, segment(head + 1, events), None)).collect();
        let before = Instant::now();
        commit(store, batch).await?;
        times.push(before.elapsed());
        head += events;
    }
    let seconds = started.elapsed().as_secs_f64();
    let commits = times.len() as f64;
    times.sort();
    println!(
        "{turns:>5} turns × {events:>3} events: {:>7.0} commits/s {:>10.0} events/s   p50 {:>8.2?}  p99 {:>8.2?}  max {:>8.2?}",
        commits / seconds,
        commits * turns as f64 * events as f64 / seconds,
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times[times.len() - 1],
    );
    commit(store, names.iter().map(|turn| append(turn, segment(head + 1, 1), Some(rest()))).collect()).await
}

/// The command of a turn, with what it counts as used.
fn counting(mut command: Command, turns: u64, calls: u64) -> Command {
    let slot = UsageSlot {
        day: Timestamp::now().day(),
        agent: "demo".to_owned(),
        model: "provider/model".to_owned(),
        key: None,
    };
    let count = UsageCount { turns, calls, tokens: Usage::of(10 * calls, 20 * calls) };
    let used = Write::Usage(UsageRow { slot, count });
    match &mut command {
        Command::BeginTurn(begin) => begin.writes.push(used),
        Command::Append(append) => append.writes.push(used),
        _ => {}
    }
    command
}

/// Turns that begin in one commit and end in the next, `turns` at a time.
async fn short_turns(store: &SqliteStore, turns: usize, counts: bool) -> Result<(), Failure> {
    let mut count = 0;
    let mut committing = Duration::ZERO;
    let started = Instant::now();
    while started.elapsed() < RUN {
        let names: Vec<TurnId> = (0..turns).map(|_| TurnId::mint()).collect();
        let begins = names.iter().map(begin);
        let ends = names.iter().map(|turn| append(turn, segment(3, 22), Some(rest())));
        let (begins, ends) = if counts {
            (begins.map(|begin| counting(begin, 1, 0)).collect(), ends.map(|end| counting(end, 0, 1)).collect())
        } else {
            (begins.collect(), ends.collect())
        };
        let before = Instant::now();
        commit(store, begins).await?;
        commit(store, ends).await?;
        committing += before.elapsed();
        count += turns;
    }
    println!(
        "{turns:>5} short turns a batch: {:>7.0} turns/s   {:>8.2?} per turn in commits{}",
        count as f64 / started.elapsed().as_secs_f64(),
        committing / u32::try_from(count)?,
        if counts { ", usage counted" } else { "" },
    );
    Ok(())
}

/// Turns that begin in one commit and end in the next, each in a session that has many.
async fn next_turns(store: &SqliteStore, sessions: usize) -> Result<(), Failure> {
    let names: Vec<SessionId> = (0..sessions).map(|_| SessionId::mint()).collect();
    let (mut count, mut version) = (0, None);
    let mut committing = Duration::ZERO;
    let started = Instant::now();
    while started.elapsed() < RUN {
        let turns: Vec<TurnId> = names.iter().map(|_| TurnId::mint()).collect();
        let (begins, ends) = (
            names.iter().zip(&turns).map(|(session, turn)| begin_in(session, version, turn)).collect(),
            turns.iter().map(|turn| append(turn, segment(3, 22), Some(rest()))).collect(),
        );
        let before = Instant::now();
        commit(store, begins).await?;
        commit(store, ends).await?;
        committing += before.elapsed();
        count += sessions;
        version = Some(version.unwrap_or(0) + 2);
    }
    println!(
        "{sessions:>5} sessions with many: {:>7.0} turns/s   {:>8.2?} per turn in commits",
        count as f64 / started.elapsed().as_secs_f64(),
        committing / u32::try_from(count)?,
    );
    Ok(())
}

/// One long turn, read whole.
async fn replay(store: &SqliteStore) -> Result<(), Failure> {
    const EVENTS: u64 = 100_000;
    let turn = TurnId::mint();
    commit(store, vec![begin(&turn)]).await?;
    for first in (3..EVENTS).step_by(100) {
        commit(store, vec![append(&turn, segment(first, 100), None)]).await?;
    }
    let running = read(store, &turn).await?;
    let head = store.read(&turn, EVENTS - 50, 1).await?.last().map_or(0, Segment::last_seq);
    let before = Instant::now();
    commit(store, vec![append(&turn, segment(head + 1, 1), Some(rest()))]).await?;
    println!(
        "read of {EVENTS} events: {running:.0} events/s running, {:.0} events/s at rest; the rest itself took {:.2?}",
        read(store, &turn).await?,
        before.elapsed(),
    );
    Ok(())
}

async fn read(store: &SqliteStore, turn: &TurnId) -> Result<f64, StoreError> {
    let mut seq = 0;
    let before = Instant::now();
    while let Some(last) = store.read(turn, seq, 64 * 1024).await?.last() {
        seq = last.last_seq();
    }
    Ok(seq as f64 / before.elapsed().as_secs_f64())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(directory)?;
    for durability in [Durability::Fsync, Durability::Process] {
        println!("durability {durability:?}");
        let store = SqliteStore::open(directory.path().join(format!("{durability:?}.db")), durability)?;
        for turns in [1, 50, 500] {
            for events in [1, 100] {
                appends(&store, turns, events).await?;
            }
        }
        for turns in [1, 50, 500] {
            for counts in [false, true] {
                short_turns(&store, turns, counts).await?;
            }
        }
        for sessions in [1, 50, 500] {
            next_turns(&store, sessions).await?;
        }
        replay(&store).await?;
        store.close().await;
    }
    Ok(())
}
