//! Rows 3b, 4 and 10: what a turn costs in a session that has many.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::{
    client::Client,
    report::{Better, Report, Row},
    rows::{folder_beside, progress},
    server::Server,
    yardstick::{median, raw_fsync},
};

/// One for each session.
const CLIENTS: usize = 50;
/// How many turns their sessions have before anything is measured.
const TURNS_BEFORE: usize = 200;
const TIME: Duration = Duration::from_secs(5);

/// Row 3b: many turns at once in existing sessions, against as many in `fresh` ones.
pub(crate) fn many_turns(server: &Server, report: &mut Report, fresh: f64) -> anyhow::Result<()> {
    progress("50 clients, turns of 20 deltas in sessions that have 200");
    let open = || -> anyhow::Result<(Client, String)> {
        let mut client = server.client()?;
        let session = client.put("stream 20")?.session;
        for _ in 1..TURNS_BEFORE {
            client.post(&session, "stream 20")?;
        }
        Ok((client, session))
    };
    let sessions = at_once((0..CLIENTS).map(|_| open))?;
    let (turns, begun) = (AtomicUsize::new(0), Instant::now());
    let (turns_done, begun_at) = (&turns, &begun);
    at_once(sessions.into_iter().map(|(mut client, session)| {
        move || -> anyhow::Result<()> {
            while begun_at.elapsed() < TIME {
                let answer = client.post(&session, "stream 20")?;
                anyhow::ensure!(answer.frames >= 20, "only {} frames", answer.frames);
                turns_done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }
    }))?;
    let value = turns.into_inner() as f64 / begun.elapsed().as_secs_f64();
    let (what, because) = ("the same in sessions of 200 turns: turns/s", "0.9 × fresh sessions".to_owned());
    report.rows.push(Row { number: "3b", what, value, unit: "/s", goal: 0.9 * fresh, better: Better::More, because });
    Ok(())
}

/// Does all of this at once, and gives what came of it.
pub(crate) fn at_once<T: Send, F: FnOnce() -> anyhow::Result<T> + Send>(
    work: impl Iterator<Item = F>,
) -> anyhow::Result<Vec<T>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = work.map(|work| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| anyhow::bail!("a client crashed"))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Row 4, second figure: how long the first event takes in a session that has many turns.
pub(crate) fn first_event(server: &Server, report: &mut Report, folder: &Path) -> anyhow::Result<()> {
    progress("request to first event in a session of 1,000 turns");
    let mut client = server.client()?;
    let session = client.put("stream 1")?.session;
    for _ in 1..1000 {
        client.post(&session, "stream 1")?;
    }
    // The disk changes its mood: measured again, right here.
    let fsync = raw_fsync(folder)?.as_secs_f64() * 1e3;
    let mut times = Vec::new();
    for _ in 0..300 {
        times.push(client.post(&session, "stream 1")?.first.as_secs_f64() * 1e3);
    }
    let because = format!("1.2 × raw fsync ({fsync:.2} ms) + 0.3 ms");
    let (what, value, goal) = ("the same in a session of 1,000 turns", median(&mut times), 1.2 * fsync + 0.3);
    report.rows.push(Row { number: "4", what, value, unit: "ms", goal, better: Better::Less, because });
    Ok(())
}

/// Row 10: CPU of a turn late in a session, against one early in it.
pub(crate) fn cpu_per_turn(everturn: &Path, report: &mut Report) -> anyhow::Result<()> {
    progress("CPU per turn at turn 100 and turn 3,000 of one session");
    const AROUND: usize = 50;
    let folder = folder_beside(everturn)?;
    let server = Server::start(everturn, folder.path())?;
    let mut client = server.client()?;
    let session = client.put("stream 20")?.session;
    let mut turns = 1;
    let mut go_to = |turn: usize| -> anyhow::Result<()> {
        while turns < turn {
            client.post(&session, "stream 20")?;
            turns += 1;
        }
        Ok(())
    };
    let mut at = |turn: usize| -> anyhow::Result<f64> {
        go_to(turn - AROUND)?;
        let before = server.precise_cpu()?;
        go_to(turn + AROUND)?;
        Ok((server.precise_cpu()? - before).as_secs_f64() * 1e6 / (2 * AROUND) as f64)
    };
    let (early, late) = (at(100)?, at(3000)?);
    let because = format!("flat within 20 %; {early:.0} and {late:.0} µs");
    let (what, value) = ("CPU per turn, turn 3,000 against turn 100", late / early);
    report.rows.push(Row { number: "10", what, value, unit: "×", goal: 1.2, better: Better::Less, because });
    Ok(())
}
