//! How summaries are asked for, and what can be used of what comes.

use std::{sync::Arc, time::Duration};

use everturn_core::{Message, submission::Submission};
use everturn_models::{ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};

use super::{
    compaction::{estimate, is_summary},
    harness::*,
    long_conversations::{compactions, facts, strict, summarised_by, text},
};

/// Repeats the facts that it is given, as a good summariser would.
fn repeats_facts(request: &ModelRequest) -> Beat {
    say(&facts(&text(request)).into_iter().collect::<Vec<_>>().join(" "))
}

/// Says a fact with this number somewhere in about 1,500 bytes.
fn with_fact(number: usize) -> String {
    format!("{} FACT{number} {}", "a".repeat(800), "b".repeat(700))
}

/// A window that is much smaller than was thought: what had been said until then is summarised in several requests, each of
/// which fits and is given what was summarised before it.
#[tokio::test(start_paused = true)]
async fn nothing_is_forgotten_where_the_window_is_smaller_than_was_thought() {
    let model = ScriptedModel::thinking("test/one", |request| match estimate(request) > 4000 {
        // As the provider of a model does whose window was guessed.
        true if request.messages.len() < 60 && !is_summary(request) => vec![say("Yes."), stop()],
        true => vec![fail(ModelErrorKind::ContextOverflow)],
        false if is_summary(request) => vec![repeats_facts(request), stop()],
        false => vec![say("Yes."), stop()],
    });
    let world = World::start(Setup::with_models([Arc::clone(&model)])).await;
    let mut turns = 0;
    while compactions(&world).await.is_empty() {
        turns += 1;
        let started = world.begin(&with_fact(turns)).await;
        let transcript = world.transcript(&started).await;
        assert!(transcript.ends_with("completed\n"), "{transcript}");
        assert!(turns < 40);
    }
    let known = facts(&text(model.requests().last().unwrap()));
    let all = (1..=turns).map(|turn| format!("FACT{turn}")).collect();
    assert_eq!(known, all);
    let made = compactions(&world).await;
    assert!(made.iter().all(|compaction| compaction.left_out == 0), "{made:?}");
}

/// The same for a conversation that is larger than the window from its beginning.
#[tokio::test(start_paused = true)]
async fn a_conversation_that_comes_larger_than_the_window_is_summarised_whole() {
    let model = strict(4000, |request| vec![if is_summary(request) { repeats_facts(request) } else { say("Yes.") }]);
    let world = World::start(Setup::with_models([Arc::clone(&model)])).await;
    let mut said = Vec::new();
    for number in 1..=60 {
        said.extend([Message::user(with_fact(number)), Message::assistant("Go on.")]);
    }
    said.push(Message::user("What do you know?"));
    let started = world.submit(world.submission(Submission::Begin(said), Default::default())).await.unwrap();
    assert!(world.transcript(&started).await.ends_with("completed\n"));
    assert_eq!(facts(&text(model.requests().last().unwrap())).len(), 60);
    let summaries = model.requests().iter().filter(|request| is_summary(request)).count();
    assert!((8..=16).contains(&summaries), "{summaries} requests");
}

/// What was summarised before a summariser fails is kept; the rest is left out until it works again.
#[tokio::test(start_paused = true)]
async fn a_summary_of_a_part_is_better_than_none() {
    let mut summaries = 0;
    let model = strict(4000, move |request| match is_summary(request) {
        true => {
            summaries += 1;
            vec![if summaries > 3 { fail(ModelErrorKind::Unavailable) } else { repeats_facts(request) }]
        }
        false => vec![say("Yes.")],
    });
    let world = World::start(Setup::with_models([Arc::clone(&model)])).await;
    let mut said: Vec<_> = (1..=30).map(|number| Message::user(with_fact(number))).collect();
    said.push(Message::user("What do you know?"));
    let started = world.submit(world.submission(Submission::Begin(said), Default::default())).await.unwrap();
    assert!(world.transcript(&started).await.ends_with("completed\n"));
    let made = compactions(&world).await.pop().unwrap();
    assert!((5..25).contains(&facts(&made.summary).len()), "{made:?}");
    assert!((5..25).contains(&made.left_out), "{made:?}");
    // Together they are all that is covered, but for the first message, which stays.
    assert_eq!(facts(&made.summary).len() + made.left_out + 1, made.covers, "{made:?}");
}

