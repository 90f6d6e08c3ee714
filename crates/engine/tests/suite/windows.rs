//! Requests stay within the window, and what that costs.

use std::sync::Arc;

use everturn_core::{EffectClass, Event, Message, Outcome, context};
use everturn_models::{ModelErrorKind, ModelRequest};

use super::{
    compaction::{estimate, is_summary},
    harness::*,
    long_conversations::{strict, text},
};

/// What a conversation has cost, in tokens of input.
struct Cost {
    total: u64,
    summaries: u64,
    /// How many summaries were made.
    count: usize,
    /// The longest request, with room for its answer.
    longest: u64,
}

/// A conversation of so many turns with this window, each of two steps that call a tool and one that answers.
async fn cost(turns: usize, window: u64) -> Cost {
    let mut steps = 0;
    let model = strict(window, move |request| {
        if is_summary(request) {
            return vec![say(&"They talked about many things. ".repeat(10))];
        }
        steps += 1;
        if steps % 3 == 0 { vec![say(&"b".repeat(600))] } else { vec![call("dump", "{}")] }
    });
    let dump = Behaviour::Dumps("x".repeat(800).into());
    let setup = Setup::with_models([model.clone()]).trusted("dump", EffectClass::ReadOnly, dump);
    let world = World::start(setup).await;
    let question = |turn: usize| format!("question {turn} {}", "a".repeat(200));
    for turn in 0..turns {
        let started = world.begin(&question(turn)).await;
        let end = leg_of(&world.engine, &started).await;
        assert!(matches!(end.last(), Some((_, Event::TurnEnded(ended))) if ended.outcome == Outcome::Completed));
    }
    let requests = model.requests();
    for request in requests.iter().filter(|request| !is_summary(request)) {
        assert!(text(request).starts_with(&question(0)), "the first message stays verbatim");
    }
    let summaries: Vec<_> = requests.iter().filter(|request| is_summary(request)).collect();
    let whole = |request: &ModelRequest| estimate(request) + request.options.max_output_tokens.unwrap_or(0);
    Cost {
        total: requests.iter().map(estimate).sum(),
        summaries: summaries.iter().map(|request| estimate(request)).sum(),
        count: summaries.len(),
        longest: requests.iter().map(whole).max().unwrap_or(0),
    }
}

#[tokio::test(start_paused = true)]
async fn two_hundred_turns_fit_and_summaries_cost_a_tenth_of_all_input_at_most() {
    for window in [8_000, 16_000] {
        let Cost { total, summaries, count, longest } = cost(200, window).await;
        println!(
            "window {window}: {summaries} of {total} input tokens in {count} summaries; the longest request {longest}"
        );
        assert!(count > 3, "{count}");
        assert!(longest <= window, "{longest} tokens");
        assert!(summaries * 10 <= total, "{summaries} of {total} input tokens for {count} summaries");
    }
}

/// Random letters as base64 has them, always the same.
fn base64(bytes: usize, seed: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(LETTERS[usize::try_from(state >> 58).unwrap()])
    };
    std::iter::repeat_with(letter).take(bytes).collect()
}

/// A provider counts dense text as it is. No request is too long for it, and nobody hears of an overflow.
#[tokio::test(start_paused = true)]
async fn dense_text_does_not_overflow_the_window() {
    const WINDOW: u64 = 16_000;
    // As tokenizers count: a Chinese character is about a token, and so are three bytes of base64 about two.
    let chinese = |text: &str| text.chars().map(|c| if c.is_ascii() { 25 } else { 100 }).sum::<u64>() / 100;
    let random = |text: &str| text.len() as u64 * 100 / 146;
    type Count = fn(&str) -> u64;
    type Question = fn(usize) -> String;
    let kinds: [(&str, Count, Question); 2] = [
        ("chinese", chinese, |turn| format!("{turn}{}", "清晨的港口十分安静".repeat(60))),
        ("base64", random, |turn| base64(800, turn as u64)),
    ];
    for (name, count, question) in kinds {
        let counted = move |request: &ModelRequest| count(&text(request)) + count(&request.system);
        let model = ScriptedModel::thinking("test/one", move |request| match counted(request) > WINDOW {
            true => vec![fail(ModelErrorKind::ContextOverflow)],
            false => vec![say("Yes."), stop()],
        })
        .with_window(WINDOW);
        let world = World::start(Setup::with_models([model.clone()])).await;
        for turn in 0..60 {
            let started = world.begin(&question(turn)).await;
            let transcript = world.transcript(&started).await;
            assert!(transcript.ends_with("completed\n"), "{name} {turn}: {transcript}");
        }
        let requests = model.requests();
        let longest = requests.iter().map(counted).max().unwrap();
        assert!(longest <= WINDOW, "{name}: a request of {longest} tokens");
        // Nor is much of it left unused, beside the quarter that is kept free for answers.
        assert!(longest >= WINDOW * 2 / 3, "{name}: {longest} tokens at most");
        assert!(requests.iter().any(is_summary), "{name}");
    }
}

