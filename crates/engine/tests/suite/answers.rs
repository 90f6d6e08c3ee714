//! Answers of a model: whole, empty, refused, cut short; and what the model is asked.

use everturn_core::Usage;
use everturn_engine::SessionUpdate;
use everturn_models::ModelFinish;
use expect_test::expect;

use super::harness::*;

#[tokio::test(start_paused = true)]
async fn a_plain_answer() {
    let setup = Setup::new([vec![say("Hel"), say("lo"), stop()], vec![say("Bye"), stop()]]);
    check(
        setup,
        [Act::User("hi"), Act::User("bye"), Act::History],
        expect![[r#"
            > hi
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 text "Hel"
            4 text "lo"
            5 step finished: Stop, 100+10 tokens: "Hello"
            6 ended, 100+10 tokens: completed
            > bye
            1 turn started: user: "bye"
            2 step 1 with test/one
            3 text "Bye"
            4 step finished: Stop, 100+10 tokens: "Bye"
            5 ended, 100+10 tokens: completed
            > history
            user: "hi"
            assistant: "Hello"
            user: "bye"
            assistant: "Bye"
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn thinking_comes_before_the_answer_and_its_proof_is_kept() {
    let setup = Setup::new([vec![think("Hm"), think("m."), say("Yes"), sign("proof"), stop()]]);
    check(
        setup,
        [Act::User("well?"), Act::History],
        expect![[r#"
            > well?
            1 turn started in a new session: user: "well?"
            2 step 1 with test/one
            3 thinking "Hm"
            4 thinking "m."
            5 text "Yes"
            6 step finished: Stop, 100+10 tokens: [thinking "Hmm." signed proof, "Yes"]
            7 ended, 100+10 tokens: completed
            > history
            user: "well?"
            assistant: [thinking "Hmm." signed proof, "Yes"]
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_step_cap_ends_a_turn_that_goes_round_in_circles() {
    let setup = Setup::new((0..9).map(|_| vec![call("look", "{}"), stop()])).agent(|agent| agent.max_steps = 2);
    check(setup, [Act::User("go")], expect![[r#"
        > go
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 look{} (inline)
        4 step finished: ToolUse, 100+10 tokens: [c1 look{}]
        5 intent c1 as e1 (ReadOnly)
        6 result c1: "look ran with {}"
        7 step 2 with test/one
        8 call c2 look{} (inline)
        9 step finished: ToolUse, 100+10 tokens: [c2 look{}]
        10 intent c2 as e2 (ReadOnly)
        11 result c2: "look ran with {}"
        12 ended, 200+20 tokens: failed STEP_LIMIT (for good): the turn made 2 model calls, which is its limit (the agent's max_steps); send a message to go on
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn thinking_that_comes_after_text_is_kept_with_the_rest_of_it() {
    let setup = Setup::new([vec![think("First."), say("Well, "), think(" Second."), say("yes."), stop()]]);
    check(
        setup,
        [Act::User("well?"), Act::History],
        expect![[r#"
        > well?
        1 turn started in a new session: user: "well?"
        2 step 1 with test/one
        3 thinking "First."
        4 text "Well, "
        5 text "yes."
        6 step finished: Stop, 100+10 tokens: [thinking "First. Second.", "Well, yes."]
        7 ended, 100+10 tokens: completed
        > history
        user: "well?"
        assistant: [thinking "First. Second.", "Well, yes."]
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_turn_as_such() {
    let setup = Setup::new([vec![say("I will not."), finish(ModelFinish::Refusal, None)]]);
    check(
        setup,
        [Act::User("do evil")],
        expect![[r#"
            > do evil
            1 turn started in a new session: user: "do evil"
            2 step 1 with test/one
            3 text "I will not."
            4 step finished: Refusal, 128+3 tokens: "I will not."
            5 ended, 128+3 tokens: refused
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_cut_by_the_token_limit_runs_none_of_its_calls() {
    let usage = Some(Usage::of(7, 3));
    let setup = Setup::new([vec![
        say("I would"),
        call("look", "{}"),
        call("weather", "{}"),
        finish(ModelFinish::MaxTokens, usage),
    ]]);
    let ledger = setup.ledger.clone();
    check(
        setup,
        [Act::User("go"), Act::History],
        expect![[r#"
            > go
            1 turn started in a new session: user: "go"
            2 step 1 with test/one
            3 text "I would"
            4 call c1 look{} (inline)
            5 call c2 weather{} (client)
            6 step finished: MaxTokens, 7+3 tokens: ["I would", c1 look{}, c2 weather{}]
            7 result c1 error: "Tool call not run: the answer was cut short"
            8 result c2 error: "Tool call not run: the answer was cut short"
            9 ended, 7+3 tokens: max tokens
            > history
            user: "go"
            assistant: ["I would", c1 look{}, c2 weather{}]
            result c1 error: "Tool call not run: the answer was cut short"
            result c2 error: "Tool call not run: the answer was cut short"
        "#]],
    )
    .await;
    assert_eq!(ledger.names(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_completes_the_turn_and_leaves_no_message() {
    let setup = Setup::new([vec![stop()], vec![say("Hello again."), stop()]]);
    check(
        setup,
        [Act::User("hi"), Act::User("hi?"), Act::History],
        expect![[r#"
            > hi
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 step finished: Stop, 100+10 tokens: ""
            4 ended, 100+10 tokens: completed
            > hi?
            1 turn started: user: "hi?"
            2 step 1 with test/one
            3 text "Hello again."
            4 step finished: Stop, 100+10 tokens: "Hello again."
            5 ended, 100+10 tokens: completed
            > history
            user: "hi"
            user: "hi?"
            assistant: "Hello again."
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn nobody_else_sees_the_session() {
    let world = World::start(Setup::new([vec![say("Hello"), stop()]])).await;
    world.act(Act::User("hi")).await;
    let (other, session) = (everturn_core::TenantId::mint(), world.session());
    let mut submit = world.message("mine?");
    submit.tenant = other.clone();
    assert_eq!(world.engine.submit(submit).await.unwrap_err().to_string(), "there is no such session");
    assert_eq!(world.engine.session(&other, &session).await, Ok(None));
    assert_eq!(world.history(&other, &session).await.unwrap().full, []);
    assert_eq!(world.delete(&other, &session, None).await.unwrap_err().to_string(), "there is no such session");
    assert_eq!(world.sessions(&other, None, 10).await, Ok(vec![]));
    world.engine.session(&world.tenant, &session).await.unwrap().expect("the owner still has it");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_agent_is_named_with_those_there_are() {
    let world = World::start(Setup::new([])).await;
    let mut submit = world.message("hi");
    submit.target = everturn_engine::Target::New { agent: "nobody".to_owned() };
    let error = world.engine.submit(submit).await.unwrap_err();
    assert_eq!(error.to_string(), r#"there is no agent "nobody"; there are: tester"#);
}

#[tokio::test(start_paused = true)]
async fn the_model_is_given_instructions_options_tools_and_history() {
    use everturn_core::{Message, OptionSpec, submission::Submission};
    let option = |name: &str, default: &str| (name.to_owned(), default.to_owned());
    let model = ScriptedModel::new("test/one", [vec![say("Hei"), stop()]]);
    let setup = Setup::with_models([model.clone()]).agent(|agent| {
        agent.instructions = "Speak {{language}} to {{who}}. {{key}}".to_owned();
        agent.model_options.max_output_tokens = Some(500);
        let (language, who, key) = (option("language", "English"), option("who", "people"), option("key", "none"));
        let (title, description) = (None, None);
        agent.options = vec![
            OptionSpec::Text {
                name: language.0,
                title: title.clone(),
                description: description.clone(),
                default: language.1,
            },
            OptionSpec::Text { name: who.0, title: title.clone(), description: description.clone(), default: who.1 },
            OptionSpec::Secret { name: key.0, title, description, default: key.1 },
        ];
    });
    let world = World::start(setup).await;
    let seed =
        vec![Message::System { content: "Be brief.".to_owned() }, Message::assistant("Welcome."), Message::user("hi")];
    let mut submit = world.submission(Submission::Begin(seed), SessionUpdate::default());
    submit.update.options = [("language", "Norwegian"), ("key", "s3cret")].map(|(k, v)| option(k, v)).into();
    let started = world.submit(submit).await.unwrap();
    world.transcript(&started).await;

    let request = model.requests().remove(0);
    assert_eq!(request.system, "Speak Norwegian to people. {{key}}\n\nBe brief.");
    assert_eq!(request.options.max_output_tokens, Some(500));
    let tools: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["look", "book", "pay", "weather"]);
    expect![[r#"
        user: "(the conversation goes on)"
        assistant: "Welcome."
        user: "hi"
    "#]]
    .assert_eq(&world.shown(&request.messages.to_vec()));
    let record = world.engine.session(&world.tenant, &started.session).await.unwrap().unwrap();
    assert!(!format!("{record:?}").contains("s3cret"), "a secret lies open: {record:?}");
}
