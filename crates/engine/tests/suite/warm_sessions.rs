//! Sessions that are kept in memory: a model is given the same with them and without.

use std::sync::Arc;

use everturn_core::{
    Message,
    submission::{OnBusy, Submission},
};
use everturn_engine::{Cut, Submit};
use everturn_models::{ModelFinish, ModelRequest};
use prometheus_client::{encoding::text, registry::Registry};

use super::{
    cuts::{conversation, talk},
    harness::*,
};

/// A model that does what the last message says.
fn obedient() -> Arc<ScriptedModel> {
    ScriptedModel::thinking("test/one", |request| {
        if request.system.is_empty() {
            return vec![say("They talked."), stop()];
        }
        if format!("{:?}", request.messages).contains("evil") {
            return vec![say("No."), finish(ModelFinish::Refusal, None)];
        }
        match request.messages.last() {
            Some(Message::User { content }) => match content.text().rsplit(' ').next().unwrap_or_default() {
                "look" => vec![think("Hm."), say("I look."), call("look", "{}"), call("book", "{}"), stop()],
                "ask" => vec![call("look", "{}"), call("weather", "{}"), stop()],
                "pay" => vec![say("May I?"), call("pay", "{}"), stop()],
                "hang" => vec![say("Well"), Beat::Silence],
                _ => vec![say("You said so."), stop()],
            },
            _ => vec![say("Done."), stop()],
        }
    })
}

/// Begins a turn that never ends by itself, and stops it.
async fn stopped(world: &World, model: &ScriptedModel, text: &str) {
    let calls = model.requests().len();
    let started = world.begin(text).await;
    model.called(calls + 1).await;
    world.stop().await.unwrap();
    world.transcript(&started).await;
}

/// A session in which everything happens that history can be made of. Gives what the model was asked.
async fn requests(warm_bytes: u64) -> (World, Vec<String>) {
    let model = obedient().with_window(3_000);
    let setup = Setup::with_models([model.clone()]).settings(|settings| settings.warm_bytes = warm_bytes);
    let mut world = World::start(setup).await;
    let say = async |world: &World, text: &str| talk(world, world.message(text)).await;
    for text in ["hello", "please look", "and ask", "thanks"] {
        say(&world, text).await;
    }
    // A turn that waits is answered, and one that waits is superseded, twice.
    for text in ["pay", "no, pay", "no, never mind"] {
        let started = world.begin(text).await;
        world.transcript(&started).await;
    }
    let started = world.begin("now pay").await;
    world.transcript(&started).await;
    let calls = world.conversation(&world.tenant, &world.session()).await.unwrap();
    let call = calls.iter().flat_map(|said| said.message.tool_uses()).last().unwrap().id.clone();
    let answer = everturn_core::Answer::Permission { call_id: call, granted: true, reason: None };
    let answers = Submission::Answers(vec![answer]);
    talk(&world, world.submission(answers, Default::default())).await;
    // Users' messages next to each other.
    stopped(&world, &model, "please hang").await;
    stopped(&world, &model, "do hang").await;
    say(&world, "go on").await;
    // Messages that wait, and one that is stopped while it waits.
    let calls = model.requests().len();
    let runs = world.begin("let it hang").await;
    model.called(calls + 1).await;
    let queued = [world.enqueue("one").await, world.enqueue("two").await, world.enqueue("three").await];
    world.stop_turn(&queued[1].turn).await.unwrap();
    world.stop_turn(&runs.turn).await.unwrap();
    world.end_of(&queued[2].turn).await;
    // A turn whose place an interrupt takes.
    let calls = model.requests().len();
    world.begin("then hang").await;
    model.called(calls + 1).await;
    let started = world.send("enough", OnBusy::Interrupt).await.unwrap();
    world.transcript(&started).await;
    // Both sides of a fork go on.
    let parent = world.session();
    let fork = world.fork(Cut::Nothing).await.unwrap();
    *world.session_in_view() = Some(fork);
    for text in ["in the fork", "still there, look"] {
        say(&world, text).await;
    }
    *world.session_in_view() = Some(parent.clone());
    say(&world, "back, look").await;
    // Cut between two turns, and within one.
    for from_end in [2, 3] {
        let said = conversation(&world, &parent).await;
        world.truncate(Cut::Before(said[said.len() - from_end].id.clone())).await.unwrap();
        say(&world, "after the cut").await;
        say(&world, "after the cut, look").await;
    }
    world = world.restart_in(parent).await;
    say(&world, "after the crash").await;
    say(&world, "and on, ask").await;
    for text in ["evil", "why", "why not", "so"] {
        say(&world, text).await;
    }
    for number in 0..8 {
        say(&world, &format!("{number} {} look", "a".repeat(1500))).await;
    }
    for text in ["anew, look", "and on", "and ask"] {
        let begins_history = text.starts_with("anew");
        talk(&world, Submit { begins_history, ..world.message(text) }).await;
    }
    let shown = |request: &ModelRequest| format!("{}\n{}", request.system, world.shown(&request.messages.to_vec()));
    let asked = model.requests().iter().map(shown).collect();
    (world, asked)
}

