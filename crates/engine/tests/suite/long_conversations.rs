//! Conversations that outgrow the window many times over: nothing gets stuck, and what matters is still there.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{
    Block, Content, EffectClass, Event, Message, Usage, compaction::READ_RESULT, submission::Submission,
};
use everturn_models::{ModelErrorKind, ModelFinish, ModelRequest};

use super::{
    compaction::{estimate, is_summary},
    harness::*,
};

/// All text of a request.
pub(super) fn text(request: &ModelRequest) -> String {
    let content = |message: &Message| match message {
        Message::System { content } => content.clone(),
        Message::User { content } | Message::Assistant { content } | Message::Tool { content, .. } => content.text(),
    };
    request.messages.iter().map(content).collect::<Vec<_>>().join("\n")
}

/// A model that refuses what does not fit its window, as providers do, and counts what it reads.
pub(super) fn strict(
    window: u64,
    mut brain: impl FnMut(&ModelRequest) -> Script + Send + 'static,
) -> Arc<ScriptedModel> {
    ScriptedModel::thinking("test/one", move |request| {
        assert_eq!(complaint(&request.messages.to_vec()), None, "{:#?}", request.messages);
        if estimate(request) + request.options.max_output_tokens.unwrap_or(0) > window {
            return vec![fail(ModelErrorKind::ContextOverflow)];
        }
        let mut script = brain(request);
        let usage = Some(Usage::of(estimate(request), 10));
        script.push(finish(ModelFinish::Stop, usage));
        script
    })
    .with_window(window)
}

/// How often the beginning of what the model was given has changed.
fn changes_of_prefix(requests: &[ModelRequest]) -> usize {
    let requests: Vec<_> = requests.iter().filter(|request| !is_summary(request)).collect();
    let grows = |pair: &[&ModelRequest]| {
        pair[1].tools == pair[0].tools
            && pair[1].system == pair[0].system
            && pair[1].messages.len() >= pair[0].messages.len()
            && pair[0].messages.iter().zip(pair[1].messages.iter()).all(|(one, other)| one == other)
    };
    requests.windows(2).filter(|pair| !grows(pair)).count()
}

pub(super) async fn compactions(world: &World) -> Vec<everturn_core::Compaction> {
    let mut made = Vec::new();
    if world.session_in_view().is_none() {
        return made;
    }
    for turn in world.engine.turns_below(&world.tenant, &world.session(), None, 1000).await.unwrap().iter().rev() {
        made.extend(world.log_of(&turn.id).await.into_iter().filter_map(|(_, event)| match event {
            Event::HistoryCompacted(compaction) => Some(compaction),
            _ => None,
        }));
    }
    made
}

