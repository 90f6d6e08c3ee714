//! A process that is killed in the middle of its commits.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
    sync::Arc,
};

use everturn_core::{
    Event, Json, Message, ModelOptions, Outcome, Segment, SegmentBuilder, SessionConfig, SessionId, TenantId,
    Timestamp, TurnId, Usage,
};
use everturn_store::{
    Append, BeginTurn, Command, Durability, NodeId, Record, RecordKind, Rest, SqliteStore, Start, Store, TurnStatus,
    Write,
};

use super::child;

const TURNS: usize = 5;

fn segment(first_seq: u64, count: u64) -> Segment {
    let mut builder = SegmentBuilder::new(first_seq);
    (first_seq..first_seq + count)
        .for_each(|seq| builder.push(Timestamp(1), &Event::TextDelta(format!("event {seq}"))));
    builder.take()
}

/// A record that says how far its turn is. Written with the events, so it must never say anything else.
fn progress(turn: &TurnId, head: u64) -> Vec<Write> {
    vec![Write::Record(Record {
        kind: RecordKind::Artifact,
        id: turn.to_string(),
        session: None,
        turn: Some(turn.clone()),
        state: "growing".to_owned(),
        body: Json::of(&head).unwrap(),
        outcome: None,
    })]
}

/// The child: several turns at a time, ended and begun anew; tells what was acknowledged. Does nothing by itself.
#[tokio::test]
async fn writes_until_it_is_killed() {
    let Some(path) = child::path() else { return };
    let store = SqliteStore::open(path, Durability::Fsync).unwrap();
    let mut turns: Vec<(TurnId, u64)> = Vec::new();
    for round in 1_u64.. {
        let mut batch = Vec::new();
        for (index, (turn, head)) in turns.iter_mut().enumerate() {
            let count = 1 + (round + index as u64) % 4;
            let ends = (round + index as u64).is_multiple_of(7);
            let rest = Rest {
                status: TurnStatus::Ended(Outcome::Completed),
                keeps: 0,
                messages: vec![Message::assistant("done")],
                usage: Usage::of(1, 1),
                compaction: None,
            };
            batch.push(Command::Append(Append {
                turn: turn.clone(),
                epoch: 1,
                segment: segment(*head + 1, count),
                rest: ends.then_some(rest),
                writes: progress(turn, *head + count),
                at: Timestamp(2),
            }));
            *head += count;
        }
        while turns.len() < TURNS {
            let turn = TurnId::mint();
            batch.push(Command::BeginTurn(Box::new(BeginTurn {
                tenant: TenantId::local(),
                session: SessionId::mint(),
                expected_version: None,
                config: SessionConfig::default(),
                supersedes: None,
                turn: turn.clone(),
                start: Start::Now(NodeId("child".to_owned())),
                segment: segment(1, 2),
                messages: vec![Message::user("hello")],
                begins_history: false,
                by: None,
                options: ModelOptions::default(),
                writes: progress(&turn, 2),
                key: None,
                at: Timestamp(1),
            })));
            turns.push((turn, 2));
        }
        let batch = Arc::new(batch);
        let verdicts = store.commit(Arc::clone(&batch)).await.unwrap();
        assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
        let mut told = String::new();
        for (turn, head) in &turns {
            told += &format!("ack {turn} {head}\n");
        }
        println!("{told}commit {round}");
        let is_over = |command: &Command, name: &TurnId| matches!(command, Command::Append(append) if append.turn == *name && append.rest.is_some());
        turns.retain(|(turn, _)| !batch.iter().any(|command| is_over(command, turn)));
    }
}

/// Runs the child for `commits` commits, kills it, and adds what it acknowledged.
fn run_and_kill(path: &Path, commits: usize, acknowledged: &mut HashMap<String, u64>) {
    let mut command = child::command("suite::kill::writes_until_it_is_killed", path);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["ack", turn, head] => {
                acknowledged.insert((*turn).to_owned(), head.parse().unwrap());
            }
            ["commit", _] => {
                seen += 1;
                // What it has said until it dies still comes.
                if seen == commits {
                    child.kill().unwrap();
                }
            }
            _ => {}
        }
    }
    let status = child.wait().unwrap();
    assert!(seen >= commits, "the child ended by itself after {seen} commits: {status}");
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut acknowledged = HashMap::new();
    for (round, commits) in [3, 40, 11, 90].into_iter().enumerate() {
        run_and_kill(&path, commits, &mut acknowledged);
        let store = SqliteStore::open(&path, Durability::Fsync).unwrap();
        let mut heads = HashMap::new();
        let mut below = None;
        loop {
            let rows = store.sessions(&TenantId::local(), below, 100).await.unwrap();
            let Some(last) = rows.last() else { break };
            below = Some(last.position);
            for row in rows {
                for turn in store.turns(&TenantId::local(), &row.session.id).await.unwrap() {
                    let mut seq = 0;
                    loop {
                        let segments = store.read(&turn.id, seq, 1000).await.unwrap();
                        let Some(last) = segments.last() else { break };
                        for event in segments.iter().flat_map(Segment::events) {
                            let event = event.unwrap();
                            seq += 1;
                            assert_eq!((event.seq, event.text().unwrap()), (seq, format!("event {seq}").as_str()));
                        }
                        assert_eq!(last.last_seq(), seq);
                    }
                    assert_eq!(turn.head, seq, "the head of {} is the end of its log", turn.id);
                    let record = store.record(&TenantId::local(), RecordKind::Artifact, turn.id.as_str()).await;
                    assert_eq!(record.unwrap().unwrap().record.body.as_str(), seq.to_string());
                    heads.insert(turn.id.to_string(), seq);
                }
            }
        }
        for (turn, head) in &acknowledged {
            let kept = heads.get(turn).copied().unwrap_or(0);
            assert!(kept >= *head, "{turn} was acknowledged to {head} and kept to {kept}");
        }
        let node = NodeId(format!("after kill {round}"));
        let claimed = store.claim(&node, 1000).await.unwrap();
        assert!(!claimed.is_empty() && claimed.iter().all(|claim| heads[claim.turn.as_str()] == claim.head));
    }
}
