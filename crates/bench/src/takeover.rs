//! Row 12: how soon all turns run again that a crash interrupted.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    fake_model::{FakeModel, Script},
    reader::{runtime, within},
    report::{Better, Report, Row},
    rows::{folder_beside, progress},
    server::Server,
};

const TURNS: usize = 10_000;
/// How many clients begin them.
const CLIENTS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn measure(everturn: &Path, report: &mut Report) -> anyhow::Result<()> {
    progress("10,000 turns that a crash interrupts");
    let (folder, runtime) = (folder_beside(everturn)?, runtime()?);
    // It holds back what it says, so that all turns run until the end.
    let model = runtime.block_on(FakeModel::start(Script { turns: TURNS, deltas: 1, every: Duration::ZERO }))?;
    let server = Server::start_with(everturn, folder.path(), &model.config())?;
    let begin = json!({ "agent_id": "paced", "message": "go" });
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<()> {
                    let mut client = server.client()?;
                    (0..TURNS / CLIENTS).try_for_each(|_| client.spawn(&begin).map(drop))
                })
            })
            .collect();
        clients.into_iter().try_for_each(|client| client.join().unwrap_or_else(|_| anyhow::bail!("a client crashed")))
    })?;
    runtime.block_on(within(PATIENCE, "all turns ask the model", model.asked(TURNS)))?;
    // Dropping it is `kill -9`.
    drop(server);
    let begun = Instant::now();
    let server = Server::start_with(everturn, folder.path(), &model.config())?;
    runtime.block_on(within(PATIENCE, "all turns ask the model again", model.asked(2 * TURNS)))?;
    let (what, value) = ("10,000 turns after kill -9: all run again", begun.elapsed().as_secs_f64());
    let because = format!("first answer after {:.2} s", server.started_in.as_secs_f64());
    report.rows.push(Row { number: "12", what, value, unit: "s", goal: 3.0, better: Better::Less, because });
    Ok(())
}
