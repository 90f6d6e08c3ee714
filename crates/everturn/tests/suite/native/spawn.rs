//! `POST /api/v1/sessions/stream`: what is taken, and what makes no sense.

use expect_test::expect;

use crate::suite::harness::{Reply, check, script, shared};

const SPAWN: &str = "/api/v1/sessions/stream";

#[test]
fn a_turn_is_spawned_and_then_read() {
    script("spawn-first", [Reply::says(&["Good ", "day."])]);
    script("spawn-second", [Reply::says(&["Again?"])]);
    check(
        &[
            r#"POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play spawn-first"}"#,
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
            r#"POST /api/v1/sessions/stream {"session_id":"sess#1","message":"play spawn-second"}"#,
            "GET /api/v1/sessions/sess#1/messages/turn#2/stream",
        ],
        expect![[r#"
            > POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play spawn-first"}
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
            data: {"type":"start","session_id":"sess#1","message_id":"turn#1","agent_id":"scripted"}

            id: 3
            data: {"type":"delta","content":"Good "}

            id: 4
            data: {"type":"delta","content":"day."}

            id: 6
            data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"Good day.","total_input_tokens":10,"total_output_tokens":5,"artifacts":[]}

            > POST /api/v1/sessions/stream {"session_id":"sess#1","message":"play spawn-second"}
            202
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {"kind":"new_turn","message_id":"turn#2","session_id":"sess#1"}

            > GET /api/v1/sessions/sess#1/messages/turn#2/stream
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#2

            retry: 1000
            id: 1
            data: {"type":"start","session_id":"sess#1","message_id":"turn#2","agent_id":"scripted"}

            id: 3
            data: {"type":"delta","content":"Again?"}

            id: 5
            data: {"type":"complete","session_id":"sess#1","message_id":"turn#2","final_response":"Again?","total_input_tokens":10,"total_output_tokens":5,"artifacts":[]}

        "#]],
    );
}

#[test]
fn what_is_unknown_is_ignored_and_what_is_null_is_absent() {
    let shared = shared();
    let client = shared.client("acme");
    for body in [
        r#"{"message":"stream 1","colour":"red","priority":[1,{"a":null}]}"#,
        r#"{"message":"stream 1","session_id":null,"agent_id":null,"document_ids":null,"form_id":null,"form_answer":null,"on_busy":null,"agent_options":null,"tools":null}"#,
        r#"{"message":"stream 1","document_ids":[],"tools":[{"name":"clock","trust":false,"colour":"red"}],"agent_options":{}}"#,
    ] {
        let answer = client.send("POST", SPAWN, body);
        assert_eq!((answer.status, &answer.json()["kind"]), (202, &"new_turn".into()), "{body}: {answer:?}");
    }
}

#[test]
fn what_makes_no_sense() {
    check(
        &[
            "POST /api/v1/sessions/stream {}",
            r#"POST /api/v1/sessions/stream {"message":" \n"}"#,
            r#"POST /api/v1/sessions/stream {"document_ids":[]}"#,
            r#"POST /api/v1/sessions/stream {"message":7}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","session_id":7}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","agent_id":["demo"]}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","document_ids":"doc_1"}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","on_busy":"wait"}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","agent_options":{"language":"Latin"}}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","agent_options":{"size":"big"}}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","tools":[{"trust":true}]}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","tools":[{"name":"hammer","trust":true}]}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","form_answer":{}}"#,
            r#"POST /api/v1/sessions/stream ["hi"]"#,
            r#"POST /api/v1/sessions/stream {"message":"hi""#,
        ],
        expect![[r#"
            > POST /api/v1/sessions/stream {}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "hint": "send a message, document_ids, or a form_answer to a form that waits",
                "message": "message is missing or blank"
              }
            }

            > POST /api/v1/sessions/stream {"message":" \n"}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "hint": "send a message, document_ids, or a form_answer to a form that waits",
                "message": "message is missing or blank"
              }
            }

            > POST /api/v1/sessions/stream {"document_ids":[]}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "hint": "send a message, document_ids, or a form_answer to a form that waits",
                "message": "message is missing or blank"
              }
            }

            > POST /api/v1/sessions/stream {"message":7}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "message": "the body is not valid at message: invalid type: integer `7`, expected a string at line 1 column 12"
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","session_id":7}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "message": "the body is not valid at session_id: invalid type: integer `7`, expected a string at line 1 column 30"
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","agent_id":["demo"]}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "message": "the body is not valid at agent_id: invalid type: sequence, expected a string at line 1 column 27"
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","document_ids":"doc_1"}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "message": "the body is not valid at document_ids: invalid type: string \"doc_1\", expected a sequence at line 1 column 38"
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","on_busy":"wait"}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "message": "on_busy cannot be \"wait\"; use \"enqueue\", \"reject\" or \"interrupt\""
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","agent_options":{"language":"Latin"}}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "message": "option \"language\" cannot be \"Latin\"; choose one of: English, Japanese"
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","agent_options":{"size":"big"}}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "message": "agent \"demo\" has no option \"size\"; it has: language, nickname, token"
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","tools":[{"trust":true}]}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "message": "the body is not valid at tools[0]: missing field `name` at line 1 column 39"
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","tools":[{"name":"hammer","trust":true}]}
            422
            content-type: application/json
            {
              "detail": {"code":"VALIDATION_FAILED","message":"agent \"demo\" has no tool \"hammer\"; it has: clock, calculator"}
            }

            > POST /api/v1/sessions/stream {"message":"hi","form_answer":{}}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "hint": "GET /api/v1/forms tells a form's session_id",
                "message": "session_id is missing: a form belongs to a session"
              }
            }

            > POST /api/v1/sessions/stream ["hi"]
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "message": "the body is not valid: invalid type: sequence, expected an object at line 1 column 0"
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi"
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "message": "the body is not valid: EOF while parsing an object at line 1 column 15"
              }
            }

        "#]],
    );
}
