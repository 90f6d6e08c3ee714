//! The door through which any turn can be read in any view, from any cursor.

use expect_test::expect;

use super::harness::{Client, check, eventually, shared};

const TURN: &str = r#"{"agent":{"name":"demo","tools":[{"name":"clock","trust":true},{"name":"calculator","trust":true}]},"stream":"MODE","messages":[{"role":"user","content":"use clock and calculator {\"expression\":\"6*7\"}"}]}"#;

fn view(client: &Client, session: &str, turn: &str, mode: &str, cursor: Option<&str>) -> String {
    let path = format!("/api/v1/sessions/{session}/messages/{turn}/stream?as=aap-{mode}");
    let headers: Vec<_> = cursor.map(|cursor| ("last-event-id", cursor)).into_iter().collect();
    let answer = client.send_with("GET", &path, &headers, "");
    // Who has seen the end of a turn that is over is told not to come back.
    let over = answer.status == 204 && answer.body.is_empty();
    assert!(answer.status == 200 || over, "{answer:?}");
    answer.body
}

#[test]
fn every_cursor_gives_exactly_the_rest() {
    let shared = shared();
    let client = shared.client("acme");
    for mode in ["delta", "message"] {
        let answer = client.send("PUT", "/session", &TURN.replace("MODE", mode));
        let (session, turn) = (answer.header("x-session-id"), answer.header("x-message-id"));
        let frames: Vec<_> = answer.body.split_inclusive("\n\n").collect();
        assert!(frames.len() > 6, "{frames:#?}");
        assert_eq!(view(&client, session, turn, mode, None), answer.body, "from the first event");
        for (index, frame) in frames.iter().enumerate() {
            let id = frame.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
            let rest = view(&client, session, turn, mode, Some(id));
            assert_eq!(rest, frames[index + 1..].concat(), "after frame {index}, {id}");
        }
        // A cursor means the same in the other view: nothing that lies before it is shown.
        let other = if mode == "delta" { "message" } else { "delta" };
        let whole = view(&client, session, turn, other, None);
        for frame in &frames {
            let id = frame.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
            assert!(whole.ends_with(&view(&client, session, turn, other, Some(id))), "{id}");
        }
    }
}

#[test]
fn a_lost_stream_is_picked_up_while_the_turn_runs() {
    let shared = shared();
    let client = shared.client("acme");
    let body =
        r#"{"agent":{"name":"demo"},"stream":"delta","messages":[{"role":"user","content":"stream 300 at 400/s"}]}"#;
    let mut stream = client.open("PUT", "/session", body);
    let (session, turn) = (stream.header("x-session-id").to_owned(), stream.header("x-message-id").to_owned());
    let mut seen = String::new();
    let last = loop {
        let frame = stream.next().unwrap();
        seen += &format!("{frame}\n\n");
        let id = frame.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
        if frame.contains("word 40 ") {
            break id;
        }
    };
    drop(stream);
    seen.push_str(&view(&client, &session, &turn, "delta", Some(&last)));
    assert_eq!(seen, view(&client, &session, &turn, "delta", None), "no gap, no repeat");
    assert!(seen.ends_with("data: {\"stopReason\":\"end_turn\"}\n\n"), "{seen}");
    let whole = eventually("the answer is in history", || {
        let history = client.send("GET", &format!("/session/{session}?history=full"), "").json();
        history["history"]["full"][1]["content"].as_str().map(str::to_owned)
    });
    assert_eq!(whole.matches("word ").count(), 300);
}

#[test]
fn a_waiting_turn_goes_on_after_its_leg() {
    let shared = shared();
    let client = shared.client("acme");
    let body = r#"{"agent":{"name":"demo","tools":[{"name":"clock"}]},"stream":"delta","messages":[{"role":"user","content":"use clock"}]}"#;
    let first = client.send("PUT", "/session", body);
    let (session, turn) = (first.header("x-session-id"), first.header("x-message-id"));
    let call = first.body.split("\"toolCallId\":\"").nth(1).unwrap().split('"').next().unwrap();
    let body = format!(
        r#"{{"stream":"delta","messages":[{{"role":"tool_permission","toolCallId":"{call}","granted":true}}]}}"#
    );
    let second = client.send("POST", &format!("/session/{session}"), &body);
    assert_eq!(second.header("x-message-id"), turn, "two legs of one turn");
    assert_eq!(view(&client, session, turn, "delta", None), first.body);
    let last = first.body.lines().rfind(|line| line.starts_with("id: ")).unwrap();
    assert_eq!(view(&client, session, turn, "delta", last.strip_prefix("id: ")), second.body);
}

#[test]
fn what_is_not_there_or_not_a_cursor_is_refused() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"stream":"message","messages":[{"role":"user","content":"refuse"}]}"#,
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-message&since=1.2",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-message&since=4711",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-message&since=x",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=nonsense",
            "GET /api/v1/sessions/sess#1/messages/turn_no/stream?as=aap-delta",
            "@bob GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-delta",
            "@nobody GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-delta",
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"stream":"message","messages":[{"role":"user","content":"refuse"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: session_start
            id: 1.1
            data: {"sessionId":"sess#1"}

            event: turn_start
            id: 1.2
            data: {}

            event: text
            id: 16
            data: {"text":"I decline, because you asked me to. This is how a refusal looks."}

            event: turn_stop
            id: 17
            data: {"stopReason":"refusal"}

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-message&since=1.2
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: text
            id: 16
            data: {"text":"I decline, because you asked me to. This is how a refusal looks."}

            event: turn_stop
            id: 17
            data: {"stopReason":"refusal"}

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-message&since=4711
            400
            content-type: application/json
            {"detail":{"code":"CURSOR_INVALID","message":"the cursor is beyond the turn's last event, 17"}}

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-message&since=x
            400
            content-type: application/json
            {
              "detail": {
                "code": "CURSOR_INVALID",
                "message": "\"x\" cannot be resumed from: a cursor is the id of a frame, such as 17 or 17.2"
              }
            }

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=nonsense
            400
            content-type: application/json
            {
              "detail": {
                "code": "VIEW_UNKNOWN",
                "message": "as=\"nonsense\" is not a view; there are: aap-delta, aap-message, goose, goose-seed, native, openai, openai-progress, openai-usage, openai-usage-progress"
              }
            }

            > GET /api/v1/sessions/sess#1/messages/turn_no/stream?as=aap-delta
            404
            content-type: application/json
            {"detail":{"code":"MESSAGE_NOT_FOUND","message":"there is no such turn"}}

            > @bob GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-delta
            404
            content-type: application/json
            {"detail":{"code":"MESSAGE_NOT_FOUND","message":"there is no such turn"}}

            > @nobody GET /api/v1/sessions/sess#1/messages/turn#1/stream?as=aap-delta
            401
            content-type: application/json
            www-authenticate: Bearer
            {
              "detail": {
                "code": "AUTH_HEADER_MISSING",
                "message": "this server wants a key: send the header Authorization: Bearer <key>"
              }
            }

        "#]],
    );
}
