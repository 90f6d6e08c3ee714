//! `cargo xtask fuzz`: feeds each target for some time.
//!
//! Each target runs in a process of its own. One that ends without a word, by an abort or a full stack, or that does not end, is
//! run again with the same seed, this time with each input on the disk before it is read.

use std::{
    path::PathBuf,
    process::{Child, Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use everturn_fuzz::{
    corpus,
    run::{Until, run},
    targets::{ALL, Target, serve_mcp},
};
use everturn_mcp::Launcher;

const HELP: &str = "\
Feeds damaged inputs to everything that reads what strangers send

Usage: cargo xtask fuzz [OPTIONS] [TARGET]...

Without targets, all of them, one after the other. New inputs are made of those under fuzz/corpus/TARGET by changing their bytes
and their JSON at random; it is not seen which code they reach. An input that is read wrongly (a panic, a crash, an answer with status
500, more than 10 s) is printed with its seed and kept in the corpus, where it is read first from then on.

Options:
  --seconds N  How long to feed each target; 10 unless given
  --seed N     Repeat a run; otherwise the seed is of the clock
  --help       Show this text

Targets:";

/// The exit code of a worker that has found something and said so.
const FOUND: u8 = 3;
/// The exit code of a worker that cannot run, and has said why.
const FAILED: u8 = 2;

/// How much longer than wanted a worker may take: it begins, and its last input may take some time.
const MAX_BEYOND: Duration = Duration::from_secs(60);

/// How much slower a worker may be that writes each input down before it is read.
const SLOWER: u64 = 50;

struct Options {
    seconds: u64,
    seed: u64,
    targets: Vec<Target>,
    /// In this process, for a supervisor; each input is written to this file first, if there is one.
    worker: Option<Option<PathBuf>>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("mcp-guard") => {
            let launcher = Launcher::this_program(["mcp-guard".into()]);
            return everturn_mcp::guard::run(&launcher, std::env::args_os().skip(2));
        }
        Some("mcp-server") => serve_mcp().map(|()| ExitCode::SUCCESS),
        _ if arguments.iter().any(|argument| argument == "--help" || argument == "-h") => {
            println!("{HELP}");
            ALL.iter().for_each(|target| println!("  {:<11}{}", target.name, target.reads));
            Ok(ExitCode::SUCCESS)
        }
        _ => options(&arguments).and_then(|options| match &options.worker {
            Some(current) => work(&options, current.as_ref()),
            None => supervise(&options),
        }),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(FAILED)
    })
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut options = Options { seconds: 10, seed: clock.as_secs(), targets: Vec::new(), worker: None };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || -> anyhow::Result<u64> {
            let text = rest.next().with_context(|| format!("{argument} needs a number"))?;
            text.parse().with_context(|| format!("{argument} needs a number, not {text:?}"))
        };
        match argument.as_str() {
            "--seconds" => options.seconds = number()?,
            "--seed" => options.seed = number()?,
            "--worker" => options.worker = Some(None),
            "--current" => options.worker = Some(rest.next().map(PathBuf::from)),
            name => match ALL.into_iter().find(|target| target.name == name) {
                Some(target) => options.targets.push(target),
                None => {
                    let names: Vec<_> = ALL.iter().map(|target| target.name).collect();
                    bail!("there is no target {name:?}; the targets are {}", names.join(", "));
                }
            },
        }
    }
    if options.targets.is_empty() {
        options.targets = ALL.to_vec();
    }
    Ok(options)
}

/// Runs targets in this process.
fn work(options: &Options, current: Option<&PathBuf>) -> anyhow::Result<ExitCode> {
    let (seed, until) = (options.seed, Until::Elapsed(Duration::from_secs(options.seconds)));
    for target in &options.targets {
        let name = target.name;
        let outcome = run(target, seed, until, current).with_context(|| format!("the target {name} does not start"))?;
        let per_second = outcome.executions as f64 / outcome.elapsed.as_secs_f64().max(0.001);
        println!("{name:<11}{:>10} inputs{per_second:>10.0} /s   seed {seed}", outcome.executions);
        if let Some(finding) = outcome.finding {
            let file = corpus::save(name, &finding.input)?;
            println!("{name}: {}\n  seed {seed}, kept as {}", finding.what, file.display());
            return Ok(ExitCode::from(FOUND));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit code of a process; none if it was ended by a signal, also by ours after this time.
fn wait(process: &mut Child, time: Duration) -> anyhow::Result<Option<i32>> {
    let until = Instant::now() + time;
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(status.code());
        }
        if Instant::now() > until {
            process.kill()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs each target in a process of its own.
fn supervise(options: &Options) -> anyhow::Result<ExitCode> {
    let mut failed = Vec::new();
    for target in &options.targets {
        let name = target.name;
        let worker = |seconds: u64, extra: &[&str]| -> anyhow::Result<Option<i32>> {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["--seconds", &seconds.to_string(), "--seed", &options.seed.to_string()]);
            wait(&mut command.args(extra).arg(name).spawn()?, Duration::from_secs(seconds) + MAX_BEYOND)
        };
        match worker(options.seconds, &["--worker"])? {
            Some(0) => continue,
            // It has said what is wrong.
            Some(code) if code == i32::from(FOUND) || code == i32::from(FAILED) => {}
            code => {
                let how = code.map_or("a signal".to_owned(), |code| format!("code {code}"));
                println!("{name}: the process ended with {how}; looking for the input, seed {}", options.seed);
                let current = std::env::temp_dir().join(format!("everturn-fuzz-{}", std::process::id()));
                let text = current.to_str().context("the folder for temporary files has a name that is no text")?;
                match worker(options.seconds.saturating_mul(SLOWER), &["--current", text])? {
                    Some(0) => println!("{name}: it does not happen again with this seed"),
                    Some(code) if code == i32::from(FOUND) || code == i32::from(FAILED) => {}
                    _ => {
                        let file = corpus::save(name, &std::fs::read(&current)?)?;
                        println!("{name}: this input ends the process: {}", file.display());
                    }
                }
                let _ = std::fs::remove_file(&current);
            }
        }
        failed.push(name);
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("read wrongly: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}
