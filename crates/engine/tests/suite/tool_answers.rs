//! Tool calls that wait: for the application's results and people's permissions.

use everturn_core::ToolRef;
use everturn_engine::SessionUpdate;
use expect_test::expect;

use super::harness::*;

#[tokio::test(start_paused = true)]
async fn a_client_tool_waits_and_goes_on() {
    let setup = Setup::new([vec![call("weather", r#"{"text": "Oslo"}"#), stop()], vec![say("Cold."), stop()]]);
    let acts = [Act::User("weather?"), Act::Answers(vec![result("c1", "-3")]), Act::History];
    check(
        setup,
        acts,
        expect![[r#"
            > weather?
            1 turn started in a new session: user: "weather?"
            2 step 1 with test/one
            3 call c1 weather{"text": "Oslo"} (client)
            4 step finished: ToolUse, 100+10 tokens: [c1 weather{"text": "Oslo"}]
            5 waiting for result of c1 weather
            > answers
            6 resumed: c1 gave "-3"
            7 step 2 with test/one
            8 text "Cold."
            9 step finished: Stop, 100+10 tokens: "Cold."
            10 ended, 200+20 tokens: completed
            > history
            user: "weather?"
            assistant: [c1 weather{"text": "Oslo"}]
            result c1: "-3"
            assistant: "Cold."
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_granted_tool_runs() {
    let setup = Setup::new([vec![call("pay", "{}"), stop()], vec![say("Paid."), stop()]]);
    check(
        setup,
        [Act::User("pay"), Act::Answers(vec![grant("c1")])],
        expect![[r#"
            > pay
            1 turn started in a new session: user: "pay"
            2 step 1 with test/one
            3 call c1 pay{} (asks)
            4 step finished: ToolUse, 100+10 tokens: [c1 pay{}]
            5 form f1 for c1, approval: "Allow pay?"
            6 waiting for permission of c1 pay
            > answers
            7 resumed: c1 granted
            8 intent c1 as e1 (Effectful)
            9 result c1: "pay ran with {}"
            10 step 2 with test/one
            11 text "Paid."
            12 step finished: Stop, 100+10 tokens: "Paid."
            13 ended, 200+20 tokens: completed
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_denied_tool_does_not_run_and_the_model_hears_why() {
    let setup = Setup::new([vec![call("pay", "{}"), call("pay", "{}"), stop()], vec![say("All right."), stop()]]);
    let ledger = setup.ledger.clone();
    let denials = vec![deny("c1", Some("too dear")), deny("c2", None)];
    check(
        setup,
        [Act::User("pay"), Act::Answers(denials)],
        expect![[r#"
            > pay
            1 turn started in a new session: user: "pay"
            2 step 1 with test/one
            3 call c1 pay{} (asks)
            4 call c2 pay{} (asks)
            5 step finished: ToolUse, 100+10 tokens: [c1 pay{}, c2 pay{}]
            6 form f1 for c1, approval: "Allow pay?"
            7 form f2 for c2, approval: "Allow pay?"
            8 waiting for permission of c1 pay, permission of c2 pay
            > answers
            9 resumed: c1 denied (too dear), c2 denied
            10 result c1 error: "Tool call denied: too dear"
            11 result c2 error: "Tool call denied"
            12 step 2 with test/one
            13 text "All right."
            14 step finished: Stop, 100+10 tokens: "All right."
            15 ended, 200+20 tokens: completed
        "#]],
    )
    .await;
    assert_eq!(ledger.names(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn wrong_answers_are_refused_whole_and_change_nothing() {
    let setup = Setup::new([vec![call("weather", "{}"), call("pay", "{}"), stop()], vec![say("Done."), stop()]]);
    let acts = [
        Act::User("go"),
        Act::Answers(vec![result("c1", "sun")]),
        Act::Answers(vec![result("c1", "sun"), result("c2", "paid")]),
        Act::Answers(vec![grant("c1"), grant("c2")]),
        Act::Answers(vec![result("c1", "sun"), result("c1", "rain"), grant("c2")]),
        Act::Answers(vec![result("nonsense", "sun")]),
        Act::Answers(vec![]),
        Act::Answers(vec![result("c1", "sun"), grant("c2")]),
        Act::Answers(vec![result("c1", "sun"), grant("c2")]),
    ];
    check(
        setup,
        acts,
        expect![[r#"
            > go
            1 turn started in a new session: user: "go"
            2 step 1 with test/one
            3 call c1 weather{} (client)
            4 call c2 pay{} (asks)
            5 step finished: ToolUse, 100+10 tokens: [c1 weather{}, c2 pay{}]
            6 form f2 for c2, approval: "Allow pay?"
            7 waiting for result of c1 weather, permission of c2 pay
            > answers
            refused: every waiting tool call must be answered in one submission; missing: c2
            > answers
            refused: tool call c2 (pay) runs on the server: send a tool_permission for it, not a result
            > answers
            refused: tool call c1 (weather) runs in the application: send its result, not a permission
            > answers
            refused: tool call c1 is answered twice in this submission; answer each call once
            > answers
            refused: no tool call nonsense waits for an answer in this session
            > answers
            refused: there is nothing in the submission; send one user message, or answers to the waiting tool calls
            > answers
            8 resumed: c1 gave "sun", c2 granted
            9 intent c2 as e1 (Effectful)
            10 result c2: "pay ran with {}"
            11 step 2 with test/one
            12 text "Done."
            13 step finished: Stop, 100+10 tokens: "Done."
            14 ended, 200+20 tokens: completed
            > answers
            refused: tool call c1 was answered before; an answer counts once
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_message_takes_the_place_of_a_waiting_turn() {
    let setup = Setup::new([vec![call("weather", "{}"), call("pay", "{}"), stop()], vec![say("As you like."), stop()]]);
    let world = World::start(setup).await;
    let mut transcript = world.act(Act::User("go")).await;
    let waiting = world.engine.session(&world.tenant, &world.session()).await.unwrap().unwrap().last_turn.unwrap().id;
    transcript += &world.act(Act::User("never mind")).await;
    transcript += &world.act(Act::History).await;
    transcript += "> the first turn\n";
    transcript += &world.lines(&world.log_of(&waiting).await);
    expect![[r#"
        > go
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 weather{} (client)
        4 call c2 pay{} (asks)
        5 step finished: ToolUse, 100+10 tokens: [c1 weather{}, c2 pay{}]
        6 form f2 for c2, approval: "Allow pay?"
        7 waiting for result of c1 weather, permission of c2 pay
        > never mind
        1 turn started: user: "never mind"
        2 step 1 with test/one
        3 text "As you like."
        4 step finished: Stop, 100+10 tokens: "As you like."
        5 ended, 100+10 tokens: completed
        > history
        user: "go"
        assistant: [c1 weather{}, c2 pay{}]
        result c1 error: "Tool call skipped: the user sent a new message"
        result c2 error: "Tool call skipped: the user sent a new message"
        user: "never mind"
        assistant: "As you like."
        > the first turn
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 weather{} (client)
        4 call c2 pay{} (asks)
        5 step finished: ToolUse, 100+10 tokens: [c1 weather{}, c2 pay{}]
        6 form f2 for c2, approval: "Allow pay?"
        7 waiting for result of c1 weather, permission of c2 pay
        8 result c1 error: "Tool call skipped: the user sent a new message"
        9 result c2 error: "Tool call skipped: the user sent a new message"
        10 ended, 100+10 tokens: cancelled: Superseded
    "#]]
    .assert_eq(&transcript);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_the_granting_request_disables_does_not_run() {
    let setup = Setup::new([vec![call("pay", "{}"), call("book", "{}"), stop()], vec![say("Well."), stop()]]);
    let ledger = setup.ledger.clone();
    let update = SessionUpdate {
        tools: Some(vec![ToolRef { name: "look".to_owned(), trust: true }]),
        ..SessionUpdate::default()
    };
    check(
        setup,
        [Act::User("go"), Act::AnswersWith(Box::new(update), vec![grant("c1")])],
        expect![[r#"
            > go
            1 turn started in a new session: user: "go"
            2 step 1 with test/one
            3 call c1 pay{} (asks)
            4 call c2 book{} (inline)
            5 step finished: ToolUse, 100+10 tokens: [c1 pay{}, c2 book{}]
            6 intent c2 as e1 (Idempotent)
            7 result c2: "book ran with {}"
            8 form f1 for c1, approval: "Allow pay?"
            9 waiting for permission of c1 pay
            > answers with other settings
            10 resumed: c1 granted
            11 result c1 error: "Tool call not run: pay is not enabled in this session any more"
            12 step 2 with test/one
            13 text "Well."
            14 step finished: Stop, 100+10 tokens: "Well."
            15 ended, 200+20 tokens: completed
        "#]],
    )
    .await;
    assert_eq!(ledger.names(), ["book"]);
}
