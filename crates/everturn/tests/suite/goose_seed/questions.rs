//! What people are asked while a turn waits, at both doors.

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    transcript::side_by_side_by,
    world::{Door, Stream, World, refusal, rest, says, says_to, until},
};
use crate::suite::harness::{Reply, asked, script};

/// A call that nobody trusts is shown, then the question about it; the stream stays open until somebody has answered.
#[test]
fn confirmations() {
    let world = World::with_tools("", "");
    let mark = world.home.path().join("marks");
    let input = json!({ "file": mark, "line": "x" });
    let replies = [Reply::calls(&[("pen__asked", input)]), Reply::says(&["So be it."])];
    for (name, action, lines, expected) in [
        (
            "seed-allow",
            "allow_once",
            2,
            expect![[r##"
                # POST /reply
                - {"type":"Ping"}
                4 {"message":{"content":[{"id":"call#1","tool_call":{"arguments":{"file":"<home>/marks","line":"x"},"name":"pen__asked"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                5 {"message":{"content":[{"arguments":{"file":"<home>/marks","line":"x"},"id":"call#1","prompt":"Allow pen__asked?","tool_name":"pen__asked","type":"tool_confirmation_request"}],"created_at":"<time>","id":"form#1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                9 {"message":{"content":[{"id":"call#1","tool_result":{"content":[{"text":"written","type":"text"}],"is_error":false},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#1","role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
                11 {"message":{"content":[{"text":"So be it.","type":"text"}],"created_at":"<time>","id":"turn#1.a2","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                13 {"reason":"stop","token_state":"20+10 of 20+10","type":"Finish"}
                # POST /goose/reply
                - {"type":"Ping"}
                4 {"message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{"file":"<home>/marks","line":"x"},"name":"pen__asked"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                5 {"message":{"content":[{"data":{"actionType":"toolConfirmation","arguments":{"file":"<home>/marks","line":"x"},"id":"call#1","prompt":null,"toolName":"pen__asked"},"type":"actionRequired"}],"created":"<s>","id":"form#1","metadata":{"agentVisible":false,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                9 {"message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"text":"written","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
                11 {"message":{"content":[{"text":"So be it.","type":"text"}],"created":"<s>","id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                13 {"reason":"stop","token_state":"20+10 of 20+10","type":"Finish"}
            "##]],
        ),
        (
            "seed-deny",
            "deny_once",
            2,
            expect![[r##"
                # POST /reply
                - {"type":"Ping"}
                4 {"message":{"content":[{"id":"call#1","tool_call":{"arguments":{"file":"<home>/marks","line":"x"},"name":"pen__asked"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                5 {"message":{"content":[{"arguments":{"file":"<home>/marks","line":"x"},"id":"call#1","prompt":"Allow pen__asked?","tool_name":"pen__asked","type":"tool_confirmation_request"}],"created_at":"<time>","id":"form#1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                8 {"message":{"content":[{"id":"call#1","tool_result":{"content":[{"text":"Tool call denied: The user has declined to run this tool. DO NOT attempt to call this tool again. If there are no alternative methods to proceed, clearly explain the situation and STOP.","type":"text"}],"is_error":true},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#1","role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
                10 {"message":{"content":[{"text":"So be it.","type":"text"}],"created_at":"<time>","id":"turn#1.a2","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                12 {"reason":"stop","token_state":"20+10 of 20+10","type":"Finish"}
                # POST /goose/reply
                - {"type":"Ping"}
                4 {"message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{"file":"<home>/marks","line":"x"},"name":"pen__asked"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                5 {"message":{"content":[{"data":{"actionType":"toolConfirmation","arguments":{"file":"<home>/marks","line":"x"},"id":"call#1","prompt":null,"toolName":"pen__asked"},"type":"actionRequired"}],"created":"<s>","id":"form#1","metadata":{"agentVisible":false,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                8 {"message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"text":"Tool call denied: The user has declined to run this tool. DO NOT attempt to call this tool again. If there are no alternative methods to proceed, clearly explain the situation and STOP.","type":"text"}],"isError":true}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
                10 {"message":{"content":[{"text":"So be it.","type":"text"}],"created":"<s>","id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
                12 {"reason":"stop","token_state":"20+10 of 20+10","type":"Finish"}
            "##]],
        ),
    ] {
        let live = |door: Door, body: &Value| {
            let mut stream = world.open(door, body);
            let (session, turn) = (stream.header("x-session-id").to_owned(), stream.header("x-message-id").to_owned());
            let asks = if door == Door::Described { "tool_confirmation_request" } else { "toolConfirmation" };
            let mut frames = until(&mut stream, asks);
            let item = &frames.last().unwrap().items()[0];
            let id = if door == Door::Described { &item["id"] } else { &item["data"]["id"] };
            let said = json!({ "id": id, "action": action, "sessionId": session, "principalType": "Tool" });
            let path = "/goose/action-required/tool-confirmation";
            let answer = world.client().send("POST", path, &said.to_string());
            assert_eq!((answer.status, answer.body.as_str()), (200, "{}"));
            frames.extend(rest(&mut stream));
            Stream { session, turn, frames }
        };
        let body = says_to("worker", "", &format!("play {name}"));
        side_by_side_by(&world, name, &replies, &body, live, expected);
        assert_eq!(std::fs::read_to_string(&mark).unwrap().lines().count(), lines, "{action}");
    }
}

/// What is asked of a person in the middle of a call is answered by a message.
#[test]
fn elicitations() {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let form = json!({ "kind": "clarify", "title": "Which city?", "schema": schema });
    let replies = [Reply::calls(&[("request_form", form)]), Reply::says(&["It rains in Oslo."])];
    let world = World::start();
    side_by_side_by(
        &world,
        "seed-form",
        &replies,
        &says("", "play seed-form"),
        |door, body| answered(&world, door, body),
        expect![[r##"
            # POST /reply
            - {"type":"Ping"}
            4 {"message":{"content":[{"id":"call#1","tool_call":{"arguments":{"kind":"clarify","schema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"},"title":"Which city?"},"name":"request_form"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
            5 {"message":{"content":[{"id":"form#1","message":"Which city?","requested_schema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"},"type":"elicitation_request"}],"created_at":"<time>","id":"form#1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
            7 {"message":{"content":[{"id":"call#1","tool_result":{"content":[{"text":"{\"city\":\"Oslo\"}","type":"text"}],"is_error":false},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#1","role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
            9 {"message":{"content":[{"text":"It rains in Oslo.","type":"text"}],"created_at":"<time>","id":"turn#1.a2","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
            11 {"reason":"stop","token_state":"20+10 of 20+10","type":"Finish"}
            # POST /goose/reply
            - {"type":"Ping"}
            4 {"message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{"kind":"clarify","schema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"},"title":"Which city?"},"name":"request_form"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
            5 {"message":{"content":[{"data":{"actionType":"elicitation","id":"form#1","message":"Which city?","requested_schema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}},"type":"actionRequired"}],"created":"<s>","id":"form#1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
            7 {"message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"text":"{\"city\":\"Oslo\"}","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
            9 {"message":{"content":[{"text":"It rains in Oslo.","type":"text"}],"created":"<s>","id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
            11 {"reason":"stop","token_state":"20+10 of 20+10","type":"Finish"}
        "##]],
    );

    let question = json!({ "message": "Which city?", "requestedSchema": schema });
    let replies = [Reply::calls(&[("bad__ask", question)]), Reply::says(&["It rains in Oslo."])];
    let world = World::with_tools("", "");
    let body = says_to("worker", "", "play seed-ask");
    side_by_side_by(
        &world,
        "seed-ask",
        &replies,
        &body,
        |door, body| answered(&world, door, body),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        4 {"message":{"content":[{"id":"call#1","tool_call":{"arguments":{"message":"Which city?","requestedSchema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}},"name":"bad__ask"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        6 {"message":{"content":[{"id":"form#1.1","message":"Which city?","requested_schema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"},"type":"elicitation_request"}],"created_at":"<time>","id":"form#1.1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        8 {"message":{"content":[{"id":"call#1","tool_result":{"content":[{"text":"{\"action\": \"accept\", \"content\": {\"city\": \"Oslo\"}}","type":"text"}],"is_error":false},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#1","role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        10 {"message":{"content":[{"text":"It rains in Oslo.","type":"text"}],"created_at":"<time>","id":"turn#1.a2","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        12 {"reason":"stop","token_state":"20+10 of 20+10","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        4 {"message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{"message":"Which city?","requestedSchema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}},"name":"bad__ask"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        6 {"message":{"content":[{"data":{"actionType":"elicitation","id":"form#1.1","message":"Which city?","requested_schema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}},"type":"actionRequired"}],"created":"<s>","id":"form#1.1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        8 {"message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"text":"{\"action\": \"accept\", \"content\": {\"city\": \"Oslo\"}}","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        10 {"message":{"content":[{"text":"It rains in Oslo.","type":"text"}],"created":"<s>","id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        12 {"reason":"stop","token_state":"20+10 of 20+10","type":"Finish"}
    "##]],
    );
}

/// Says a message and answers the question that comes of it, by another message.
#[track_caller]
fn answered(world: &World, door: Door, body: &Value) -> Stream {
    let mut stream = world.open(door, body);
    let (session, turn) = (stream.header("x-session-id").to_owned(), stream.header("x-message-id").to_owned());
    let mut frames = until(&mut stream, "elicitation");
    let item = &frames.last().unwrap().items()[0];
    let id = if door == Door::Described { &item["id"] } else { &item["data"]["id"] };
    let message = |data: Value| {
        let item = match door {
            Door::Described => json!({ "type": "elicitation_response", "id": id, "user_data": data }),
            Door::Released => {
                json!({ "type": "actionRequired", "data": { "actionType": "elicitationResponse", "id": id, "user_data": data } })
            }
        };
        json!({ "session_id": session, "user_message": { "role": "user", "content": [item] } })
    };
    let (status, problem) = world.refused(door, &message(json!({ "town": 7 })));
    assert_eq!(status, 422, "{problem}");
    let answer = world.post(door, &message(json!({ "city": "Oslo" })));
    assert_eq!((&answer.turn, answer.text().as_str()), (&turn, "It rains in Oslo."), "it shows how the turn goes on");
    frames.extend(rest(&mut stream));
    Stream { session, turn, frames }
}

/// A turn that only waits for somebody gives way to a new message: its stream ends, and the tool never runs.
#[test]
fn a_new_message_instead_of_an_answer() {
    let world = World::with_tools("", "");
    let mark = world.home.path().join("marks");
    for door in Door::BOTH {
        let name = format!("seed-instead-{}", door.view());
        let call = ("pen__asked", json!({ "file": mark, "line": "x" }));
        script(&name, [Reply::calls(&[call]), Reply::says(&["Something else."])]);
        let mut stream = world.open(door, &says_to("worker", &name, &format!("play {name}")));
        let asked_about = until(&mut stream, "prompt").pop().unwrap();
        let item = &asked_about.items()[0];
        let id = item["id"].as_str().or(item["data"]["id"].as_str()).unwrap();
        let next = world.post(door, &says(&name, "Never mind."));
        assert_eq!((next.text().as_str(), next.reason()), ("Something else.", "stop"));
        let end = rest(&mut stream).pop().unwrap();
        assert_eq!((end.kind(), &end.data["reason"]), ("Finish", &json!("cancel")));
        let said = json!({ "id": id, "action": "allow_once", "sessionId": name }).to_string();
        let late = world.client().send("POST", "/goose/action-required/tool-confirmation", &said);
        assert_eq!(refusal(&late).0, 409, "{late:?}");
        // The model is told that the call came to nothing.
        let given = asked(&name).pop().unwrap()["messages"].clone();
        let roles: Vec<_> = given.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "user"], "{given}");
    }
    assert!(!mark.exists());
}
