//! News of tools that run: shown as it comes, before the result, within bounds.

use std::time::Duration;

use everturn_core::{EffectClass, Event, Json};
use everturn_tools::{Reporter, ToolContext};
use expect_test::expect;

use super::harness::*;

/// A model that makes these calls and then says that it is done.
fn calls(names: &[&str]) -> Setup {
    let mut script: Script = names.iter().map(|name| call(name, "{}")).collect();
    script.push(stop());
    Setup::new([script, vec![say("Done."), stop()]])
}

fn progress(reporter: &Reporter, step: usize) {
    let params = Json::of(&serde_json::json!({ "progress": step })).unwrap();
    reporter.notify("notifications/progress", params);
}

/// The news of a log, by the tool that told it, and where its result stands among them.
fn told(log: &[(u64, Event)]) -> Vec<(String, String)> {
    let name = |id| {
        log.iter().find_map(|(_, event)| match event {
            Event::ToolCalled { call, .. } if call.id == id => Some(call.name.clone()),
            _ => None,
        })
    };
    let line = |event: &Event| match event {
        Event::Notified { call_id: Some(id), params, .. } => Some((name(id.clone())?, params.as_str().to_owned())),
        Event::ToolFinished { call_id, .. } => Some((name(call_id.clone())?, "result".to_owned())),
        _ => None,
    };
    log.iter().filter_map(|(_, event)| line(event)).collect()
}

