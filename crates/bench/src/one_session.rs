//! Row 3c: what it costs when many clients use one session, against as many sessions.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    long_sessions::at_once,
    report::{Better, Report, Row},
    rows::{folder_beside, progress},
    server::Server,
};

const CLIENTS: usize = 50;
const TIME: Duration = Duration::from_secs(5);

/// What a run of all clients showed.
struct Run {
    /// CPU of the server, in milliseconds.
    cpu_per_turn: f64,
    turns_per_second: f64,
    /// From the request to the end of the turn, in milliseconds.
    p99: f64,
}

pub(crate) fn measure(everturn: &Path, report: &mut Report) -> anyhow::Result<()> {
    let folder = folder_beside(everturn)?;
    let server = Server::start(everturn, folder.path())?;
    progress("50 clients, a session each");
    let apart = run(&server, CLIENTS)?;
    progress("50 clients, one session");
    let together = run(&server, 1)?;
    let show =
        |run: &Run| format!("{:.2} ms, {:.0} turns/s, p99 {:.0} ms", run.cpu_per_turn, run.turns_per_second, run.p99);
    let because = format!("that of 50 sessions; {} against {}", show(&together), show(&apart));
    let (what, value) = ("CPU per turn, 50 clients on one session", together.cpu_per_turn / apart.cpu_per_turn);
    report.rows.push(Row { number: "3c", what, value, unit: "×", goal: 1.2, better: Better::Less, because });
    Ok(())
}

/// All clients send messages and read the turns to their end; what is busy has a queue.
fn run(server: &Server, sessions: usize) -> anyhow::Result<Run> {
    let mut opener = server.client()?;
    let sessions = (0..sessions).map(|_| Ok(opener.put("stream 5")?.session)).collect::<anyhow::Result<Vec<_>>>()?;
    let (turns, before, begun) = (AtomicUsize::new(0), server.cpu()?, Instant::now());
    let (sessions, turns_done) = (&sessions, &turns);
    let clients = (0..CLIENTS).map(|client| {
        move || -> anyhow::Result<Vec<f64>> {
            let (mut client, session) = (server.client()?, &sessions[client % sessions.len()]);
            let message = json!({ "session_id": session, "message": "stream 5", "on_busy": "enqueue" });
            let mut times = Vec::new();
            while begun.elapsed() < TIME {
                let sent = Instant::now();
                let turn = client.spawn(&message)?;
                let answer = client.replay(&turn.session, &turn.turn)?;
                anyhow::ensure!(answer.frames >= 5, "only {} frames", answer.frames);
                turns_done.fetch_add(1, Ordering::Relaxed);
                times.push(sent.elapsed().as_secs_f64() * 1e3);
            }
            Ok(times)
        }
    });
    let mut times: Vec<_> = at_once(clients)?.into_iter().flatten().collect();
    let (took, turns) = (begun.elapsed().as_secs_f64(), turns.into_inner() as f64);
    times.sort_by(f64::total_cmp);
    Ok(Run {
        cpu_per_turn: (server.cpu()? - before).as_secs_f64() * 1e3 / turns,
        turns_per_second: turns / took,
        p99: times.get(times.len() * 99 / 100).copied().unwrap_or_default(),
    })
}
