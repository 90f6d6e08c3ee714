//! What agents write for people to keep: seen while it is written, kept in all its versions, never shown as a page.

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Frame, Turn, World, kinds, play};
use crate::suite::harness::{Answer, Client, Gate, Reply, Talk, asked, eventually, go_on, script};

/// The pieces of an artifact's content among these frames, put together.
#[track_caller]
fn content(frames: &[Frame]) -> String {
    let deltas = frames.iter().filter(|frame| frame.kind() == "artifact_delta");
    let pieces = deltas.enumerate().map(|(index, frame)| {
        assert_eq!(frame.data["chunk_index"], index, "{frames:#?}");
        frame.data["content_chunk"].as_str().unwrap()
    });
    pieces.collect()
}

/// A turn that creates one artifact.
#[track_caller]
pub(super) fn create(client: &Client, name: &str, input: &Value) -> (Turn, String) {
    script(name, [Reply::calls(&[("create_artifact", input.clone())]), Reply::says(&["Done."])]);
    let turn = play(client, name);
    let complete = turn.complete();
    let id = complete["artifacts"][0]["artifact_id"].as_str().unwrap_or_else(|| panic!("{complete}")).to_owned();
    (turn, id)
}

pub(super) fn download(client: &Client, id: &str) -> Answer {
    client.send("GET", &format!("/api/v1/artifacts/{id}"), "")
}

pub(super) fn listed(client: &Client) -> Value {
    client.send("GET", "/api/v1/artifacts", "").json()["artifacts"].clone()
}

