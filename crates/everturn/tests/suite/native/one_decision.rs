//! A call that waits for a person is decided once, through whichever door the decision comes.

use expect_test::expect;
use serde_json::json;

use super::world::World;
use crate::suite::harness::{Reply, Talk, asked, script};

#[test]
fn an_approval_that_was_asked_here_is_given_there() {
    script(
        "door-there",
        [Reply::calls(&[("calculator", json!({ "expression": "6*7" }))]), Reply::says(&["It is 42."])],
    );
    let world = World::start("form_expiry = 'never'");
    let mut talk = Talk::new(world.client());
    for request in [
        r#"POST /api/v1/sessions/stream {"agent_id":"writer","message":"play door-there","tools":[{"name":"calculator","trust":false}]}"#,
        "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
        r#"POST /session/sess#1 {"stream":"delta","messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}"#,
        "GET /api/v1/forms/form#1",
        "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=6",
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","form_answer":{"approved":false}}"#,
    ] {
        talk.send(request);
    }
    talk.check(expect![[r#"
        > POST /api/v1/sessions/stream {"agent_id":"writer","message":"play door-there","tools":[{"name":"calculator","trust":false}]}
        202
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#1
        {"kind":"new_turn","message_id":"turn#1","session_id":"sess#1"}

        > GET /api/v1/sessions/sess#1/messages/turn#1/stream
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#1

        retry: 1000
        id: 1
        data: {"type":"start","session_id":"sess#1","message_id":"turn#1","agent_id":"writer"}

        id: 5
        data: {"type":"form_request","form_id":"form#1","form_kind":"approval","payload":{"title":"Allow calculator?","description":"Input: {\"expression\":\"6*7\"}","schema":{"type":"object","properties":{"approved":{"type":"boolean","title":"Approved"},"reason":{"type":"string","title":"Reason"}},"required":["approved"],"additionalProperties":false},"tool_call_id":"call#1"}}

        id: 6
        data: {"type":"paused","wake":"form"}

        > POST /session/sess#1 {"stream":"delta","messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#1

        event: turn_start
        id: 7
        data: {}

        event: tool_result
        id: 9
        data: {"toolCallId":"call#1","content":"42"}

        event: text_delta
        id: 11
        data: {"delta":"It is 42."}

        event: turn_stop
        id: 13
        data: {"stopReason":"end_turn"}

        > GET /api/v1/forms/form#1
        200
        content-type: application/json
        {
          "answer": {"approved":true},
          "closed_at": "<time>",
          "created_at": "<time>",
          "form_id": "form#1",
          "form_kind": "approval",
          "message_id": "turn#1",
          "payload": {
            "description": "Input: {\"expression\":\"6*7\"}",
            "schema": {
              "additionalProperties": false,
              "properties": {"approved":{"title":"Approved","type":"boolean"},"reason":{"title":"Reason","type":"string"}},
              "required": ["approved"],
              "type": "object"
            },
            "title": "Allow calculator?",
            "tool_call_id": "call#1"
          },
          "session_id": "sess#1",
          "status": "answered"
        }

        > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=6
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#1

        retry: 1000
        id: 8
        data: {"type":"tool_started","tool_call_id":"call#1","tool_name":"calculator","label":"Calculator","iteration":1}

        id: 9
        data: {"type":"tool_completed","tool_call_id":"call#1","tool_name":"calculator","success":true,"message":"42","duration_ms":0}

        id: 11
        data: {"type":"delta","content":"It is 42."}

        id: 13
        data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"It is 42.","total_input_tokens":20,"total_output_tokens":10,"artifacts":[]}

        > POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","form_answer":{"approved":false}}
        409
        content-type: application/json
        {
          "detail": {
            "code": "FORM_CLOSED",
            "hint": "GET /api/v1/forms?status=open lists those that are",
            "message": "the form form#1 is not open in this session: it was answered before, has expired, or its turn was ended"
          }
        }

    "#]]);
}

#[test]
fn an_approval_that_was_asked_there_is_given_here() {
    script("door-here", [Reply::calls(&[("calculator", json!({ "expression": "6*7" }))]), Reply::says(&["Pity."])]);
    let world = World::start("form_expiry = 'never'");
    let mut talk = Talk::new(world.client());
    for request in [
        r#"PUT /session {"agent":{"name":"writer","tools":[{"name":"calculator"}]},"messages":[{"role":"user","content":"play door-here"}]}"#,
        "GET /api/v1/forms?status=open",
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","form_answer":{"approved":false,"reason":"Do it in your head."}}"#,
        "GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-message&since=6",
        r#"POST /session/sess#1 {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}"#,
        "GET /session/sess#1?history=full",
    ] {
        talk.send(request);
    }
    talk.check(expect![[r#"
        > PUT /session {"agent":{"name":"writer","tools":[{"name":"calculator"}]},"messages":[{"role":"user","content":"play door-here"}]}
        201
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#1
        {
          "messages": [
            {
              "content": [{"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}],
              "role": "assistant"
            }
          ],
          "sessionId": "sess#1",
          "stopReason": "tool_use"
        }

        > GET /api/v1/forms?status=open
        200
        content-type: application/json
        {
          "forms": [
            {
              "created_at": "<time>",
              "form_id": "form#1",
              "form_kind": "approval",
              "message_id": "turn#1",
              "payload": {
                "description": "Input: {\"expression\":\"6*7\"}",
                "schema": {
                  "additionalProperties": false,
                  "properties": {"approved":{"title":"Approved","type":"boolean"},"reason":{"title":"Reason","type":"string"}},
                  "required": ["approved"],
                  "type": "object"
                },
                "title": "Allow calculator?",
                "tool_call_id": "call#1"
              },
              "session_id": "sess#1",
              "status": "open"
            }
          ]
        }

        > POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","form_answer":{"approved":false,"reason":"Do it in your head."}}
        202
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#1
        {"kind":"form_answer","message_id":"turn#1","session_id":"sess#1"}

        > GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-message&since=6
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#1

        event: turn_start
        id: 7
        data: {}

        event: tool_result
        id: 8
        data: {"toolCallId":"call#1","content":"Tool call denied: Do it in your head."}

        event: text
        id: 11
        data: {"text":"Pity."}

        event: turn_stop
        id: 12
        data: {"stopReason":"end_turn"}

        > POST /session/sess#1 {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}
        409
        content-type: application/json
        {"error":"tool call call#1 was answered before; an answer counts once"}

        > GET /session/sess#1?history=full
        200
        content-type: application/json
        {
          "agent": {"name":"writer","tools":[{"name":"calculator","trust":false}]},
          "history": {
            "full": [
              {"content":"play door-here","role":"user"},
              {
                "content": [{"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}],
                "role": "assistant"
              },
              {"content":"Tool call denied: Do it in your head.","role":"tool","toolCallId":"call#1"},
              {"content":"Pity.","role":"assistant"}
            ]
          },
          "sessionId": "sess#1"
        }

    "#]]);
}

#[test]
fn a_form_is_filled_in_by_the_result_of_a_tool() {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let form = json!({ "kind": "clarify", "title": "Where?", "schema": schema });
    script("door-form", [Reply::calls(&[("request_form", form)]), Reply::says(&["It rains."])]);
    let world = World::start("form_expiry = 'never'");
    let mut talk = Talk::new(world.client());
    for request in [
        r#"PUT /session {"agent":{"name":"writer","tools":[{"name":"request_form"}]},"messages":[{"role":"user","content":"play door-form"}]}"#,
        r#"POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":"{\"city\":7}"}]}"#,
        "GET /api/v1/forms",
        r#"POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":"{\"city\":\"Oslo\"}"}]}"#,
        "GET /api/v1/forms",
        r#"POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":"{\"city\":\"Rome\"}"}]}"#,
    ] {
        talk.send(request);
    }
    talk.check(expect![[r#"
        > PUT /session {"agent":{"name":"writer","tools":[{"name":"request_form"}]},"messages":[{"role":"user","content":"play door-form"}]}
        201
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#1
        {
          "messages": [
            {
              "content": [
                {
                  "input": {
                    "kind": "clarify",
                    "schema": {"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"},
                    "title": "Where?"
                  },
                  "name": "request_form",
                  "toolCallId": "call#1",
                  "type": "tool_use"
                }
              ],
              "role": "assistant"
            }
          ],
          "sessionId": "sess#1",
          "stopReason": "tool_use"
        }

        > POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":"{\"city\":7}"}]}
        400
        content-type: application/json
        {"error":"the answer does not fit the form form#1: at /city: the value is not of type \"string\""}

        > GET /api/v1/forms
        200
        content-type: application/json
        {
          "forms": [
            {
              "created_at": "<time>",
              "form_id": "form#1",
              "form_kind": "clarify",
              "message_id": "turn#1",
              "payload": {
                "schema": {"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"},
                "title": "Where?",
                "tool_call_id": "call#1"
              },
              "session_id": "sess#1",
              "status": "open"
            }
          ]
        }

        > POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":"{\"city\":\"Oslo\"}"}]}
        200
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#1
        {"messages":[{"content":"It rains.","role":"assistant"}],"stopReason":"end_turn"}

        > GET /api/v1/forms
        200
        content-type: application/json
        {
          "forms": [
            {
              "answer": {"city":"Oslo"},
              "closed_at": "<time>",
              "created_at": "<time>",
              "form_id": "form#1",
              "form_kind": "clarify",
              "message_id": "turn#1",
              "payload": {
                "schema": {"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"},
                "title": "Where?",
                "tool_call_id": "call#1"
              },
              "session_id": "sess#1",
              "status": "answered"
            }
          ]
        }

        > POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":"{\"city\":\"Rome\"}"}]}
        409
        content-type: application/json
        {"error":"tool call call#1 was answered before; an answer counts once"}

    "#]]);
    let messages = asked("door-form").pop().unwrap()["messages"].clone();
    let result = messages.as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!(result, r#"{"city":"Oslo"}"#, "{messages}");
}