const SENTENCE: &str = "The user, who is called Ada, wants the report of the third quarter to be sent to Grace. ";

/// Whole sentences of what was cut off are better than nothing, once shorter ones were asked for in vain.
#[tokio::test(start_paused = true)]
async fn what_was_cut_off_is_used_where_nothing_better_comes() {
    let cut = format!("{}The assistant has", SENTENCE.repeat(2));
    let (world, ..) = summarised_by(move || vec![say(&cut), finish(ModelFinish::MaxTokens, None)]).await;
    let made = compactions(&world).await.pop().unwrap();
    assert_eq!((made.summary.as_str(), made.left_out), (SENTENCE.repeat(2).trim(), 0));
}

/// A model that always writes until it is cut off is asked once more, not for each part of what it is to summarise.
#[tokio::test(start_paused = true)]
async fn a_model_that_writes_too_much_is_not_asked_again_and_again() {
    for end in [finish(ModelFinish::MaxTokens, None), stop()] {
        let long = SENTENCE.repeat(200);
        let (world, model, _) = summarised_by(move || vec![say(&long), end.clone()]).await;
        assert!(compactions(&world).await.pop().unwrap().summary.starts_with(SENTENCE.trim()));
        assert_eq!(model.requests().iter().filter(|request| is_summary(request)).count(), 2);
    }
}

/// A model that thinks whatever it is asked is given room for its thoughts.
#[tokio::test(start_paused = true)]
async fn thoughts_are_given_the_room_that_they_take() {
    let model = ScriptedModel::thinking("test/one", |request| {
        if !is_summary(request) {
            return vec![say(&"b".repeat(2000)), stop()];
        }
        let room = request.options.max_output_tokens.unwrap();
        let thoughts = think(&"hm ".repeat(100));
        match room < 2000 {
            true => vec![thoughts, finish(ModelFinish::MaxTokens, None)],
            false => vec![thoughts, say("They talked."), stop()],
        }
    })
    .with_window(8000);
    let world = World::start(Setup::with_models([Arc::clone(&model)])).await;
    while compactions(&world).await.is_empty() {
        let started = world.begin(&"a".repeat(1000)).await;
        assert!(world.transcript(&started).await.ends_with("completed\n"));
    }
    assert_eq!(compactions(&world).await.pop().unwrap().summary, "They talked.");
}

/// One that writes for ever is never silent, and is ended all the same.
#[tokio::test(start_paused = true)]
async fn a_summary_without_an_end_does_not_hold_the_turn() {
    let drips = || {
        let ping = [Beat::Pause(Duration::from_secs(1)), Beat::Event(ModelEvent::Alive)];
        let mut script = vec![say(SENTENCE), say("And")];
        script.extend(ping.into_iter().cycle().take(100_000));
        script
    };
    let begun = tokio::time::Instant::now();
    let (world, ..) = summarised_by(drips).await;
    assert!(begun.elapsed() < Duration::from_secs(301), "{:?}", begun.elapsed());
    assert_eq!(compactions(&world).await.pop().unwrap().summary, SENTENCE.trim());
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_asked_for_shorter_after_one_that_cannot_be_used() {
    let (_, model, _) = summarised_by(|| vec![say(&"words ".repeat(500)), finish(ModelFinish::MaxTokens, None)]).await;
    let asked = model.requests().into_iter().filter(is_summary).map(|request| request.options.max_output_tokens);
    let asked: Vec<_> = asked.flatten().collect();
    assert_eq!(asked.len(), 3);
    assert!(asked.windows(2).all(|pair| pair[1] == pair[0] / 2), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_asked_for_within_the_limits_of_the_agent() {
    let model =
        strict(4000, |request| vec![say(&if is_summary(request) { "Short.".to_owned() } else { "b".repeat(400) })]);
    let setup =
        Setup::with_models([Arc::clone(&model)]).agent(|agent| agent.model_options.max_output_tokens = Some(100));
    let world = World::start(setup).await;
    while !model.requests().iter().any(is_summary) {
        let started = world.begin(&"a".repeat(400)).await;
        world.transcript(&started).await;
    }
    let request = model.requests().into_iter().find(is_summary).unwrap();
    assert_eq!(request.options.max_output_tokens, Some(100));
    assert!(text(&request).contains("in at most 25 words"), "{}", text(&request));
}
