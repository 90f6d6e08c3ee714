//! Measures the server against yardsticks of the same run.
//!
//! Every figure stands next to a yardstick that the same run measures on the same machine, so that ratios can be
//! compared where seconds cannot. Run it with `cargo xtask bench`.

mod client;
mod fake_model;
mod fan_out;
mod idle_readers;
mod long_sessions;
mod one_session;
mod paced_turns;
mod plot;
mod reader;
mod report;
mod rows;
mod server;
mod takeover;
mod yardstick;

use std::path::PathBuf;

use anyhow::{Context as _, bail};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        // The yardstick's server is a process of its own, as the real one is.
        ["raw-sse", frames] => yardstick::serve_raw_sse(frames.parse()?),
        ["run", everturn, output] => {
            let everturn = PathBuf::from(everturn).canonicalize().context("there is no such binary")?;
            let report = rows::run(&everturn, &[])?;
            print!("{}", report.table());
            let output = PathBuf::from(output);
            std::fs::create_dir_all(&output).context("failed to create the output folder")?;
            std::fs::write(output.join("latest.json"), report.json()?)?;
            std::fs::write(output.join("latest.svg"), plot::svg(&report))?;
            println!("\nwritten: {0}/latest.json and {0}/latest.svg", output.display());
            Ok(())
        }
        // Some rows are no record of a run: they are shown and not kept.
        ["rows", everturn, numbers @ ..] if !numbers.is_empty() => {
            let everturn = PathBuf::from(everturn).canonicalize().context("there is no such binary")?;
            print!("{}", rows::run(&everturn, numbers)?.table());
            Ok(())
        }
        _ => bail!(
            "usage: everturn-bench run <everturn binary> <output folder>\n       \
             everturn-bench rows <everturn binary> <number>..."
        ),
    }
}
