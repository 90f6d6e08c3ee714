//! The rows: what is measured, and what is to be reached.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use everturn_core::{SessionConfig, SessionId, TenantId, Timestamp};
use everturn_store::{Command, Durability, NewSession, SqliteStore, Store as _};
use tempfile::TempDir;

use crate::{
    fan_out, idle_readers, long_sessions, one_session, paced_turns,
    report::{Better, Figure, Report, Row},
    server::Server,
    takeover,
    yardstick::{median, raw_fsync, raw_sse},
};

const MIB: f64 = 1024.0 * 1024.0;
const DELTAS: usize = 20_000;
const REPLAYED: usize = 100_000;
const SESSIONS: usize = 1_000_000;

/// Measures the rows with these numbers, or all where none is named. Rows that share a server are measured together.
pub(crate) fn run(everturn: &Path, only: &[&str]) -> anyhow::Result<Report> {
    let wanted = |numbers: &[&str]| only.is_empty() || numbers.iter().any(|number| only.contains(number));
    let folder = folder_beside(everturn)?;
    let mut report = Report::default();
    let fsync = raw_fsync(folder.path())?.as_secs_f64() * 1e3;
    report.yardsticks.push(Figure { name: "raw fsync, 4 KiB append, p50", value: fsync, unit: "ms" });
    let sse = raw_sse(DELTAS, 9)?;
    report.yardsticks.push(Figure { name: "raw SSE, bare hyper, frame by frame", value: sse, unit: "/s" });

    if wanted(&["1", "2", "3", "3b", "4", "6", "9"]) {
        let server = Server::start(everturn, folder.path())?;
        if wanted(&["1", "2"]) {
            one_turn(&server, &mut report, sse)?;
        }
        if wanted(&["3", "3b"]) {
            let fresh = many_turns(&server, &mut report)?;
            long_sessions::many_turns(&server, &mut report, fresh)?;
        }
        if wanted(&["4"]) {
            first_event(&server, &mut report, folder.path())?;
            long_sessions::first_event(&server, &mut report, folder.path())?;
        }
        if wanted(&["6"]) {
            replay(&server, &mut report)?;
        }
        if wanted(&["9"]) {
            slow_reader(&server, &mut report)?;
            drop(server);
            slow_readers_memory(everturn, &mut report)?;
        }
    }
    if wanted(&["3c"]) {
        one_session::measure(everturn, &mut report)?;
    }
    if wanted(&["5"]) {
        paced_turns::measure(everturn, &mut report)?;
    }
    if wanted(&["7"]) {
        idle_readers::measure(everturn, &mut report)?;
    }
    if wanted(&["8"]) {
        fan_out::measure(everturn, &mut report)?;
    }
    if wanted(&["10"]) {
        long_sessions::cpu_per_turn(everturn, &mut report)?;
    }
    if wanted(&["11"]) {
        starts(everturn, &mut report)?;
    }
    if wanted(&["12"]) {
        takeover::measure(everturn, &mut report)?;
    }
    if wanted(&["13"]) {
        memory(everturn, &mut report)?;
    }
    let digits = |row: &Row| row.number.trim_end_matches(char::is_alphabetic).parse::<u32>().unwrap_or(u32::MAX);
    report.rows.sort_by_key(digits);
    Ok(report)
}

/// A folder beside the binary: on the disk that is used, not in memory.
pub(crate) fn folder_beside(everturn: &Path) -> anyhow::Result<TempDir> {
    Ok(tempfile::tempdir_in(everturn.parent().unwrap_or(Path::new(".")))?)
}

/// Says what is being done.
pub(crate) fn progress(what: &str) {
    eprintln!("measuring: {what}");
}

fn one_turn(server: &Server, report: &mut Report, sse: f64) -> anyhow::Result<()> {
    progress("one turn of 20,000 deltas");
    const RUNS: usize = 15;
    let mut client = server.client()?;
    let text = format!("stream {DELTAS}");
    client.put(&text)?;
    let (mut rates, mut events) = (Vec::new(), 0);
    let before = server.cpu()?;
    for _ in 0..RUNS {
        let answer = client.put(&text)?;
        anyhow::ensure!(answer.frames >= DELTAS, "only {} frames", answer.frames);
        events += answer.frames;
        rates.push(answer.frames as f64 / answer.whole.as_secs_f64());
    }
    let cpu = (server.cpu()? - before).as_secs_f64() * 1e6 / events as f64;
    let rate = median(&mut rates);
    let more = Better::More;
    let what = "one turn, one reader: events/s";
    let because = "0.3 × raw SSE".to_owned();
    report.rows.push(Row { number: "1", what, value: rate, unit: "/s", goal: 0.3 * sse, better: more, because });
    let because = "on two idle cores".to_owned();
    report.rows.push(Row { number: "1", what, value: rate, unit: "/s", goal: 300_000.0, better: more, because });
    let what = "server CPU per delivered event";
    let because = String::new();
    report.rows.push(Row { number: "2", what, value: cpu, unit: "µs", goal: 4.0, better: Better::Less, because });
    Ok(())
}

