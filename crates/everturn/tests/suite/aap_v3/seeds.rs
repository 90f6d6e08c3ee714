//! The history that a session may begin with. Here it may end with anything: what runs comes later.

use expect_test::expect;
use serde_json::{Value, json};

use super::application::Application;
use crate::suite::harness::{Reply, asked, check, script};

/// What the model was told, a message a line.
fn lines(request: &Value) -> String {
    request["messages"].as_array().unwrap().iter().map(|message| format!("{message}\n")).collect()
}

#[test]
fn a_seed_is_kept_as_it_is_and_given_to_the_model() {
    script("v3-seed", [Reply::says(&["Yes."])]);
    let seed = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "What is 6*7?" },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "Easy." },
            { "type": "text", "text": "I calculate." },
            { "type": "tool_use", "toolCallId": "call_001", "name": "calculator", "input": { "expression": "6*7" } },
        ] },
        { "role": "tool", "toolCallId": "call_001", "content": "42" },
        { "role": "assistant", "content": "42." },
    ]);
    let mut application = Application::start(&json!({ "agent": { "name": "scripted" }, "messages": seed }));
    assert_eq!(json!(application.history("full")), seed, "before anything runs");
    assert_eq!(json!(application.history("compacted")), seed);
    assert_eq!(application.say("delta", "Sure? play v3-seed").text(), "Yes.");
    expect![[r#"
        {"content":"Answer friend in English.\n\nBe brief.","role":"system"}
        {"content":"What is 6*7?","role":"user"}
        {"content":"I calculate.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"expression\":\"6*7\"}","name":"calculator"},"id":"call_001","type":"function"}]}
        {"content":"42","role":"tool","tool_call_id":"call_001"}
        {"content":"42.","role":"assistant"}
        {"content":"Sure? play v3-seed","role":"user"}
    "#]].assert_eq(&lines(&asked("v3-seed")[0]));
}

