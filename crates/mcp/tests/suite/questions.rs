//! What servers ask, and what they are answered.

use std::time::{Duration, Instant};

use everturn_core::Json;
use everturn_tools::{Question, Reply, Report, Reporter, TimeLimit};
use expect_test::expect;
use serde_json::{Value, json};

use super::harness::{PATIENCE, World, bad, context, context_of, text};

/// What the server hears when it asks this and the person replies so.
async fn asked(world: &World, params: Value, reply: Reply) -> (Question, Value) {
    let (reporter, mut reports) = Reporter::new(10);
    let answer = async {
        match reports.recv().await {
            Some(Report::Question(question, answer)) => {
                answer.send(reply).unwrap();
                question
            }
            other => panic!("not a question: {other:?}"),
        }
    };
    let (result, question) = tokio::join!(world.call_with("bad__ask", params, reporter), answer);
    (question, serde_json::from_str(&text(result)).unwrap())
}

fn city() -> Value {
    json!({"message": "Which city?", "requestedSchema": {
        "type": "object", "properties": {"city": {"type": "string", "title": "City"}}, "required": ["city"]}})
}

#[tokio::test]
async fn a_form_is_put_to_the_person() {
    let world = World::ready(bad(&[])).await;
    let answer = Json::of(&json!({"city": "Oslo"})).unwrap();
    let (question, heard) = asked(&world, city(), Reply::Accepted(answer)).await;
    assert_eq!((question.title.as_str(), question.description), ("Which city?", None));
    let schema = question.schema.to_value();
    assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["city"])));
    assert_eq!(schema["properties"]["city"], json!({"type": "string", "title": "City"}));
    assert_eq!(heard, json!({"action": "accept", "content": {"city": "Oslo"}}));
    assert_eq!(asked(&world, city(), Reply::Declined).await.1, json!({"action": "decline"}));
    assert_eq!(asked(&world, city(), Reply::Cancelled).await.1, json!({"action": "cancel"}));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_form_beyond_the_words_of_mcp_is_put_too() {
    let world = World::ready(bad(&[])).await;
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}});
    let params = json!({"message": "First line\nsecond line", "requestedSchema": schema});
    let (question, heard) = asked(&world, params, Reply::Declined).await;
    assert_eq!(question.title, "First line");
    assert_eq!(question.description.as_deref(), Some("First line\nsecond line"));
    assert_eq!(question.schema.to_value(), schema);
    assert_eq!(heard, json!({"action": "decline"}));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn what_cannot_be_put_to_a_person() {
    let world = World::ready(bad(&[])).await;
    let heard = async |params| text(world.call("bad__ask", params).await);
    let url = json!({"mode": "url", "message": "Go there", "url": "https://example.org", "elicitationId": "1"});
    assert_eq!(heard(url).await, r#"{"action": "decline"}"#);
    // Nobody listens.
    assert_eq!(heard(city()).await, r#"{"action": "cancel"}"#);
    let remote = json!({"message": "x", "requestedSchema": {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}});
    expect![[r##"{"code": -32602, "message": "the schema refers to \"file:///etc/passwd\"; only references into the schema itself, such as \"#/$defs/name\", are followed"}"##]]
        .assert_eq(&heard(remote).await);
    expect![[r#"{"code": -32602, "message": "only forms with a message and a requestedSchema are offered"}"#]]
        .assert_eq(&heard(json!({"message": 5})).await);
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_question_waits_until_it_is_clear_who_is_asked() {
    let world = World::ready(bad(&[])).await;
    let (reporter, mut reports) = Reporter::new(10);
    let other = world.tools.get("bad__hang").unwrap().call(context(reporter), Json::empty_object());
    let other = tokio::spawn(other);
    // It is under way.
    assert!(matches!(reports.recv().await, Some(Report::Notification { .. })));
    let (reporter, mut asked) = Reporter::new(10);
    let call = world.tools.get("bad__ask").unwrap().call(context(reporter), Json::of(&city()).unwrap());
    let call = tokio::spawn(call);
    other.abort();
    let Some(Report::Question(_, answer)) = asked.recv().await else { panic!("nobody is asked") };
    answer.send(Reply::Declined).unwrap();
    assert_eq!(text(call.await.unwrap()), r#"{"action": "decline"}"#);
    assert!(reports.try_recv().is_err(), "it is not the other one's question");
    world.mcp.shutdown().await;
}

/// A call that is held back because another one may ask has not been sent: its time limit does not count yet.
#[tokio::test]
async fn a_call_that_waits_for_others_does_not_time_out() {
    let world = World::ready(bad(&[])).await;
    let (reporter, mut reports) = Reporter::new(10);
    let other = tokio::spawn(world.tools.get("bad__hang").unwrap().call(context(reporter), Json::empty_object()));
    assert!(matches!(reports.recv().await, Some(Report::Notification { .. })));
    let (reporter, _watched) = Reporter::new(10);
    let (life, (_asking, is_asking)) = (reporter.life(), tokio::sync::watch::channel(false));
    let limit = TimeLimit { silence: Duration::from_secs(1), total: Duration::from_secs(60) };
    let call =
        world.tools.get("bad__echo").unwrap().call(context(reporter), Json::of(&json!({ "text": "hi" })).unwrap());
    limit.hold(&life, is_asking, call).await.expect("it is in time").expect("it works");
    other.abort();
    world.mcp.shutdown().await;
}

/// A call that is under way and never ends by itself, stopped.
async fn stop_one(world: &World, tenant: &str) {
    let (reporter, mut reports) = Reporter::new(10);
    let context = context_of(tenant.parse().unwrap(), reporter);
    let call = tokio::spawn(world.tools.get("bad__hang").unwrap().call(context, Json::empty_object()));
    assert!(matches!(reports.recv().await, Some(Report::Notification { .. })));
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
}

/// Whether a tenant's call gets its question put.
async fn is_asked(world: &World, tenant: &str) -> bool {
    let (reporter, mut reports) = Reporter::new(10);
    let context = context_of(tenant.parse().unwrap(), reporter);
    let call = world.tools.get("bad__ask").unwrap().call(context, Json::of(&city()).unwrap());
    let answer = async {
        match reports.recv().await {
            Some(Report::Question(_, answer)) => answer.send(Reply::Declined).is_ok(),
            Some(Report::Notification { .. }) | None => false,
        }
    };
    let (result, put) = tokio::join!(tokio::time::timeout(PATIENCE, call), answer);
    assert_eq!(text(result.unwrap()), r#"{"action": "decline"}"#);
    put
}

#[tokio::test]
async fn a_call_that_was_stopped_does_not_ask_in_the_place_of_others() {
    let world = World::ready(bad(&[])).await;
    stop_one(&world, "ann").await;
    let until = Instant::now() + PATIENCE / 5;
    // As soon as the server has heard that nobody waits for the first one.
    while !is_asked(&world, "ann").await {
        assert!(Instant::now() < until, "it is still declined");
    }
    world.mcp.shutdown().await;
}

/// What one tenant has left may speak at any time; so the others get a process on which nobody has left anything.
#[tokio::test]
async fn other_tenants_are_asked_whatever_one_has_stopped() {
    let world = World::ready(bad(&[])).await;
    stop_one(&world, "ann").await;
    assert!(is_asked(&world, "bob").await);
    assert!(is_asked(&world, "bob").await, "and again");
    assert_eq!(text(world.call("bad__echo", json!({"text": "on"})).await), "on");
    world.mcp.shutdown().await;
}

/// People are asked for one thing after the other, as the server thought of them.
#[tokio::test]
async fn fields_stay_in_the_servers_order() {
    let world = World::ready(bad(&[])).await;
    let (reporter, mut reports) = Reporter::new(10);
    let answer = async {
        let Some(Report::Question(question, answer)) = reports.recv().await else { panic!("a question") };
        answer.send(Reply::Declined).unwrap();
        question.schema
    };
    let (_, schema) = tokio::join!(world.call_with("bad__register", json!({}), reporter), answer);
    let at = |field: &str| schema.as_str().find(field).unwrap();
    assert!(at("\"name\"") < at("\"email\"") && at("\"email\"") < at("\"age\""), "{}", schema.as_str());
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_question_ends_with_its_call() {
    let world = World::ready(bad(&[])).await;
    let (reporter, mut reports) = Reporter::new(10);
    let input = Json::of(&city()).unwrap();
    let call = tokio::spawn(world.tools.get("bad__ask").unwrap().call(context(reporter), input));
    let Some(Report::Question(_, mut answer)) = reports.recv().await else { panic!("a question") };
    call.abort();
    // Nobody waits for the reply any more.
    answer.closed().await;
    assert_eq!(text(world.call("bad__echo", json!({"text": "on"})).await), "on");
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn other_requests() {
    let world = World::ready(bad(&[])).await;
    expect![[
        r#"{"code": -32601, "message": "sampling is not offered: this client does not lend its models to servers"}"#
    ]]
    .assert_eq(&text(world.call("bad__sample", json!({})).await));
    assert_eq!(text(world.call("bad__roots", json!({})).await), r#"{"roots": []}"#);
    assert_eq!(text(world.call("bad__ping", json!({})).await), "{}");
    world.mcp.shutdown().await;
}