/// Gives turns per second.
fn many_turns(server: &Server, report: &mut Report) -> anyhow::Result<f64> {
    progress("50 clients, turns of 20 deltas");
    const CLIENTS: usize = 50;
    const TIME: Duration = Duration::from_secs(5);
    let (turns, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let run = || -> anyhow::Result<()> {
                    let mut client = server.client()?;
                    while begun.elapsed() < TIME {
                        let answer = client.put("stream 20")?;
                        anyhow::ensure!(answer.frames >= 23, "only {} frames", answer.frames);
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                };
                if let Err(error) = run() {
                    eprintln!("a client failed: {error:#}");
                    failed.store(true, Ordering::Relaxed);
                }
            });
        }
    });
    anyhow::ensure!(!failed.into_inner(), "clients failed");
    let rate = turns.into_inner() as f64 / begun.elapsed().as_secs_f64();
    let because = "on two idle cores".to_owned();
    let what = "50 clients, turns of 20 deltas: turns/s";
    report.rows.push(Row { number: "3", what, value: rate, unit: "/s", goal: 2_000.0, better: Better::More, because });
    Ok(rate)
}

fn first_event(server: &Server, report: &mut Report, folder: &Path) -> anyhow::Result<()> {
    progress("request to first event");
    let mut client = server.client()?;
    let mut times = Vec::new();
    // The disk changes its mood: measured again, right here.
    let fsync = raw_fsync(folder)?.as_secs_f64() * 1e3;
    for _ in 0..300 {
        times.push(client.put("stream 1")?.first.as_secs_f64() * 1e3);
    }
    let value = median(&mut times);
    let because = format!("1.2 × raw fsync ({fsync:.2} ms) + 0.3 ms");
    let (what, goal) = ("request to first event, p50", 1.2 * fsync + 0.3);
    report.rows.push(Row { number: "4", what, value, unit: "ms", goal, better: Better::Less, because });
    Ok(())
}

fn replay(server: &Server, report: &mut Report) -> anyhow::Result<()> {
    progress("replay of a finished turn of 100,000 events");
    let sse = raw_sse(REPLAYED, 5)?;
    let mut client = server.client()?;
    let made = client.put(&format!("stream {REPLAYED}"))?;
    client.replay(&made.session, &made.turn)?;
    let (mut rates, before) = (Vec::new(), server.memory()? as f64);
    for _ in 0..7 {
        let answer = client.replay(&made.session, &made.turn)?;
        anyhow::ensure!(answer.frames == made.frames, "{} frames of {}", answer.frames, made.frames);
        rates.push(answer.frames as f64 / answer.whole.as_secs_f64());
    }
    let grown = (server.memory()? as f64 - before) / MIB;
    let (what, because) = ("replay of 100,000 events: events/s", format!("0.5 × raw SSE ({sse:.0}/s)"));
    let value = median(&mut rates);
    report.rows.push(Row { number: "6", what, value, unit: "/s", goal: 0.5 * sse, better: Better::More, because });
    let (what, because) = ("memory grown by seven replays", "flat".to_owned());
    let value = grown.max(0.01);
    report.rows.push(Row { number: "6", what, value, unit: "MiB", goal: 4.0, better: Better::Less, because });
    Ok(())
}

