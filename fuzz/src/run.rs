//! Runs a target, for some time or for a number of inputs.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Mutex, Once, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;

use crate::{
    corpus,
    mutate::mutate,
    random::Random,
    targets::{Reading, Target},
};

/// How long one input may take. Nothing that works comes near it.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the last panic has said, on whichever thread.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After so long.
    Elapsed(Duration),
    /// After so many inputs, beside the corpus.
    Inputs(u64),
}

/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    /// Inputs that were read.
    pub executions: u64,
    /// How long that took.
    pub elapsed: Duration,
    /// What was read wrongly. The run ends with it.
    pub finding: Option<Finding>,
}

/// An input that was read wrongly.
#[derive(Debug)]
pub struct Finding {
    /// What is wrong.
    pub what: String,
    /// The input.
    pub input: Vec<u8>,
}

/// Keeps the words of panics, also of those in tasks that nobody waits for.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
        }));
    });
}

/// Reads the corpus of a target, then what is made of it. `current` is a file that gets each input before it is read, so that
/// it is known also after a crash that nothing can catch.
pub fn run(target: &Target, seed: u64, until: Until, current: Option<&PathBuf>) -> anyhow::Result<Outcome> {
    watch_panics();
    let corpus = corpus::load(target.name)?;
    let mut reading = (target.start)()?;
    let mut random = Random::new(seed);
    let (begun, mut executions) = (Instant::now(), 0);
    let is_over = |made: u64| match until {
        Until::Elapsed(time) => begun.elapsed() >= time,
        Until::Inputs(inputs) => made >= inputs,
    };
    let mut attempt = |input: Vec<u8>| -> anyhow::Result<Option<Finding>> {
        if let Some(current) = current {
            std::fs::write(current, &input).with_context(|| format!("cannot write {}", current.display()))?;
        }
        executions += 1;
        Ok(read(&mut reading, &input).map(|what| Finding { what, input }))
    };
    let mut finding = None;
    for input in &corpus {
        finding = attempt(input.clone())?;
        if finding.is_some() {
            break;
        }
    }
    let mut made = 0;
    while finding.is_none() && !is_over(made) {
        made += 1;
        finding = attempt(mutate(&mut random, &corpus))?;
    }
    Ok(Outcome { executions, elapsed: begun.elapsed(), finding })
}

/// Reads one input; says what is wrong with how it was read.
fn read(reading: &mut Reading, input: &[u8]) -> Option<String> {
    let begun = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| reading(input)));
    if let Some(panic) = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Some(panic);
    }
    match result {
        Err(_) => Some("it panicked".to_owned()),
        Ok(Err(what)) => Some(what),
        Ok(Ok(())) if begun.elapsed() > PATIENCE => Some(format!("it took {:?}", begun.elapsed())),
        Ok(Ok(())) => None,
    }
}
