//! A seeded simulation of everything at once.
//!
//! Several clients talk to an engine whose model, tools, store and process misbehave at random. The process dies in the
//! middle of commits, or is shut down, and another goes on with what was kept; clients and readers come back as theirs
//! would. In the end all promises are checked. A seed that fails is printed, and
//!
//! ```text
//! SEED=<seed> cargo test -p everturn-engine --test all simulation
//! ```
//!
//! runs it alone. One seed is one history, but for the order in which the runtime wakes those who wait for the same
//! thing, which is its own; so a single seed is run many times over. `SEEDS=<count>` tries more seeds than usual.

mod answer;
mod client;
mod coverage;
mod cutter;
mod model;
mod reader;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};

use coverage::Coverage;
use run::Simulation;

const SEEDS: u64 = 300;
const REPEATS: usize = 50;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("SEED and SEEDS are numbers"))
}

#[test]
fn every_promise_holds_in_every_simulated_history() {
    if let Some(seed) = variable("SEED") {
        return (0..REPEATS).for_each(|_| Simulation::new(seed).run());
    }
    let mut covered = Coverage::default();
    for seed in 0..variable("SEEDS").unwrap_or(SEEDS) {
        let history = catch_unwind(AssertUnwindSafe(|| covered.add(&Simulation::new(seed).run_covered())));
        if let Err(panic) = history {
            eprintln!(
                "seed {seed} failed; run it alone with SEED={seed} cargo test -p everturn-engine --test all simulation"
            );
            std::panic::resume_unwind(panic);
        }
    }
    covered.check();
}