/// Calls that somebody spoke after are over.
#[test]
fn dangling_calls_are_closed_before_the_model_sees_them() {
    script("v3-dangling", [Reply::says(&["Yes."])]);
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"scripted"},"tools":[$tide],"messages":[{"role":"user","content":"Tides?"},{"role":"assistant","content":[{"type":"tool_use","toolCallId":"c1","name":"get_tide","input":{"port":"Oslo"}},{"type":"tool_use","toolCallId":"c2","name":"get_tide","input":{"port":"Brest"}}]},{"role":"tool","toolCallId":"c2","content":"low"},{"role":"tool","toolCallId":"c9","content":"stray"},{"role":"user","content":"Never mind."}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c1","content":"high"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c2","content":"high"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"play v3-dangling"}]}"#,
            "GET /aap/v3/sessions/sess#1/history?type=full",
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"scripted"},"tools":[$tide],"messages":[{"role":"user","content":"Tides?"},{"role":"assistant","content":[{"type":"tool_use","toolCallId":"c1","name":"get_tide","input":{"port":"Oslo"}},{"type":"tool_use","toolCallId":"c2","name":"get_tide","input":{"port":"Brest"}}]},{"role":"tool","toolCallId":"c2","content":"low"},{"role":"tool","toolCallId":"c9","content":"stray"},{"role":"user","content":"Never mind."}]}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c1","content":"high"}]}
            400
            content-type: application/json
            {"error":"no tool call c1 waits for an answer in this session"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c2","content":"high"}]}
            409
            content-type: application/json
            {"error":"tool call c2 was answered before; an answer counts once"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"play v3-dangling"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"Yes.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /aap/v3/sessions/sess#1/history?type=full
            200
            content-type: application/json
            {
              "history": {
                "full": [
                  {"content":"Tides?","role":"user"},
                  {
                    "content": [
                      {"input":{"port":"Oslo"},"name":"get_tide","toolCallId":"c1","type":"tool_use"},
                      {"input":{"port":"Brest"},"name":"get_tide","toolCallId":"c2","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"low","role":"tool","toolCallId":"c2"},
                  {"content":"stray","role":"tool","toolCallId":"c9"},
                  {"content":"Never mind.","role":"user"},
                  {"content":"play v3-dangling","role":"user"},
                  {"content":"Yes.","role":"assistant"}
                ]
              }
            }

        "#]],
    );
    expect![[r#"
        {"content":"Answer friend in English.","role":"system"}
        {"content":"Tides?","role":"user"}
        {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"port\":\"Oslo\"}","name":"get_tide"},"id":"c1","type":"function"},{"function":{"arguments":"{\"port\":\"Brest\"}","name":"get_tide"},"id":"c2","type":"function"}]}
        {"content":"Tool call interrupted: it gave no result","role":"tool","tool_call_id":"c1"}
        {"content":"low","role":"tool","tool_call_id":"c2"}
        {"content":"Never mind.\n\nplay v3-dangling","role":"user"}
    "#]].assert_eq(&lines(&asked("v3-dangling")[0]));
}

/// `c1` of the application has no result, `c2` has one; `c3` is of the server and has none.
const WAITING: &str = r#"POST /aap/v3/sessions {"agent":{"name":"scripted","tools":[{"name":"clock","trust":true}]},"tools":[$tide],"messages":[{"role":"user","content":"Tides?"},{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","toolCallId":"c1","name":"get_tide","input":{"port":"Oslo"}},{"type":"tool_use","toolCallId":"c2","name":"get_tide","input":{"port":"Brest"}},{"type":"tool_use","toolCallId":"c3","name":"clock","input":{}}]},{"role":"tool","toolCallId":"c2","content":"low"}]}"#;

#[test]
fn a_seed_that_ends_in_calls_of_the_application_waits_for_them() {
    script("v3-seed-waits", [Reply::says(&["High, then low."])]);
    check(
        &[
            WAITING,
            "GET /aap/v3/sessions/sess#1/history?type=full",
            // What was resolved, or is the server's, is not waited for.
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c1","content":"high"},{"role":"tool_permission","toolCallId":"c3","granted":true}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c2","content":"high"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"stream":"delta","messages":[{"role":"tool","toolCallId":"c1","content":"high, play v3-seed-waits"}]}"#,
            "GET /aap/v3/sessions/sess#1/history?type=full",
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"scripted","tools":[{"name":"clock","trust":true}]},"tools":[$tide],"messages":[{"role":"user","content":"Tides?"},{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","toolCallId":"c1","name":"get_tide","input":{"port":"Oslo"}},{"type":"tool_use","toolCallId":"c2","name":"get_tide","input":{"port":"Brest"}},{"type":"tool_use","toolCallId":"c3","name":"clock","input":{}}]},{"role":"tool","toolCallId":"c2","content":"low"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > GET /aap/v3/sessions/sess#1/history?type=full
            200
            content-type: application/json
            {
              "history": {
                "full": [
                  {"content":"Tides?","role":"user"},
                  {
                    "content": [
                      {"text":"I look.","type":"text"},
                      {"input":{"port":"Oslo"},"name":"get_tide","toolCallId":"c1","type":"tool_use"},
                      {"input":{"port":"Brest"},"name":"get_tide","toolCallId":"c2","type":"tool_use"},
                      {"input":{},"name":"clock","toolCallId":"c3","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"low","role":"tool","toolCallId":"c2"},
                  {"content":"Tool call interrupted: it gave no result","role":"tool","toolCallId":"c3"}
                ]
              }
            }

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c1","content":"high"},{"role":"tool_permission","toolCallId":"c3","granted":true}]}
            409
            content-type: application/json
            {"error":"tool call c3 was answered before; an answer counts once"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c2","content":"high"}]}
            409
            content-type: application/json
            {"error":"tool call c2 was answered before; an answer counts once"}

            > POST /aap/v3/sessions/sess#1/turns {"stream":"delta","messages":[{"role":"tool","toolCallId":"c1","content":"high, play v3-seed-waits"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 7
            data: {}

            event: text_delta
            id: 9
            data: {"delta":"High, then low."}

            event: turn_stop
            id: 11
            data: {"stopReason":"end_turn"}

            > GET /aap/v3/sessions/sess#1/history?type=full
            200
            content-type: application/json
            {
              "history": {
                "full": [
                  {"content":"Tides?","role":"user"},
                  {
                    "content": [
                      {"text":"I look.","type":"text"},
                      {"input":{"port":"Oslo"},"name":"get_tide","toolCallId":"c1","type":"tool_use"},
                      {"input":{"port":"Brest"},"name":"get_tide","toolCallId":"c2","type":"tool_use"},
                      {"input":{},"name":"clock","toolCallId":"c3","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"low","role":"tool","toolCallId":"c2"},
                  {"content":"Tool call interrupted: it gave no result","role":"tool","toolCallId":"c3"},
                  {"content":"high, play v3-seed-waits","role":"tool","toolCallId":"c1"},
                  {"content":"High, then low.","role":"assistant"}
                ]
              }
            }

        "#]],
    );
    expect![[r#"
        {"content":"Answer friend in English.","role":"system"}
        {"content":"Tides?","role":"user"}
        {"content":"I look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"port\":\"Oslo\"}","name":"get_tide"},"id":"c1","type":"function"},{"function":{"arguments":"{\"port\":\"Brest\"}","name":"get_tide"},"id":"c2","type":"function"},{"function":{"arguments":"{}","name":"clock"},"id":"c3","type":"function"}]}
        {"content":"high, play v3-seed-waits","role":"tool","tool_call_id":"c1"}
        {"content":"low","role":"tool","tool_call_id":"c2"}
        {"content":"Tool call interrupted: it gave no result","role":"tool","tool_call_id":"c3"}
    "#]].assert_eq(&lines(&asked("v3-seed-waits")[0]));
}

#[test]
fn a_message_skips_the_calls_that_a_seed_ends_in() {
    script("v3-seed-skips", [Reply::says(&["Fine."])]);
    check(
        &[
            WAITING,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"Never mind, play v3-seed-skips"}]}"#,
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"scripted","tools":[{"name":"clock","trust":true}]},"tools":[$tide],"messages":[{"role":"user","content":"Tides?"},{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","toolCallId":"c1","name":"get_tide","input":{"port":"Oslo"}},{"type":"tool_use","toolCallId":"c2","name":"get_tide","input":{"port":"Brest"}},{"type":"tool_use","toolCallId":"c3","name":"clock","input":{}}]},{"role":"tool","toolCallId":"c2","content":"low"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"Never mind, play v3-seed-skips"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"Fine.","role":"assistant"}],"stopReason":"end_turn"}

        "#]],
    );
    expect![[r#"
        {"content":"Answer friend in English.","role":"system"}
        {"content":"Tides?","role":"user"}
        {"content":"I look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"port\":\"Oslo\"}","name":"get_tide"},"id":"c1","type":"function"},{"function":{"arguments":"{\"port\":\"Brest\"}","name":"get_tide"},"id":"c2","type":"function"},{"function":{"arguments":"{}","name":"clock"},"id":"c3","type":"function"}]}
        {"content":"Tool call skipped: the user sent a new message","role":"tool","tool_call_id":"c1"}
        {"content":"low","role":"tool","tool_call_id":"c2"}
        {"content":"Tool call interrupted: it gave no result","role":"tool","tool_call_id":"c3"}
        {"content":"Never mind, play v3-seed-skips","role":"user"}
    "#]].assert_eq(&lines(&asked("v3-seed-skips")[0]));
}

#[test]
fn a_seed_may_end_with_the_user_or_be_nothing() {
    script("v3-seed-user", [Reply::says(&["Tea."])]);
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"I like tea."}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"What do I like? play v3-seed-user"}]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":null,"tools":null}"#,
            "GET /aap/v3/sessions/sess#3/history?type=full",
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"I like tea."}]}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"What do I like? play v3-seed-user"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"Tea.","role":"assistant"}],"stopReason":"end_turn"}

            > POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[]}
            201
            content-type: application/json
            x-session-id: sess#2
            {"sessionId":"sess#2"}

            > POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":null,"tools":null}
            201
            content-type: application/json
            x-session-id: sess#3
            {"sessionId":"sess#3"}

            > GET /aap/v3/sessions/sess#3/history?type=full
            200
            content-type: application/json
            {"history":{"full":[]}}

        "#]],
    );
    expect![[r#"
        {"content":"Answer friend in English.","role":"system"}
        {"content":"I like tea.\n\nWhat do I like? play v3-seed-user","role":"user"}
    "#]]
    .assert_eq(&lines(&asked("v3-seed-user")[0]));
}

#[test]
fn seeds_that_are_refused() {
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"tool_permission","toolCallId":"c1","granted":true}]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"boss","content":"hi"}]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"user"}]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":{"role":"user","content":"hi"}}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"plain"},"messages":[{"role":"user","content":[{"type":"image","url":"https://example.com/a.png"}]}]}"#,
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"tool_permission","toolCallId":"c1","granted":true}]}
            400
            content-type: application/json
            {"error":"messages[0]: a tool_permission cannot be part of a new session's history"}

            > POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"boss","content":"hi"}]}
            400
            content-type: application/json
            {"error":"messages[0]: role \"boss\" is not known; use system, user, assistant or tool"}

            > POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"user"}]}
            400
            content-type: application/json
            {"error":"messages[0]: content is missing"}

            > POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":{"role":"user","content":"hi"}}
            400
            content-type: application/json
            {"error":"the body is not valid at messages: invalid type: map, expected a sequence at line 1 column 36"}

            > POST /aap/v3/sessions {"agent":{"name":"plain"},"messages":[{"role":"user","content":[{"type":"image","url":"https://example.com/a.png"}]}]}
            400
            content-type: application/json
            {"error":"messages[0]: agent \"plain\" takes no https images"}

        "#]],
    );
}