#[tokio::test(start_paused = true)]
async fn a_result_larger_than_the_window_is_shortened_and_can_be_read() {
    let mut steps = 0;
    let model = strict(2000, move |request| {
        steps += 1;
        match steps {
            1 => vec![call("dump", "{}")],
            2 => {
                let shown = text(request);
                let (_, rest) = shown
                    .split_once(&format!("Call {READ_RESULT} with call_id \""))
                    .unwrap_or_else(|| panic!("no note: {shown}"));
                let (id, _) = rest.split_once('"').unwrap();
                vec![call(READ_RESULT, &format!(r#"{{"call_id":"{id}","offset":20000,"length":400}}"#))]
            }
            _ => vec![say("Done.")],
        }
    });
    let dump = Behaviour::Dumps((0..6000).map(|line| format!("line {line:04}\n")).collect::<String>().into());
    let setup = Setup::with_models([model.clone()]).trusted("dump", EffectClass::ReadOnly, dump);
    let mut world = World::start(setup).await;
    let transcript = world.act(Act::User("look at it")).await;
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    let requests = model.requests();
    assert_eq!(requests.len(), 3, "no summary was made");
    let offered = |request: &ModelRequest| request.tools.iter().any(|tool| tool.name == READ_RESULT);
    assert_eq!(requests.iter().map(offered).collect::<Vec<_>>(), [false, true, true]);
    assert!(text(&requests[1]).contains("line 0000\nline 0001") && text(&requests[1]).contains("line 5999"));
    let last = text(&requests[2]);
    assert!(
        last.contains("[bytes 20000 to 20400 of 60000; read on with offset 20400]\nline 2000\nline 2001\n"),
        "{last}"
    );
    assert_eq!(changes_of_prefix(&requests), 1);
    // What is shortened stays so, and the tool stays, after a crash and in later turns.
    world = world.restart().await;
    world.act(Act::User("and now?")).await;
    assert_eq!(changes_of_prefix(&model.requests()), 1);
    let history = world.history(&world.tenant, &world.session()).await.unwrap();
    assert!(
        history
            .full
            .iter()
            .any(|message| matches!(message, Message::Tool { content, .. } if content.text().len() == 60_000))
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_long_input_is_shortened_and_not_forgotten() {
    let written = "w".repeat(6000);
    let input = format!(r#"{{"title":"Whales","content":"{written}"}}"#);
    // A model that does what it was asked for until it sees that it is done.
    let model = strict(2000, move |request| {
        let is_done = request.messages.iter().flat_map(Message::tool_uses).any(|call| call.name == "save");
        if is_done { vec![say("Saved.")] } else { vec![call("save", &input)] }
    });
    let saved = Behaviour::Dumps("saved".to_owned().into());
    let setup = Setup::with_models([model.clone()]).trusted("save", EffectClass::Effectful, saved);
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("save a long text")).await;
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    let requests = model.requests();
    assert_eq!(requests.len(), 2, "it was saved once, and no summary was made");
    let call = requests[1].messages.iter().flat_map(Message::tool_uses).next().expect("the call is shown");
    assert!(call.input.as_str().contains("The call was made with all of them"), "{}", call.input.as_str());
}

#[tokio::test(start_paused = true)]
async fn read_result_is_refused_where_nothing_was_shortened_and_says_what_is_wrong() {
    let scripts = [vec![call(READ_RESULT, r#"{"call_id":"x"}"#), stop()], vec![say("No."), stop()]];
    let world = World::start(Setup::new(scripts)).await;
    let transcript = world.act(Act::User("read")).await;
    assert!(transcript.contains("There is no tool \\\"read_result\\\" in this session"), "{transcript}");
    let scripts = [
        vec![call(READ_RESULT, r#"{"call_id":"nonsense"}"#), stop()],
        vec![call(READ_RESULT, r#"{"call_id":"x","length":99999999}"#), stop()],
        vec![say("No."), stop()],
    ];
    let setup = Setup::new(scripts).agent(|agent| agent.internal_tools.push(READ_RESULT.to_owned()));
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("read")).await;
    assert!(transcript.contains("this conversation has no result of a call \\\"nonsense\\\""), "{transcript}");
    assert!(transcript.contains("99999999"), "{transcript}");
    assert!(transcript.ends_with("completed\n"), "{transcript}");
}

#[tokio::test(start_paused = true)]
async fn the_task_stays_while_a_long_turn_works_on_it() {
    let mut steps = 0;
    let model = strict(2000, move |request| {
        if is_summary(request) {
            return vec![say("They looked at things.")];
        }
        steps += 1;
        if steps % 41 == 0 { vec![say("Done.")] } else { vec![call("dump", "{}")] }
    });
    let setup = Setup::with_models([model.clone()])
        .trusted("dump", EffectClass::ReadOnly, Behaviour::Dumps("x".repeat(700).into()))
        .agent(|agent| agent.max_steps = 50);
    let world = World::start(setup).await;
    for question in ["first: the task", "second: more of it"] {
        let transcript = world.act(Act::User(question)).await;
        assert!(transcript.ends_with("completed\n"), "{transcript}");
    }
    let requests = model.requests();
    let summaries = requests.iter().filter(|request| is_summary(request)).count();
    assert!(summaries > 5, "{summaries}");
    for request in requests.iter().filter(|request| !is_summary(request)) {
        assert!(text(request).starts_with("first: the task"), "{}", text(request));
        assert!(!request.system.contains("They looked"), "a summary is no instruction of ours");
    }
    let (_, second) = requests.split_at(requests.iter().position(|request| text(request).contains("second:")).unwrap());
    assert!(second.iter().filter(|request| !is_summary(request)).all(|request| text(request).contains("second: more")));
    assert_eq!(changes_of_prefix(&requests), compactions(&world).await.len());
}

#[tokio::test(start_paused = true)]
async fn a_message_larger_than_the_window_is_shortened_in_what_the_model_is_given() {
    let model = strict(1000, |request| vec![say(if is_summary(request) { "They talked." } else { "Yes." })]);
    let world = World::start(Setup::with_models([model.clone()])).await;
    for _ in 0..3 {
        let started = world.begin(&format!("begin {} end", "a".repeat(40_000))).await;
        let transcript = world.transcript(&started).await;
        assert!(transcript.ends_with("completed\n"), "{}", transcript.lines().last().unwrap());
        let given = text(model.requests().last().unwrap());
        assert!(given.contains("begin aaa") && given.contains("bytes of this message are left out here"), "{given}");
        assert!(given.ends_with("aaa end"), "{given}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_instructions_that_do_not_fit_end_a_turn() {
    let model = strict(1000, |_| vec![say("Yes.")]);
    let setup = Setup::with_models([model.clone()]).agent(|agent| agent.instructions = "Be good. ".repeat(500));
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("hello")).await;
    assert!(transcript.ends_with("max tokens\n"), "{transcript}");
    assert_eq!(model.requests().len(), 0);
}

/// An agent with more tools than the window holds answers with the tools that fit, and says so.
#[tokio::test(start_paused = true)]
async fn tools_that_do_not_fit_are_left_out() {
    let model = strict(2000, |_| vec![say("Yes.")]);
    let mut setup = Setup::with_models([model.clone()]);
    for number in 0..60 {
        let name = format!("tool_{number}_{}", "x".repeat(48));
        setup = setup.trusted(&name, EffectClass::ReadOnly, Behaviour::Dumps("done".to_owned().into()));
    }
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("hello")).await;
    assert!(transcript.contains("tools are left out: their descriptions have about"), "{transcript}");
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    let offered = model.requests()[0].tools.len();
    assert!((10..60).contains(&offered), "{offered}");
}

/// Instructions may take most of the window: the room for the answer gives way before the conversation is given up.
#[tokio::test(start_paused = true)]
async fn long_instructions_do_not_get_a_session_stuck() {
    for (instructions, cap) in [(4000, None), (5500, None), (6000, None), (4000, Some(4000)), (5000, Some(3000))] {
        let model = ScriptedModel::thinking("test/one", |request| match estimate(request) > 8192 {
            true => vec![fail(ModelErrorKind::ContextOverflow)],
            false if is_summary(request) => vec![say("They talked."), stop()],
            false => vec![say("Yes."), stop()],
        })
        .with_window(8192);
        let setup = Setup::with_models([model.clone()]).agent(|agent| {
            // Four bytes are about a token.
            agent.instructions = "good".repeat(instructions);
            agent.model_options.max_output_tokens = cap;
        });
        let world = World::start(setup).await;
        for turn in 0..30 {
            let started = world.begin(&format!("{turn} {}", "word ".repeat(80))).await;
            let transcript = world.transcript(&started).await;
            assert!(transcript.ends_with("completed\n"), "{instructions} {cap:?} {turn}: {transcript}");
        }
        assert!(model.requests().iter().any(is_summary), "{instructions} {cap:?}");
    }
}

/// The first and the current message stay as they are where both fit.
#[tokio::test(start_paused = true)]
async fn the_users_words_are_not_cut_where_they_fit() {
    let model = strict(8000, |_| vec![say("Yes.")]);
    let world = World::start(Setup::with_models([model.clone()])).await;
    for turn in 0..6 {
        let started = world.begin(&format!("begin{turn} {} end{turn}", "word".repeat(2500))).await;
        let transcript = world.transcript(&started).await;
        assert!(transcript.ends_with("completed\n"), "{turn}: {transcript}");
        let given = text(model.requests().last().unwrap());
        assert!(!given.contains("bytes of this message are left out here"), "{turn}");
        assert!(given.contains("end0") && given.contains(&format!("end{turn}")), "{turn}");
    }
}

/// The words of a text that begin with FACT.
pub(super) fn facts(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| word.starts_with("FACT"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_fact_of_the_first_turn_is_still_there_after_ten_compactions() {
    // It repeats the facts that it is given, as a good summariser would.
    let model = strict(2000, |request| {
        if is_summary(request) {
            return vec![say(&facts(&text(request)).into_iter().collect::<Vec<_>>().join(" "))];
        }
        vec![say(&"b".repeat(600))]
    });
    let world = World::start(Setup::with_models([model.clone()])).await;
    let mut turns = 0;
    while compactions(&world).await.len() < 10 {
        turns += 1;
        let fact = if turns <= 3 { format!("FACT{turns} ") } else { String::new() };
        // Not in the very first message, which stays verbatim.
        let question = if turns == 1 { "hello".to_owned() } else { format!("{fact}{}", "a".repeat(300)) };
        let started = world.begin(&question).await;
        assert!(world.transcript(&started).await.ends_with("completed\n"));
        assert!(turns < 300);
    }
    let made = compactions(&world).await;
    assert_eq!(made.last().unwrap().summary, "FACT2 FACT3");
    // The earlier summary is given whole to each later one.
    let summaries: Vec<_> = model.requests().into_iter().filter(is_summary).collect();
    for (request, earlier) in summaries[1..].iter().zip(&made) {
        assert!(text(request).contains(&format!("Earlier summary: {}\n", earlier.summary)), "{}", text(request));
    }
}

#[tokio::test(start_paused = true)]
async fn images_and_documents_leave_a_line_in_what_is_summarised() {
    let model = strict(4000, |request| vec![say(if is_summary(request) { "They looked." } else { "Nice." })]);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let image = Block::Image { url: "https://example.org/x.png".into() };
    let document = Block::Document { id: "doc_1".parse().unwrap(), name: "plan.pdf".to_owned() };
    world.act(Act::User("hello")).await;
    let content = Content::Blocks(vec![image, Block::Text("look".to_owned()), document]);
    let submit = world.submission(Submission::Begin(vec![Message::User { content }]), Default::default());
    let started = world.submit(submit).await.unwrap();
    world.transcript(&started).await;
    while !model.requests().iter().any(is_summary) {
        let started = world.begin(&"a".repeat(1000)).await;
        world.transcript(&started).await;
    }
    let request = model.requests().into_iter().find(is_summary).unwrap();
    assert!(text(&request).contains("User: [image]\nlook\n[document plan.pdf]\n"), "{}", text(&request));
}

/// Talks until history was compacted, with a summariser that does this.
pub(super) async fn summarised_by(
    does: impl Fn() -> Script + Send + 'static,
) -> (World, Arc<ScriptedModel>, Arc<Mutex<bool>>) {
    let works = Arc::new(Mutex::new(false));
    let recovered = Arc::clone(&works);
    let model = ScriptedModel::thinking("test/one", move |request| {
        if !is_summary(request) {
            return vec![say(&"b".repeat(200)), stop()];
        }
        if *recovered.lock().unwrap() {
            return vec![say(&facts(&text(request)).into_iter().collect::<Vec<_>>().join(" ")), stop()];
        }
        does()
    });
    let model = model.with_window(1000);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let mut turns = 0;
    while compactions(&world).await.is_empty() {
        turns += 1;
        let started = world.begin(&format!("FACT{turns} {}", "a".repeat(200))).await;
        let transcript = world.transcript(&started).await;
        assert!(transcript.ends_with("completed\n"), "{transcript}");
        assert!(turns < 20);
    }
    (world, model, works)
}

#[tokio::test(start_paused = true)]
async fn a_turn_goes_on_whatever_the_summariser_does() {
    type Does = fn() -> Script;
    let summarisers: [(&str, Does); 9] = [
        ("fails", || vec![fail(ModelErrorKind::Unavailable)]),
        ("is rejected", || vec![fail(ModelErrorKind::Rejected)]),
        ("overflows", || vec![fail(ModelErrorKind::ContextOverflow)]),
        ("refuses", || vec![say("No."), finish(ModelFinish::Refusal, None)]),
        ("says nothing", || vec![say(" \n"), stop()]),
        ("is cut off", || vec![say("They"), finish(ModelFinish::MaxTokens, None)]),
        ("talks too long", || vec![say(&"words ".repeat(5000)), stop()]),
        ("is silent", || vec![Beat::Silence]),
        ("declines in words", || vec![say("I'm sorry, I can't help with that."), stop()]),
    ];
    for (name, does) in summarisers {
        let begun = tokio::time::Instant::now();
        let (world, model, works) = summarised_by(does).await;
        assert!(begun.elapsed() < Duration::from_secs(240), "{name}: {:?}", begun.elapsed());
        let made = compactions(&world).await.pop().unwrap();
        assert_eq!((made.summary.as_str(), made.left_out), ("", made.covers), "{name}");
        let given = text(model.requests().last().unwrap());
        let note = format!("[{} messages are left out: they could not be summarised.]", made.left_out);
        assert!(given.contains(&note), "{name}: {given}");
        assert!(given.contains("[The last of them began so:]\n") && given.contains("\nUser: FACT"), "{name}: {given}");
        // What was left out is summarised as soon as that works again.
        *works.lock().unwrap() = true;
        while compactions(&world).await.len() < 2 {
            let started = world.begin(&"a".repeat(200)).await;
            world.transcript(&started).await;
        }
        let made = compactions(&world).await.pop().unwrap();
        assert_eq!((made.left_out, made.summary.contains("FACT2")), (0, true), "{name}: {made:?}");
    }
}

/// A provider that asks to wait, or lets nobody in, loses nobody's history: the summary is made when it can be.
#[tokio::test(start_paused = true)]
async fn a_summary_that_can_be_made_later_is_waited_for() {
    for kind in [ModelErrorKind::RateLimited, ModelErrorKind::Denied] {
        let works = Arc::new(Mutex::new(false));
        let recovered = Arc::clone(&works);
        let model = ScriptedModel::thinking("test/one", move |request| match is_summary(request) {
            true if !*recovered.lock().unwrap() => vec![fail(kind)],
            is_summary => vec![say(if is_summary { "They spoke." } else { "Well." }), stop()],
        });
        let world = World::start(Setup::with_models([model.with_window(8000)])).await;
        let speak = async || {
            let started = world.begin(&"a".repeat(2000)).await;
            let transcript = world.transcript(&started).await;
            assert!(transcript.ends_with("completed\n"), "{transcript}");
        };
        for _ in 0..14 {
            speak().await;
        }
        assert_eq!(compactions(&world).await, [], "{kind:?}");
        *works.lock().unwrap() = true;
        speak().await;
        assert_eq!(compactions(&world).await.len(), 1, "{kind:?}");
    }
}

/// In a long turn, too, a summariser that asks to wait is asked now and then, and readers are told.
#[tokio::test(start_paused = true)]
async fn a_summariser_that_asks_to_wait_is_not_asked_at_every_step() {
    let mut steps = 0;
    let model = ScriptedModel::thinking("test/one", move |request| {
        if is_summary(request) {
            return vec![fail(ModelErrorKind::RateLimited)];
        }
        steps += 1;
        if steps <= 24 { vec![call("dump", "{}"), stop()] } else { vec![say("Done."), stop()] }
    });
    let model = model.with_window(8000);
    let dump = Behaviour::Dumps("x".repeat(1000).into());
    let setup = Setup::with_models([model.clone()]).trusted("dump", EffectClass::ReadOnly, dump);
    let setup = setup.agent(|agent| agent.max_steps = 60);
    let world = World::start(setup).await;
    let begun = tokio::time::Instant::now();
    let transcript = world.act(Act::User("look often")).await;
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    assert!(transcript.contains("goes on without a summary"), "{transcript}");
    let asked = model.requests().into_iter().filter(is_summary).count();
    assert!((1..=6).contains(&asked), "{asked} times");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// A model that goes by what it is shown does nothing twice, also if no summary was ever made of what it did.
#[tokio::test(start_paused = true)]
async fn what_was_done_is_known_without_a_summary() {
    let model = strict(4000, |request| {
        if is_summary(request) {
            return vec![say("")];
        }
        let calls = request.messages.iter().flat_map(Message::tool_uses).map(|call| call.input.as_str().to_owned());
        let shown = calls.chain([text(request)]).collect::<String>();
        // Of the oldest jobs only the numbers are told.
        let numbers = |line: &str| line.split_once("times: ").map(|(_, numbers)| format!(" {numbers},"));
        let bare: String = shown.lines().filter(|line| line.starts_with("Called work")).filter_map(numbers).collect();
        let is_done =
            |number: &usize| shown.contains(&format!(r#"{{"job":{number}}}"#)) || bare.contains(&format!(" {number},"));
        match (1..=60).find(|number| !is_done(number)) {
            Some(number) => vec![call("work", &format!(r#"{{"job":{number}}}"#))],
            None => vec![say("Done.")],
        }
    });
    let worked = Behaviour::Dumps("r".repeat(600).into());
    let setup = Setup::with_models([model.clone()]).agent(|agent| agent.max_steps = 90).trusted(
        "work",
        EffectClass::Effectful,
        worked,
    );
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("do the jobs")).await;
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    let steps = model.requests().into_iter().filter(|request| !is_summary(request)).count();
    assert_eq!(steps, 61, "every job was done once");
}

/// A tool result gives way before a word of the user's does, and the answer's room before both.
#[tokio::test(start_paused = true)]
async fn results_give_way_before_the_users_words() {
    let sizes = [
        (4000, 15_700, 9000),
        (10_000, 12_000, 9000),
        (4000, 20_000, 9000),
        (25_000, 2000, 9000),
        (2000, 25_000, 40_000),
    ];
    for (first, current, result) in sizes {
        let model = strict(8000, move |request| match request.messages.last() {
            Some(Message::User { content }) if content.text().contains("current") => vec![call("dump", "{}")],
            _ => vec![say("Well.")],
        });
        let dump = Behaviour::Dumps("x".repeat(result).into());
        let setup = Setup::with_models([model.clone()]).trusted("dump", EffectClass::ReadOnly, dump);
        let world = World::start(setup).await;
        let started = world.begin(&format!("first {} end", "a".repeat(first))).await;
        world.transcript(&started).await;
        let started = world.begin(&format!("current {} end", "b".repeat(current))).await;
        let transcript = world.transcript(&started).await;
        assert!(transcript.ends_with("completed\n"), "{transcript}");
        let given = text(model.requests().last().unwrap());
        assert!(given.contains(&"a".repeat(first)) && given.contains(&"b".repeat(current)), "{first} {current}");
    }
}