/// A message that needs nearly all of the window, or more, is given to the model nearly as far as it fits.
#[tokio::test(start_paused = true)]
async fn a_long_message_fills_the_window() {
    const WINDOW: u64 = 8000;
    for percent in [90, 94, 97, 100, 110, 300] {
        for has_history in [false, true] {
            let model = strict(WINDOW, |request| vec![say(if is_summary(request) { "They spoke." } else { "Well." })]);
            let world = World::start(Setup::with_models([model.clone()])).await;
            for _ in 0..if has_history { 5 } else { 0 } {
                let started = world.begin(&"word ".repeat(300)).await;
                world.transcript(&started).await;
            }
            let started =
                world.begin(&format!("begin {} end", "b".repeat(40 * percent * WINDOW as usize / 1000))).await;
            let transcript = world.transcript(&started).await;
            assert!(transcript.ends_with("completed\n"), "{percent} %: {}", transcript.lines().last().unwrap());
            let requests = model.requests();
            let last = requests.last().unwrap();
            let kept = last.messages.iter().rev().find(|message| matches!(message, Message::User { .. })).unwrap();
            let kept = context::estimate(std::slice::from_ref(kept));
            println!("{percent} % of the window, history {has_history}: {kept} tokens kept");
            assert!(text(last).ends_with(" end") && kept * 100 >= WINDOW * 80, "{percent} % {has_history}: {kept}");
        }
    }
}

/// Tools may take most of the window. A summary is asked for without them, and in more than a few words.
#[tokio::test(start_paused = true)]
async fn a_summary_has_a_sensible_size_beside_many_tools() {
    for window in [4000_u64, 8000, 16_000] {
        let model = strict(window, |request| {
            vec![say(&if is_summary(request) { "They talked.".to_owned() } else { "b".repeat(300) })]
        });
        let mut setup = Setup::with_models([Arc::clone(&model)]);
        for number in 0..window / 40 {
            let name = format!("tool_{number}_{}", "x".repeat(48));
            setup = setup.trusted(&name, EffectClass::ReadOnly, Behaviour::Dumps("done".to_owned().into()));
        }
        let world = World::start(setup).await;
        let mut turns = 0;
        while model.requests().iter().filter(|request| is_summary(request)).count() < 3 {
            turns += 1;
            assert!(turns < 200, "{window}: no summaries");
            let started = world.begin(&format!("{turns} {}", "a".repeat(300))).await;
            let transcript = world.transcript(&started).await;
            assert!(transcript.ends_with("completed\n"), "{window}: {transcript}");
        }
        let requests = model.requests();
        let fixed = context::estimate_tools(&requests[0].tools);
        assert!(fixed > window * 6 / 10, "{fixed} of {window}");
        let asked: Vec<_> = requests.iter().filter(|request| is_summary(request)).collect();
        let sizes: Vec<_> = asked.iter().filter_map(|request| request.options.max_output_tokens).collect();
        println!("window {window}, tools {fixed}: summaries of {sizes:?} tokens");
        assert!(sizes.iter().all(|size| *size >= (window / 20).min(512)), "{window}: {sizes:?}");
    }
}