/// What a metric says.
fn metric(world: &World, name: &str) -> u64 {
    let (mut registry, mut shown) = (Registry::default(), String::new());
    world.setup.metrics.register(&mut registry);
    text::encode(&mut shown, &registry).unwrap();
    let line = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().expect("a number"))
}

#[tokio::test(start_paused = true)]
async fn a_model_is_given_the_same_from_memory_and_from_the_store() {
    let (world, cold) = requests(0).await;
    assert_eq!(metric(&world, r#"everturn_history_loads_total{kind="memory"}"#), 0);
    let (world, warm) = requests(1 << 20).await;
    assert!(metric(&world, r#"everturn_history_loads_total{kind="memory"}"#) > 30);
    for (number, (warm, cold)) in warm.iter().zip(&cold).enumerate() {
        assert_eq!(warm, cold, "request {number}");
    }
    assert_eq!(warm.len(), cold.len());
    let summaries = warm.iter().filter(|request| request.contains("The server's summary of earlier messages")).count();
    assert!(summaries > 0, "history was compacted");
    assert!(warm.iter().any(|request| request.contains("What was said here was declined")));
}

/// Of what a summary stands for nothing is kept in memory but what the model is still given: the system message, the first of
/// the user's. The same is read from the store.
#[tokio::test(start_paused = true)]
async fn what_a_summary_stands_for_is_forgotten() {
    const TEXT: usize = 2000;
    let run = async |warm_bytes: u64| {
        let model = obedient().with_window(8_000);
        let setup = Setup::with_models([model.clone()]).settings(|settings| settings.warm_bytes = warm_bytes);
        let world = World::start(setup).await;
        for number in 0..90 {
            let mut message = world.message(&format!("{number} {} ok", "a".repeat(TEXT)));
            if number == 0
                && let Submission::Begin(messages) = &mut message.submission
            {
                messages.insert(0, Message::System { content: "rule".to_owned() });
            }
            let started = world.submit(message).await.unwrap();
            world.end_of(&started.turn).await;
        }
        let shown = |request: &ModelRequest| format!("{}\n{}", request.system, world.shown(&request.messages.to_vec()));
        let asked: Vec<String> = model.requests().iter().map(shown).collect();
        (world, asked)
    };
    let (_, cold) = run(0).await;
    let (world, warm) = run(1 << 20).await;
    assert_eq!(warm.len(), cold.len());
    for (number, (warm, cold)) in warm.iter().zip(&cold).enumerate() {
        assert_eq!(warm, cold, "request {number}");
    }
    let last = warm.last().unwrap();
    assert!(last.contains("rule") && last.contains("The server's summary of earlier messages"), "{last}");
    let kept = metric(&world, "everturn_warm_sessions_bytes");
    assert!(kept < 40 * TEXT as u64, "{kept} bytes of 90 turns are kept");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_in_memory_of_what_was_taken_away() {
    let world = World::start(Setup::with_models([obedient()])).await;
    for text in ["hello", "please look", "thanks", "bye"] {
        talk(&world, world.message(text)).await;
    }
    let kept = || metric(&world, "everturn_warm_sessions_bytes");
    assert!(kept() > 0);
    let said = conversation(&world, &world.session()).await;
    world.truncate(Cut::Before(said.last().unwrap().id.clone())).await.unwrap();
    assert_eq!(kept(), 0, "of a session that was truncated");
    talk(&world, world.message("again")).await;
    assert!(kept() > 0);
    world.delete(&world.tenant, &world.session(), None).await.unwrap();
    assert_eq!(kept(), 0, "of a session that was deleted");
}

/// A turn that waits for its application again and again writes what each leg adds, and nothing of those before.
#[tokio::test(start_paused = true)]
async fn a_leg_writes_what_it_adds() {
    const LEGS: usize = 8;
    let scripts = (0..LEGS).map(|leg| vec![say(&format!("Look {leg}.")), call("weather", "{}"), stop()]);
    let scripts: Vec<_> = scripts.chain([vec![say("Sunny."), stop()]]).collect();
    let mut world = World::start(Setup::new(scripts)).await;
    world.engine.shutdown(std::time::Duration::ZERO).await;
    let store = CrashStore::new(world.store.clone(), None);
    world.engine = world.setup.start(store.clone()).await.unwrap();
    world.act(Act::User("weather?")).await;
    for leg in 1..=LEGS {
        let call: &'static str = format!("c{leg}").leak();
        let transcript = world.act(Act::Answers(vec![result(call, "sun")])).await;
        assert!(!transcript.contains("refused"), "{transcript}");
    }
    // The first one has the message; each of the others the result and what the model said to it.
    let expected: Vec<_> = [(0, 2)].into_iter().chain((1..=LEGS).map(|leg| (2 * leg, 2))).collect();
    assert_eq!(store.asked().rests, expected);
}