#[tokio::test(start_paused = true)]
async fn news_comes_in_order_before_the_result() {
    let report = Behaviour::does(async |ToolContext { reporter, .. }| {
        progress(&reporter, 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let message = Json::parse(r#"{"level":"info","data":"half-way"}"#).unwrap();
        reporter.notify("notifications/message", message);
        progress(&reporter, 2);
        "ready".to_owned()
    });
    let setup = calls(&["report"]).trusted("report", EffectClass::ReadOnly, report);
    check(
        setup,
        [Act::User("go"), Act::History],
        expect![[r#"
            > go
            1 turn started in a new session: user: "go"
            2 step 1 with test/one
            3 call c1 report{} (inline)
            4 step finished: ToolUse, 100+10 tokens: [c1 report{}]
            5 intent c1 as e1 (ReadOnly)
            6 news of c1: notifications/progress {"progress":1}
            7 news of c1: notifications/message {"level":"info","data":"half-way"}
            8 news of c1: notifications/progress {"progress":2}
            9 result c1: "ready"
            10 step 2 with test/one
            11 text "Done."
            12 step finished: Stop, 100+10 tokens: "Done."
            13 ended, 200+20 tokens: completed
            > history
            user: "go"
            assistant: [c1 report{}]
            result c1: "ready"
            assistant: "Done."
        "#]],
    )
    .await;
}

/// A tool that reports every 20 seconds, for so long, where silence may last 30 seconds and a call two minutes.
fn lively(seconds: u64) -> Behaviour {
    Behaviour::does(move |ToolContext { reporter, .. }| async move {
        for step in 1..=seconds / 20 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            progress(&reporter, step as usize);
        }
        "built".to_owned()
    })
}

#[tokio::test(start_paused = true)]
async fn progress_extends_a_call_up_to_its_maximum() {
    let setup = calls(&["short", "long", "safe"])
        .trusted("short", EffectClass::Effectful, lively(100))
        .trusted("long", EffectClass::Effectful, lively(200))
        .trusted("safe", EffectClass::Idempotent, lively(200));
    let world = World::start(setup).await;
    world.act(Act::User("go")).await;
    let told = world.stored().await;
    assert!(told.contains(r#"result c1: "built""#), "{told}");
    let limit = "Tool call timed out: it took 120s in all, which is its limit (`max_timeout`).";
    let unknown = format!(r#"result c2 error: "{limit} Whether it had its effect is unknown; check before you"#);
    assert!(told.contains(&unknown), "{told}");
    assert!(told.contains(&format!(r#"result c3 error: "{limit} You may call it again""#)), "{told}");
    assert!(world.setup.ledger.running() == 0, "they were dropped");
}

/// What may be of another call says nothing of this one.
#[tokio::test(start_paused = true)]
async fn news_of_other_calls_is_no_sign_of_life() {
    let overhears = Behaviour::does(async |ToolContext { reporter, .. }| {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            reporter.overheard("notifications/message", Json::empty_object());
        }
        "done".to_owned()
    });
    let world = World::start(calls(&["deaf"]).trusted("deaf", EffectClass::ReadOnly, overhears)).await;
    world.act(Act::User("go")).await;
    let told = world.stored().await;
    assert!(told.contains("no sign of life for 30s, which is its limit (`timeout`). You may call it again"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn news_is_shown_while_the_tool_still_runs() {
    let gate = Gate::closed();
    let held = gate.clone();
    let report = Behaviour::does(move |ToolContext { reporter, .. }| {
        let held = held.clone();
        async move {
            progress(&reporter, 1);
            held.pass().await;
            "ready".to_owned()
        }
    });
    let world = World::start(calls(&["report"]).trusted("report", EffectClass::ReadOnly, report)).await;
    let started = world.begin("go").await;
    gate.waiting(1).await;
    until(async || world.stored().await.contains("news of c1")).await;
    assert_eq!(world.setup.ledger.running(), 1);
    gate.open();
    assert!(world.transcript(&started).await.ends_with("completed\n"));
}

/// Both tell as much as fits before they are looked at, and end at once.
#[tokio::test(start_paused = true)]
async fn what_several_tools_tell_at_once_stands_before_their_results() {
    let report = || {
        Behaviour::does(async |ToolContext { reporter, .. }| {
            (1..=200).for_each(|step| progress(&reporter, step));
            "ready".to_owned()
        })
    };
    let names = ["one", "two", "three"];
    let setup = names.iter().fold(calls(&names), |setup, name| setup.trusted(name, EffectClass::ReadOnly, report()));
    let world = World::start(setup).await;
    world.act(Act::User("go")).await;
    let all = told(&world.log().await);
    for tool in names {
        let own: Vec<_> = all.iter().filter(|(name, _)| name == tool).map(|(_, line)| line.as_str()).collect();
        let expected: Vec<_> = (1..=200).map(|step| format!(r#"{{"progress":{step}}}"#)).collect();
        assert_eq!(own[..200], expected, "{tool}");
        assert_eq!(own[200..], ["result"], "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn news_is_bounded_in_number_and_length() {
    let report = Behaviour::does(async |ToolContext { reporter, .. }| {
        let text = |bytes: usize| Json::of(&"x".repeat(bytes - 2)).unwrap();
        let method = "m";
        reporter.notify(method, text(16 * 1024 - 1));
        reporter.notify(method, text(16 * 1024));
        for step in 1..=1200 {
            progress(&reporter, step);
            tokio::task::yield_now().await;
        }
        "ready".to_owned()
    });
    let world = World::start(calls(&["report"]).trusted("report", EffectClass::ReadOnly, report)).await;
    assert!(world.act(Act::User("go")).await.ends_with("completed\n"));
    let all = told(&world.log().await);
    assert_eq!(all.len(), 1001, "a thousand and the result");
    assert_eq!(all[0].1.len(), 16 * 1024 - 1);
    assert_eq!(all[1].1, r#"{"progress":1}"#, "what is too long is left out");
    assert_eq!(all[999].1, r#"{"progress":999}"#);
}

/// A segment is given to readers whole, so news must not pile up while a commit is under way.
#[tokio::test(start_paused = true)]
async fn news_does_not_pile_up_before_the_store() {
    let report = Behaviour::does(async |ToolContext { reporter, .. }| {
        for _ in 0..1000 {
            reporter.notify("m", Json::of(&"x".repeat(16_000)).unwrap());
            tokio::task::yield_now().await;
        }
        "ready".to_owned()
    });
    let world = World::start(calls(&["report"]).trusted("report", EffectClass::ReadOnly, report)).await;
    let started = world.begin("go").await;
    world.setup.ledger.until_running(1).await;
    world.store.faults().hold();
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.store.faults().release();
    world.transcript(&started).await;
    let segments = everturn_store::Store::read(&world.store, &started.turn, 0, usize::MAX).await.unwrap();
    let longest = segments.iter().map(|segment| segment.bytes().len()).max().unwrap();
    assert!(longest < 256 * 1024, "a segment of {longest} bytes");
}

/// A tool that never stops telling goes on all the same, and so does the one beside it.
#[tokio::test(start_paused = true)]
async fn a_flood_of_news_starves_nobody() {
    let flood = Behaviour::does(async |ToolContext { reporter, .. }| {
        for step in 0..100_000 {
            progress(&reporter, step);
            if step % 300 == 0 {
                tokio::task::yield_now().await;
            }
        }
        "ready".to_owned()
    });
    let slow = Behaviour::Slow(Duration::from_millis(5));
    let setup = calls(&["flood", "quiet"]).trusted("flood", EffectClass::ReadOnly, flood);
    let world = World::start(setup.trusted("quiet", EffectClass::ReadOnly, slow)).await;
    assert!(world.act(Act::User("go")).await.ends_with("completed\n"));
    let all = told(&world.log().await);
    assert_eq!(all.iter().filter(|(name, line)| name == "flood" && line != "result").count(), 1000);
    assert_eq!(all.iter().filter(|(_, line)| line == "result").count(), 2);
}

/// What it left behind has nothing more to tell once its result is there, and can ask nobody.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_over_tells_and_asks_nothing() {
    let (gate, asked) = (Gate::closed(), tokio::sync::mpsc::unbounded_channel());
    let (held, sender) = (gate.clone(), asked.0);
    let left = Behaviour::does(move |ToolContext { reporter, .. }| {
        let sender = sender.clone();
        tokio::spawn(async move {
            progress(&reporter, 1);
            let question = super::questions::question("Still there?");
            sender.send(reporter.ask(question).await).unwrap();
        });
        async { "ready".to_owned() }
    });
    let gated = Behaviour::Gated(held);
    let setup = calls(&["leaves", "gated"]).trusted("leaves", EffectClass::ReadOnly, left);
    let world = World::start(setup.trusted("gated", EffectClass::ReadOnly, gated)).await;
    let started = world.begin("go").await;
    let mut replies = asked.1;
    let reply = in_time("for the answer", replies.recv()).await.unwrap();
    assert_eq!(reply, everturn_tools::Reply::Cancelled);
    gate.open();
    let transcript = world.transcript(&started).await;
    assert!(!transcript.contains("form"), "{transcript}");
    assert_eq!(world.forms_shown().await, "");
}