#[test]
fn its_content_streams_while_the_model_writes() {
    let world = World::start("");
    let gates = [Gate::default(), Gate::default()];
    let writes = Reply::new()
        .text("Here it is.")
        .call_begins("create_artifact")
        .input(r#"{"title": "A pl"#)
        .input(r##"an", "type": "markdown", "content": "# O"##)
        .hold(&gates[0])
        .input("ne\\n")
        .hold(&gates[1])
        .input("Two\"}")
        .finish("tool_calls");
    script("artifacts-live", [writes, Reply::says(&["Read it."])]);
    let turn = play(&world.client(), "artifacts-live");
    let mut stream = turn.open();
    // The model has not written more than this.
    assert!(stream.until("artifact_start").contains(r#""title":"A plan""#));
    assert!(stream.next().unwrap().contains(r##""content_chunk":"# O","chunk_index":0"##));
    assert_eq!(listed(&world.client()), json!([]), "what is not complete is not kept");
    gates[0].open();
    assert!(stream.next().unwrap().contains(r#""content_chunk":"ne\n","chunk_index":1"#));
    gates[1].open();
    stream.until("\"complete\"");
    let mut talk = Talk::new(world.client());
    talk.say(&format!("{} {}\n", turn.session, turn.message));
    talk.send("GET /api/v1/sessions/sess#1/messages/turn#1/stream");
    talk.send("GET /api/v1/artifacts");
    talk.send("GET /api/v1/artifacts/art#1");
    talk.check(expect![[r##"
        sess#1 turn#1
        > GET /api/v1/sessions/sess#1/messages/turn#1/stream
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#1

        retry: 1000
        id: 1
        data: {"type":"start","session_id":"sess#1","message_id":"turn#1","agent_id":"writer"}

        id: 3
        data: {"type":"delta","content":"Here it is."}

        id: 4
        data: {"type":"artifact_start","artifact_id":"art#1","artifact_type":"markdown","title":"A plan"}

        id: 5
        data: {"type":"artifact_delta","artifact_id":"art#1","content_chunk":"# O","chunk_index":0}

        id: 6
        data: {"type":"artifact_delta","artifact_id":"art#1","content_chunk":"ne\n","chunk_index":1}

        id: 7
        data: {"type":"artifact_delta","artifact_id":"art#1","content_chunk":"Two","chunk_index":2}

        id: 10
        data: {"type":"tool_started","tool_call_id":"call#1","tool_name":"create_artifact","label":"Create artifact","iteration":1}

        id: 11
        data: {"type":"artifact_complete","artifact_id":"art#1","version":1,"content_type":"text/markdown; charset=utf-8","download_url":"/api/v1/artifacts/art#1?version=1"}

        id: 12
        data: {"type":"tool_completed","tool_call_id":"call#1","tool_name":"create_artifact","success":true,"message":"Kept as artifact art#1, version 1.","duration_ms":0}

        id: 14
        data: {"type":"delta","content":"Read it."}

        id: 16
        data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"Read it.","total_input_tokens":20,"total_output_tokens":10,"artifacts":[{"artifact_id":"art#1","title":"A plan","version":1,"content_type":"text/markdown; charset=utf-8","download_url":"/api/v1/artifacts/art#1?version=1"}]}

        > GET /api/v1/artifacts
        200
        content-type: application/json
        {
          "artifacts": [
            {
              "artifact_id": "art#1",
              "artifact_type": "markdown",
              "content_type": "text/markdown; charset=utf-8",
              "created_at": "<time>",
              "download_url": "/api/v1/artifacts/art#1?version=1",
              "session_id": "sess#1",
              "title": "A plan",
              "updated_at": "<time>",
              "version": 1,
              "versions": [
                {
                  "bytes": 9,
                  "created_at": "<time>",
                  "download_url": "/api/v1/artifacts/art#1?version=1",
                  "message_id": "turn#1",
                  "title": "A plan",
                  "version": 1
                }
              ]
            }
          ]
        }

        > GET /api/v1/artifacts/art#1
        200
        content-type: text/markdown; charset=utf-8

        # One
        Two"##]]);
}

/// However the wire cuts the arguments, what is streamed is what is kept.
#[test]
fn escapes_may_be_cut_anywhere() {
    const EXPECTED: &str = "a\nb\t\"c\" \\ / é é € 😀 😀 \u{7f}\u{1} </document> end";
    let world = World::start("");
    let input = concat!(
        r#"{ "title" : "Tr\u00e9s \"quoted\" \ud83d\ude00", "type":"text","content":"#,
        r#""a\nb\t\"c\" \\ \/ é \u00e9 \u20AC 😀 \ud83d\uDE00 "#,
        "\u{7f}",
        r#"\u0001 </document> end" }"#
    );
    let pieces: Vec<String> = input.chars().map(String::from).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let letters = Reply::new().call_in_pieces("create_artifact", &pieces).finish("tool_calls");
    script("artifacts-escapes", [letters, Reply::says(&["Done."])]);
    let turn = play(&world.client(), "artifacts-escapes");
    let frames = turn.frames();
    assert_eq!(content(&frames), EXPECTED);
    let start = frames.iter().find(|frame| frame.kind() == "artifact_start").unwrap();
    assert_eq!(start.data["title"], "Trés \"quoted\" 😀");
    let kept = &frames.last().unwrap().data["artifacts"][0];
    assert_eq!(kept["title"], "Trés \"quoted\" 😀");
    assert_eq!(download(&world.client(), kept["artifact_id"].as_str().unwrap()).body, EXPECTED);
}

/// Arguments that are no JSON, or not what the tool takes: the model is told, and nothing is kept.
#[test]
fn what_cannot_be_kept_is_told_to_the_model() {
    let world = World::start("");
    let long = json!({ "title": "x".repeat(201), "type": "text", "content": "x" }).to_string();
    for (name, input) in [
        ("artifacts-lone", r#"{"title":"T","type":"text","content":"half \ud83d of a pair"}"#),
        ("artifacts-cut", r#"{"title":"T","type":"text","content":"never ends"#),
        ("artifacts-type", r#"{"title":"T","type":"exe","content":"x"}"#),
        ("artifacts-title", &long),
        ("artifacts-order", r#"{"content":"x","type":"text"}"#),
    ] {
        let cut = Reply::new().call_in_pieces("create_artifact", &[input]).finish("tool_calls");
        script(name, [cut, Reply::says(&["I see."])]);
        let complete = play(&world.client(), name).complete();
        assert_eq!((&complete["final_response"], &complete["artifacts"]), (&json!("I see."), &json!([])), "{name}");
        let told = asked(name)[1]["messages"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(told["role"], "tool", "{name}: {told}");
        assert!(!told["content"].as_str().unwrap().is_empty(), "{name}: {told}");
    }
    assert_eq!(listed(&world.client()), json!([]));
}

/// A new title is told before the content, however the wire cuts the arguments; and the next version has it too.
#[test]
fn a_change_is_announced_with_its_title() {
    let world = World::start("");
    let client = world.client();
    let (turn, id) = create(&client, "artifacts-old", &json!({ "title": "Old", "type": "text", "content": "one" }));
    let letters = |input: String| input.chars().map(String::from).collect::<Vec<_>>();
    let renamed = letters(format!(r#"{{"artifact_id":"{id}","title":"New","content":"two"}}"#));
    let plain = letters(format!(r#"{{"artifact_id":"{id}","content":"three"}}"#));
    let pieces = |letters: &[String], reply: Reply| letters.iter().fold(reply, |reply, letter| reply.input(letter));
    let first = pieces(&renamed, Reply::new().call_begins("update_artifact"));
    let both = pieces(&plain, first.call_begins("update_artifact")).finish("tool_calls");
    script("artifacts-renamed", [both, Reply::says(&["Done."])]);
    let frames = turn.say("play artifacts-renamed").frames();
    let announced: Vec<_> = frames.iter().filter(|frame| frame.kind() == "artifact_update").collect();
    let shown: Vec<_> = announced.iter().map(|frame| (&frame.data["version"], &frame.data["title"])).collect();
    assert_eq!(shown, [(&json!(2), &json!("New")), (&json!(3), &json!("New"))], "{frames:#?}");
    assert_eq!(frames.last().unwrap().data["artifacts"][0]["title"], "New");
}

/// The same turn may change what it has just made.
#[test]
fn made_and_changed_in_one_turn() {
    let world = World::start("");
    let gate = Gate::default();
    let input = r#"{"title":"Draft","type":"text","content":"one"}"#;
    let creates = Reply::new().call_in_pieces("create_artifact", &[input]).hold(&gate).finish("tool_calls");
    script("artifacts-both", [creates]);
    let turn = play(&world.client(), "artifacts-both");
    let frame = Frame::read(&turn.open().until("artifact_start")).unwrap();
    let id = frame.data["artifact_id"].as_str().unwrap();
    let update = json!({ "artifact_id": id, "title": "Final", "content": "two" });
    go_on("artifacts-both", [Reply::calls(&[("update_artifact", update)]), Reply::says(&["There."])]);
    gate.open();
    let frames = turn.frames();
    let shown: Vec<_> = kinds(&frames).into_iter().filter(|kind| kind.starts_with("artifact")).collect();
    assert_eq!(
        shown,
        [
            "artifact_start",
            "artifact_delta",
            "artifact_complete",
            "artifact_update",
            "artifact_delta",
            "artifact_complete"
        ]
    );
    let artifacts = &frames.last().unwrap().data["artifacts"];
    let expected = json!([{
        "artifact_id": id,
        "title": "Final",
        "version": 2,
        "content_type": "text/plain; charset=utf-8",
        "download_url": format!("/api/v1/artifacts/{id}?version=2"),
    }]);
    assert_eq!(*artifacts, expected);
    assert_eq!(download(&world.client(), id).body, "two");
}

#[test]
fn what_is_too_long_is_told_to_the_model() {
    let world = World::start("artifact_bytes = 1024");
    let input = |length: usize| json!({ "title": "Long", "type": "text", "content": "é".repeat(length / 2) });
    let calls = Reply::calls(&[("create_artifact", input(1026)), ("create_artifact", input(1024))]);
    script("artifacts-long", [calls, Reply::says(&["Shorter now."])]);
    let turn = play(&world.client(), "artifacts-long");
    let frames = turn.frames();
    let told: Vec<_> = frames
        .iter()
        .filter(|frame| frame.kind() == "tool_completed")
        .map(|frame| (frame.data["success"].as_bool().unwrap(), frame.data["message"].as_str().unwrap()))
        .collect();
    let error = "Error: the content has 1026 bytes, the limit is 1024; make it shorter";
    assert_eq!(told.len(), 2, "{frames:#?}");
    assert_eq!(told[0], (false, error));
    assert!(told[1].0, "{told:?}");
    let results = asked("artifacts-long")[1]["messages"].clone();
    assert!(results.to_string().contains(error), "{results}");
    assert_eq!(frames.last().unwrap().data["artifacts"].as_array().unwrap().len(), 1);
    assert_eq!(listed(&world.client())[0]["versions"][0]["bytes"], 1024);
}

/// What an artifact may have, a model can write, however much its JSON is larger; a byte more and the model is told.
#[test]
fn the_largest_artifact_can_be_written() {
    const LIMIT: usize = 4 * 1024 * 1024;
    let agent = "[[agents]]\nname = 'wide'\nmodel = 'script/model'\ntitles = false\ncontext_window = 50000000\n\
                 tools = ['create_artifact', 'update_artifact']\n";
    let world = World::with(&(super::world::config("") + agent));
    let content = "\"é\"\n".repeat(LIMIT / 5) + "okay";
    assert_eq!(content.len(), LIMIT);
    let create = |content: &str| json!({ "title": "Long", "type": "text", "content": content }).to_string();
    // In pieces, with everything but ASCII escaped, as some providers write it.
    let escaped = create(&content).replace('é', "\\u00e9");
    let pieces = escaped.as_bytes().chunks(256 * 1024).map(|piece| std::str::from_utf8(piece).unwrap());
    let begun = Reply::new().call_begins("create_artifact");
    let whole = pieces.fold(begun, Reply::input).finish("tool_calls");
    let beyond = Reply::calls(&[("create_artifact", serde_json::from_str(&create(&(content.clone() + "!"))).unwrap())]);
    script("artifacts-largest", [whole, beyond, Reply::says(&["Kept."])]);
    let turn =
        super::world::spawn(&world.client(), &json!({ "agent_id": "wide", "message": "play artifacts-largest" }));
    let frames = turn.frames();
    let told: Vec<_> = frames.iter().filter(|frame| frame.kind() == "tool_completed").collect();
    assert_eq!(told.len(), 2, "{:?}", frames.last());
    assert_eq!(told[0].data["success"], true, "{told:?}");
    let error = format!("Error: the content has {} bytes, the limit is {LIMIT}; make it shorter", LIMIT + 1);
    assert_eq!(told[1].data["message"], error);
    let id = frames.last().unwrap().data["artifacts"][0]["artifact_id"].as_str().unwrap().to_owned();
    assert!(download(&world.client(), &id).body == content, "what was written is what is kept");
}

/// An artifact belongs to its session: the agent of another one cannot change it.
#[test]
fn only_its_own_session_changes_it() {
    let world = World::start("");
    let client = world.client();
    let (_, id) = create(&client, "artifacts-own", &json!({ "title": "Mine", "type": "text", "content": "mine" }));
    let update = json!({ "artifact_id": id, "content": "yours" });
    script("artifacts-other", [Reply::calls(&[("update_artifact", update)]), Reply::says(&["No?"])]);
    let turn = play(&client, "artifacts-other");
    let frames = turn.frames();
    assert_eq!(kinds(&frames), ["start", "tool_started", "tool_completed", "delta", "complete"]);
    assert_eq!(frames[2].data["message"], format!("Error: there is no artifact {id} in this session").as_str());
    assert_eq!(download(&client, &id).body, "mine");
}

/// A server that dies while the model writes asks the model again, and keeps what it wrote then.
#[test]
fn killed_in_the_middle_of_an_artifact() {
    let mut world = World::start("");
    let gate = Gate::default();
    let half = Reply::new()
        .call_begins("create_artifact")
        .input(r#"{"title":"Half","type":"text","content":"once upon"#)
        .hold(&gate);
    let whole = json!({ "title": "Whole", "type": "text", "content": "a time" });
    script("artifacts-killed", [half, Reply::calls(&[("create_artifact", whole)]), Reply::says(&["The end."])]);
    let turn = play(&world.client(), "artifacts-killed");
    turn.open().until("once upon");
    world.crash();
    let turn = turn.on(&world);
    let frames = turn.frames();
    assert_eq!(
        kinds(&frames),
        [
            "start",
            "artifact_start",
            "artifact_delta",
            "retry_notification",
            "artifact_start",
            "artifact_delta",
            "tool_started",
            "artifact_complete",
            "tool_completed",
            "delta",
            "complete"
        ]
    );
    assert_ne!(frames[1].data["artifact_id"], frames[4].data["artifact_id"], "the first one never came to be");
    let kept = eventually("it is listed", || Some(listed(&world.client())).filter(|list| *list != json!([])));
    assert_eq!(kept.as_array().unwrap().len(), 1);
    assert_eq!(kept[0]["title"], "Whole");
}
