//! Full history is exact; compacted history is what the model is given.

use expect_test::expect;

use crate::suite::harness::{Reply, asked, check, script};

#[test]
fn both_kinds_each_kind_and_no_other() {
    script("history-kinds", [Reply::says(&["Hello."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"play history-kinds"}]}"#,
            r#"GET /session/sess#1"#,
            r#"GET /session/sess#1?history=full"#,
            r#"GET /session/sess#1?history=compacted"#,
            r#"GET /session/sess#1?history=short"#,
            r#"GET /session/sess#1?history="#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"play history-kinds"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"Hello.","role":"assistant"}],"sessionId":"sess#1","stopReason":"end_turn"}

            > GET /session/sess#1
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {
                "compacted": [{"content":"play history-kinds","role":"user"},{"content":"Hello.","role":"assistant"}],
                "full": [{"content":"play history-kinds","role":"user"},{"content":"Hello.","role":"assistant"}]
              },
              "sessionId": "sess#1"
            }

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {"full":[{"content":"play history-kinds","role":"user"},{"content":"Hello.","role":"assistant"}]},
              "sessionId": "sess#1"
            }

            > GET /session/sess#1?history=compacted
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {"compacted":[{"content":"play history-kinds","role":"user"},{"content":"Hello.","role":"assistant"}]},
              "sessionId": "sess#1"
            }

            > GET /session/sess#1?history=short
            400
            content-type: application/json
            {"error":"history=\"short\" is not known; use compacted or full"}

            > GET /session/sess#1?history=
            400
            content-type: application/json
            {"error":"history=\"\" is not known; use compacted or full"}

        "#]],
    );
}

/// The agent `small` holds 400 tokens: the third message does not fit with what came before.
#[test]
fn what_does_not_fit_is_summarised() {
    // Every message names the script, for nobody knows which of them the model will be given.
    let long = |word: &str, times: usize| format!("{word} ").repeat(times) + "play history-long";
    let answer = |word: &str| long(word, 115);
    script(
        "history-long",
        [
            Reply::says(&[&answer("once")]),
            Reply::says(&[&answer("twice")]),
            Reply::says(&["They counted."]),
            Reply::says(&["Three."]),
        ],
    );
    let ask = |text: &str| format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let shared = crate::suite::harness::shared();
    let client = shared.client("acme");
    let made =
        client.send("PUT", "/session", &format!(r#"{{"agent":{{"name":"small"}},{}"#, &ask(&long("anna", 57))[1..]));
    assert_eq!(made.status, 201, "{made:?}");
    let path = format!("/session/{}", made.json()["sessionId"].as_str().unwrap());
    assert_eq!(client.send("POST", &path, &ask(&long("beth", 57))).json()["stopReason"], "end_turn");
    let last = client.send("POST", &path, &ask("c play history-long")).json();
    assert_eq!(last["stopReason"], "end_turn", "{last}");
    let session = client.send("GET", &path, "").json();
    let full = session["history"]["full"].as_array().unwrap();
    assert_eq!(full.len(), 6, "full history is exact: {session}");
    assert_eq!(full[1]["content"], answer("once"));
    assert_eq!(full[5]["content"], "Three.");
    let compacted = session["history"]["compacted"].as_array().unwrap();
    assert!(compacted.len() < 6 && compacted[0].to_string().contains("They counted."), "{session}");
    assert_eq!(compacted.last(), full.last());
    let told = asked("history-long").pop().unwrap().to_string();
    assert!(told.contains("They counted.") && !told.contains("once once"), "the model was given the summary: {told}");
}

#[test]
fn a_message_that_does_not_fit_is_shortened() {
    let huge = "x".repeat(4000);
    script("history-huge", [Reply::says(&["All these letters."])]);
    let shared = crate::suite::harness::shared();
    let client = shared.client("acme");
    let body = format!(
        r#"{{"agent":{{"name":"small"}},"stream":"delta","messages":[{{"role":"user","content":"play history-huge {huge}"}}]}}"#
    );
    let answer = client.send("PUT", "/session", &body);
    assert!(answer.body.ends_with("data: {\"stopReason\":\"end_turn\"}\n\n"), "{answer:?}");
    let given = asked("history-huge")[0].to_string();
    assert!(given.contains("bytes of this message are left out here") && !given.contains(&huge), "{given}");
}

/// Tools cannot be shortened: where they alone fill the window, nothing can be asked.
#[test]
fn what_cannot_fit_ends_with_max_tokens() {
    let shared = crate::suite::harness::shared();
    let client = shared.client("acme");
    // System messages always stay.
    let system = format!(r#"{{"role":"system","content":"{}"}}"#, "x".repeat(8000));
    let body = format!(
        r#"{{"agent":{{"name":"small"}},"stream":"delta","messages":[{system},{{"role":"user","content":"hi"}}]}}"#
    );
    let answer = client.send("PUT", "/session", &body);
    assert!(answer.body.ends_with("event: turn_stop\nid: 2\ndata: {\"stopReason\":\"max_tokens\"}\n\n"), "{answer:?}");
    let id = |name: &str| answer.headers[name].to_str().unwrap();
    let (session, turn) = (id("x-session-id"), id("x-message-id"));
    let native = client.send("GET", &format!("/api/v1/sessions/{session}/messages/{turn}/stream"), "");
    assert!(native.body.contains(r#""code":"CONTEXT_OVERFLOW""#), "{native:?}");
}
