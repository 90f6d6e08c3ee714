//! Every target reads its corpus, and a bounded number of inputs that are made of it. `cargo xtask fuzz` makes more of them.

use std::{path::PathBuf, sync::Mutex};

use everturn_fuzz::{
    corpus,
    run::{Until, run},
    targets::{ALL, PROGRAM, Target, statuses},
};

/// The same on every machine, so that a failure here is one there too.
const SEED: u64 = 2026;
/// Inputs that are made for a target that does input and output, and for one that does not.
const INPUTS: [u64; 2] = [300, 3_000];

#[track_caller]
fn check(name: &str) {
    let _ = PROGRAM.set(PathBuf::from(env!("CARGO_BIN_EXE_everturn-fuzz")));
    let target = ALL.into_iter().find(|target| target.name == name).expect("there is such a target");
    let is_pure = matches!(name, "cursors" | "config" | "recipes" | "events" | "pdf" | "documents");
    let outcome = run(&target, SEED, Until::Inputs(INPUTS[usize::from(is_pure)]), None).expect("it runs");
    if let Some(finding) = outcome.finding {
        let input = String::from_utf8_lossy(&finding.input);
        panic!("{name}, seed {SEED}, after {} inputs: {}\n{input}", outcome.executions, finding.what);
    }
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        #[test]
        fn all_targets_are_tested_and_have_a_corpus() {
            let mut tested = vec![$(stringify!($name)),*];
            let mut all: Vec<_> = ALL.iter().map(|target| target.name).collect();
            tested.sort_unstable();
            all.sort_unstable();
            assert_eq!(tested, all);
            for name in all {
                let inputs = corpus::load(name).expect("a corpus").len();
                assert!(inputs >= 3, "{name} has {inputs} inputs");
            }
        }
    };
}

targets!(requests, cursors, config, recipes, events, pdf, documents, chat, responses, anthropic, gemini, ollama, mcp);

/// Requests that are refused for what they are show little of what comes after.
#[test]
fn most_requests_of_the_corpus_are_taken() {
    let (mut taken, mut all) = (0, Vec::new());
    for input in corpus::load("requests").expect("a corpus") {
        let answers = statuses(&input).expect("answers");
        taken += answers.iter().filter(|status| **status < 300).count();
        all.push((String::from_utf8_lossy(&input).lines().next().unwrap_or_default().to_owned(), answers));
    }
    let requests: usize = all.iter().map(|(_, answers)| answers.len()).sum();
    assert!(taken * 3 >= requests * 2, "{taken} of {requests} are taken: {all:#?}");
}

/// What has been read by [`keeps`].
static READ: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

fn panics(input: &[u8]) -> Result<(), String> {
    if input.contains(&b'9') {
        let _ = std::thread::spawn(|| panic!("there is a nine")).join();
    }
    Ok(())
}

fn refuses(input: &[u8]) -> Result<(), String> {
    if input.is_empty() { Err("it is empty".to_owned()) } else { Ok(()) }
}

fn keeps(input: &[u8]) -> Result<(), String> {
    READ.lock().expect("no panic").push(input.to_vec());
    Ok(())
}

/// A target that reads wrongly is noticed, on whichever thread it panics, and the input comes with what is wrong.
#[test]
fn what_is_read_wrongly_is_found() {
    let fed = |start| {
        let target = Target { name: "config", reads: "", start };
        run(&target, SEED, Until::Inputs(2000), None).expect("it runs").finding
    };
    let finding = fed(|| Ok(Box::new(panics))).expect("a nine");
    assert!(finding.what.contains("there is a nine") && finding.input.contains(&b'9'), "{finding:?}");
    assert_eq!(fed(|| Ok(Box::new(refuses))).expect("an empty one").what, "it is empty");
    // The same seed makes the same inputs.
    let made = || {
        assert!(fed(|| Ok(Box::new(keeps))).is_none());
        std::mem::take(&mut *READ.lock().expect("no panic"))
    };
    let (first, second) = (made(), made());
    assert!(first.len() > 2000 && first == second);
}
