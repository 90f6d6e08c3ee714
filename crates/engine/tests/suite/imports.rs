//! Sessions that are made without a turn that runs.

use std::sync::Arc;

use everturn_core::{CallId, Content, Json, Message, SessionId, TenantId, Timestamp, ToolUse};
use everturn_engine::{Cut, ImportedTurn, NewConversation, SubmissionKey, SubmitError};

use super::{
    cuts::{conversation, messages},
    harness::*,
};

fn turn(at: i64, messages: &[Message]) -> ImportedTurn {
    ImportedTurn { messages: messages.to_vec(), at: Timestamp(at) }
}

/// What was said elsewhere, a while ago.
fn imported() -> Vec<ImportedTurn> {
    let call = ToolUse { id: CallId::new("call_7"), name: "find".to_owned(), input: Json::empty_object() };
    let content = Content::answer(String::new(), None, "I look.".to_owned(), vec![call]);
    vec![
        turn(1000, &[Message::user("hello"), Message::assistant("Hi.")]),
        turn(
            2000,
            &[
                Message::user("find it"),
                Message::Assistant { content },
                Message::tool(CallId::new("call_7"), "here"),
                Message::assistant("Found."),
            ],
        ),
        turn(3000, &[Message::user("thanks"), Message::assistant("Welcome.")]),
    ]
}

fn new(turns: Vec<ImportedTurn>) -> NewConversation {
    NewConversation { agent: "tester".to_owned(), turns, ..NewConversation::default() }
}

fn talkative() -> (Setup, Arc<ScriptedModel>) {
    let model = ScriptedModel::thinking("test/one", |_| vec![say("Hello."), stop()]);
    (Setup::with_models([Arc::clone(&model)]), model)
}

#[tokio::test(start_paused = true)]
async fn an_empty_session_takes_its_first_message() {
    let (setup, _) = talkative();
    let world = World::start(setup).await;
    let title = Some("Plans".to_owned());
    let record = world.create_session(&world.tenant, NewConversation { title, ..new(Vec::new()) }, None).await.unwrap();
    assert_eq!((record.title.as_deref(), &record.last_turn), (Some("Plans"), &None));
    world.check(&record.id).await;
    assert_eq!(world.message_count(&world.tenant, &record.id).await.unwrap(), 0);
    let world = world.in_session(record.id);
    let transcript = world.act(Act::User("hi")).await;
    assert!(transcript.contains("1 turn started: user: \"hi\"") && transcript.ends_with("completed\n"), "{transcript}");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_took_place_elsewhere_goes_on_here() {
    let (setup, model) = talkative();
    let world = World::start(setup).await;
    let record = world.create_session(&world.tenant, new(imported()), None).await.unwrap();
    let world = world.in_session(record.id.clone());
    world.check(&record.id).await;
    let all: Vec<_> = imported().into_iter().flat_map(|turn| turn.messages).collect();
    let said = conversation(&world, &record.id).await;
    assert_eq!(messages(&said), all);
    let places: Vec<_> =
        said.iter().map(|said| (said.id.to_string().split_once('.').unwrap().1.to_owned(), said.at.0)).collect();
    let places: Vec<_> = places.iter().map(|(place, at)| (place.as_str(), *at)).collect();
    assert_eq!(
        places,
        [
            ("u1", 1000),
            ("a1", 1000),
            ("u1", 2000),
            ("a1", 2000),
            ("call_7", 2000),
            ("a2", 2000),
            ("u1", 3000),
            ("a1", 3000)
        ]
    );
    assert_eq!((record.usage.total(), world.message_count(&world.tenant, &record.id).await.unwrap()), (0, 8));
    let world = world.restart().await;
    world.act(Act::User("one more")).await;
    let given = model.requests().pop().unwrap().messages.to_vec();
    assert_eq!(given, all.iter().cloned().chain([Message::user("one more")]).collect::<Vec<_>>());
    // Such a turn can be read as any other.
    let first = &said[0].id.turn;
    let reader = world.read_turn(&world.tenant, &record.id, first, &FRAMES, Default::default()).await.unwrap();
    let frames = read_all(&mut reader.expect("it has a log")).await;
    assert!(frames.last().is_some_and(Frame::ends_turn), "{frames:?}");
    assert!(frames.last().unwrap().data.contains("Hi."), "its response is the last answer");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_cut_at_a_time() {
    let (setup, _) = talkative();
    let world = World::start(setup).await;
    let record = world.create_session(&world.tenant, new(imported()), None).await.unwrap();
    let world = world.in_session(record.id.clone());
    let said = conversation(&world, &record.id).await;
    for (time, stay) in [(0, 0), (1000, 0), (1001, 2), (2000, 2), (2001, 6), (3000, 6), (3001, 8), (i64::MAX, 8)] {
        let cut = Cut::BeforeTime(Timestamp(time));
        let fork = world.fork(cut.clone()).await.unwrap();
        assert_eq!(conversation(&world, &fork).await, said[..stay], "{time}");
        let shortened = world.engine.fork(&world.tenant, &record.id, Cut::Nothing, None).await.unwrap();
        world.engine.truncate(&world.tenant, &shortened, cut, None).await.unwrap();
        assert_eq!(conversation(&world, &shortened).await, said[..stay], "{time}");
    }
}

#[tokio::test(start_paused = true)]
async fn names_are_given_once() {
    let (setup, _) = talkative();
    let world = World::start(setup).await;
    let named = || NewConversation { id: Some("thread-1".parse().unwrap()), ..new(Vec::new()) };
    let record = world.create_session(&world.tenant, named(), None).await.unwrap();
    assert_eq!(record.id.as_str(), "thread-1");
    // Within the same millisecond it would be taken for the same command.
    until(async || Timestamp::now() > record.created_at).await;
    let exists = world.create_session(&world.tenant, named(), None).await.unwrap_err();
    assert_eq!(exists.to_string(), "there is, or was, a session thread-1; choose another name");
    assert!(world.create_session(&TenantId::mint(), named(), None).await.is_ok());
    world.delete(&world.tenant, &record.id, None).await.unwrap();
    let existed = world.create_session(&world.tenant, named(), None).await.unwrap_err();
    assert!(matches!(existed, SubmitError::Exists { .. }), "{existed:?}");
    let agent = NewConversation { agent: "nosuch".to_owned(), ..NewConversation::default() };
    let unknown = world.create_session(&world.tenant, agent, None).await.unwrap_err();
    assert!(matches!(unknown, SubmitError::UnknownAgent { .. }), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_is_sent_again_makes_one_session() {
    let (setup, _) = talkative();
    let world = World::start(setup).await;
    let key = |fingerprint: &str| Some(SubmissionKey { key: "k".to_owned(), fingerprint: fingerprint.to_owned() });
    let create = |fingerprint| world.create_session(&world.tenant, new(imported()), key(fingerprint));
    let (one, two) = tokio::join!(create("f"), create("f"));
    let (one, two): (SessionId, SessionId) = (one.unwrap().id, two.unwrap().id);
    assert_eq!(one, two);
    assert_eq!(create("f").await.unwrap().id, one);
    let reused = create("g").await.unwrap_err();
    assert!(matches!(reused, SubmitError::KeyReused { .. }), "{reused:?}");
    assert_eq!(world.sessions(&world.tenant, None, 10).await.unwrap().len(), 1);
}