fn slow_reader(server: &Server, report: &mut Report) -> anyhow::Result<()> {
    progress("a slow reader beside a fast one");
    // Long, because short ones vary by a tenth from one to the next, more than the row may show.
    let text = "stream 600000";
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    server.client()?.put(text)?;
    // Interleaved, so that both meet the same disk.
    for _ in 0..5 {
        let answer = server.client()?.put(text)?;
        alone.push(answer.frames as f64 / answer.whole.as_secs_f64());
        let stop = Arc::new(AtomicBool::new(false));
        let mut dawdling = None;
        let answer = server.client()?.put_and_tell(text, |turn| {
            dawdling = Some(dawdle(server, &turn.session, &turn.turn, &stop));
        })?;
        beside.push(answer.frames as f64 / answer.whole.as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        dawdling.into_iter().try_for_each(join)?;
    }
    let value = median(&mut beside) / median(&mut alone);
    let (what, because) = ("fast reader beside a slow one, against alone", "within 5 %".to_owned());
    report.rows.push(Row { number: "9", what, value, unit: "×", goal: 0.95, better: Better::More, because });

    Ok(())
}

fn slow_readers_memory(everturn: &Path, report: &mut Report) -> anyhow::Result<()> {
    progress("memory of slow readers");
    const READERS: usize = 200;
    let folder = folder_beside(everturn)?;
    let turn = Server::start(everturn, folder.path())?.client()?.put(&format!("stream {REPLAYED}"))?;
    // Started again: a server that has run a long turn has memory to spare, in which readers would not show.
    let server = &Server::start(everturn, folder.path())?;
    let (stop, before) = (Arc::new(AtomicBool::new(false)), server.memory()? as f64);
    let dawdling: Vec<_> = (0..READERS).map(|_| dawdle(server, &turn.session, &turn.turn, &stop)).collect();
    // They take what the system buffers for them, then each holds what the server keeps for it.
    std::thread::sleep(Duration::from_secs(3));
    let grown = (server.memory()? as f64 - before) / 1024.0 / READERS as f64;
    let readers = server.readers()?;
    anyhow::ensure!(readers == READERS, "the server has {readers} readers, not {READERS}");
    stop.store(true, Ordering::Relaxed);
    dawdling.into_iter().try_for_each(join)?;
    let (what, because, value) = ("memory of one slow reader", "constant".to_owned(), grown.max(0.01));
    report.rows.push(Row { number: "9", what, value, unit: "KiB", goal: 256.0, better: Better::Less, because });
    Ok(())
}

type Dawdling = std::thread::JoinHandle<anyhow::Result<()>>;

/// Reads a turn slowly until told to stop.
fn dawdle(server: &Server, session: &str, turn: &str, stop: &Arc<AtomicBool>) -> Dawdling {
    let (client, path, stop) = (server.client(), crate::client::view(session, turn), Arc::clone(stop));
    std::thread::spawn(move || {
        let mut client = client?;
        client.send("GET", &path, "")?;
        client.dawdle(&stop);
        Ok(())
    })
}

fn join(dawdling: Dawdling) -> anyhow::Result<()> {
    dawdling.join().unwrap_or_else(|_| anyhow::bail!("a slow reader crashed"))
}

fn starts(everturn: &Path, report: &mut Report) -> anyhow::Result<()> {
    progress("start with an empty store, and with a million sessions");
    let empty = Server::start(everturn, folder_beside(everturn)?.path())?.started_in;
    let folder = folder_beside(everturn)?;
    fill(&folder.path().join("data/everturn.db"))?;
    let full = Server::start(everturn, folder.path())?.started_in;
    for (what, time, goal) in [
        ("start to first answer, empty store", empty, 100.0),
        ("start to first answer, a million sessions", full, 300.0),
    ] {
        let (value, because) = (time.as_secs_f64() * 1e3, String::new());
        report.rows.push(Row { number: "11", what, value, unit: "ms", goal, better: Better::Less, because });
    }
    Ok(())
}

fn fill(path: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = SqliteStore::open(path, Durability::Process)?;
        let config = SessionConfig { agent: "load".into(), ..SessionConfig::default() };
        let session = || NewSession {
            tenant: TenantId::local(),
            id: SessionId::mint(),
            config: config.clone(),
            title: None,
            shares: None,
            turns: Vec::new(),
            key: None,
            at: Timestamp::now(),
        };
        const BATCH: usize = 10_000;
        for _ in 0..SESSIONS / BATCH {
            let batch = (0..BATCH).map(|_| Command::CreateSession(Box::new(session()))).collect();
            let outcomes = store.commit(Arc::new(batch)).await?;
            anyhow::ensure!(outcomes.iter().all(Result::is_ok), "a session was refused");
        }
        store.close().await;
        Ok(())
    })
}

fn memory(everturn: &Path, report: &mut Report) -> anyhow::Result<()> {
    progress("memory after 10,000 turns");
    let folder = folder_beside(everturn)?;
    let server = Server::start(everturn, folder.path())?;
    let idle = server.memory()? as f64 / MIB;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<()> {
                    let mut client = server.client()?;
                    (0..500).try_for_each(|_| client.put("stream 20").map(drop))
                })
            })
            .collect();
        clients.into_iter().try_for_each(|client| client.join().unwrap_or_else(|_| anyhow::bail!("a client crashed")))
    })?;
    let after = server.memory()? as f64 / MIB;
    for (what, value, goal) in [("memory, idle", idle, 40.0), ("memory after 10,000 turns", after, 80.0)] {
        let because = String::new();
        report.rows.push(Row { number: "13", what, value, unit: "MiB", goal, better: Better::Less, because });
    }
    Ok(())
}
