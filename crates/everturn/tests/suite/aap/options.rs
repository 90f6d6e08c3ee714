//! Options: merged by key, persisted; secrets never shown.

use expect_test::expect;

use crate::suite::harness::{Home, PROVIDER_KEY, Reply, asked, check, key, script, shared, shared_config};

#[test]
fn options_are_merged_by_key_and_persisted() {
    script("options-merge", [Reply::says(&["One."]), Reply::says(&["Two."]), Reply::says(&["Three."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","options":{"nickname":"Ann"}},"messages":[{"role":"user","content":"play options-merge"}]}"#,
            r#"GET /session/sess#1?history=full"#,
            r#"POST /session/sess#1 {"agent":{"options":{"language":"Japanese"}},"messages":[{"role":"user","content":"two"}]}"#,
            r#"POST /session/sess#1 {"agent":{"options":{"nickname":"Bo"}},"messages":[{"role":"user","content":"three"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","options":{"nickname":"Ann"}},"messages":[{"role":"user","content":"play options-merge"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"One.","role":"assistant"}],"sessionId":"sess#1","stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","options":{"nickname":"Ann"},"tools":[]},
              "history": {"full":[{"content":"play options-merge","role":"user"},{"content":"One.","role":"assistant"}]},
              "sessionId": "sess#1"
            }

            > POST /session/sess#1 {"agent":{"options":{"language":"Japanese"}},"messages":[{"role":"user","content":"two"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {"messages":[{"content":"Two.","role":"assistant"}],"stopReason":"end_turn"}

            > POST /session/sess#1 {"agent":{"options":{"nickname":"Bo"}},"messages":[{"role":"user","content":"three"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#3
            {"messages":[{"content":"Three.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","options":{"language":"Japanese","nickname":"Bo"},"tools":[]},
              "history": {
                "full": [
                  {"content":"play options-merge","role":"user"},
                  {"content":"One.","role":"assistant"},
                  {"content":"two","role":"user"},
                  {"content":"Two.","role":"assistant"},
                  {"content":"three","role":"user"},
                  {"content":"Three.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
    let instructions: Vec<_> =
        asked("options-merge").iter().map(|told| told["messages"][0]["content"].clone()).collect();
    let expected = ["Answer Ann in English.", "Answer Ann in Japanese.", "Answer Bo in Japanese."];
    assert_eq!(instructions, expected);
}

#[test]
fn wrong_options_are_refused() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo","options":{"volume":"11"}},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo","options":{"language":"Klingon"}},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo","options":{"nickname":7}},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo","options":{"nickname":null}},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo","options":["nickname"]},"messages":[{"role":"user","content":"hi"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo","options":{"volume":"11"}},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"agent \"demo\" has no option \"volume\"; it has: language, nickname, token"}

            > PUT /session {"agent":{"name":"demo","options":{"language":"Klingon"}},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"option \"language\" cannot be \"Klingon\"; choose one of: English, Japanese"}

            > PUT /session {"agent":{"name":"demo","options":{"nickname":7}},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {
              "error": "the body is not valid at agent.options.nickname: invalid type: integer `7`, expected a string at line 1 column 47"
            }

            > PUT /session {"agent":{"name":"demo","options":{"nickname":null}},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {
              "error": "the body is not valid at agent.options.nickname: invalid type: null, expected a string at line 1 column 50"
            }

            > PUT /session {"agent":{"name":"demo","options":["nickname"]},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"the body is not valid at agent.options: invalid type: sequence, expected a map at line 1 column 34"}

        "#]],
    );
}

/// A secret is encrypted where it is kept and appears nowhere else.
#[test]
fn secrets_are_shown_as_stars_and_stars_mean_unchanged() {
    const SECRET: &str = "correct-horse-battery-staple";
    script("options-secret", [Reply::says(&["One."]), Reply::says(&["Two."]), Reply::says(&["Three."])]);
    let shared = shared();
    let client = shared.client("acme");
    let create = r#"{"agent":{"name":"scripted","options":{"token":"SECRET","nickname":"Ann"}},"stream":"delta","messages":[{"role":"user","content":"play options-secret"}]}"#;
    let made = client.send("PUT", "/session", &create.replace("SECRET", SECRET));
    assert_eq!(made.status, 200, "{made:?}");
    let path = format!("/session/{}", made.header("x-session-id"));
    let mut seen = vec![made.body.clone()];
    let shown = client.send("GET", &path, "");
    assert_eq!(shown.json()["agent"]["options"]["token"], "***");
    seen.push(shown.body.clone());
    // What was read can be sent back as it is.
    let back = serde_json::json!({
        "agent": { "options": shown.json()["agent"]["options"] },
        "messages": [{ "role": "user", "content": "two" }],
    });
    seen.push(client.send("POST", &path, &back.to_string()).body);
    let after = client.send("GET", &path, "");
    assert_eq!(after.json()["agent"], shown.json()["agent"]);
    // An empty secret is a secret too.
    let empty = r#"{"agent":{"options":{"token":""}},"messages":[{"role":"user","content":"three"}]}"#;
    assert_eq!(client.send("POST", &path, empty).status, 200);
    assert_eq!(client.send("GET", &path, "").json()["agent"]["options"]["token"], "***");
    seen.push(shared.home.log());
    seen.push(client.send("GET", "/metrics", "").body);
    seen.extend(asked("options-secret").iter().map(ToString::to_string));
    let files = std::fs::read_dir(shared.home.path().join("everturn-data")).unwrap();
    let files = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let files = files.map(|path| std::fs::read(path).unwrap());
    let kept: Vec<_> = files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect();
    // What is no secret can be found there, so that one could be.
    assert!(kept.iter().any(|text| text.contains("play options-secret")));
    seen.extend(kept);
    assert!(!seen.iter().any(|text| text.contains(SECRET)), "the secret is to be seen");
}

/// What was never set stays unset, and for what is no secret stars are stars.
#[test]
fn stars_for_what_is_not_there() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo","options":{"token":"***","nickname":"***"}},"messages":[{"role":"user","content":"stream 1"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo","options":{"token":"***","nickname":"***"}},"messages":[{"role":"user","content":"stream 1"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"word 1 ","role":"assistant"}],"sessionId":"sess#1","stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"demo","options":{"nickname":"***"},"tools":[]},
              "history": {"full":[{"content":"stream 1","role":"user"},{"content":"word 1 ","role":"assistant"}]},
              "sessionId": "sess#1"
            }

        "#]],
    );
}

/// However much is logged, no secret is.
#[test]
fn the_log_holds_no_secret() {
    const SECRET: &str = "correct-horse-battery-staple";
    script("options-log", [Reply::status(429, &[("retry-after-ms", "1")], PROVIDER_KEY), Reply::says(&["Hello."])]);
    let keys = format!("[[keys]]\nkey = '{}'\ntenant = 'acme'\n", key("acme"));
    let home = Home::new(&(shared_config("") + &keys));
    let server = home.start_with(&["--log-level", "trace"]);
    let client = server.client().with_key(&key("acme"));
    let body = r#"{"agent":{"name":"scripted","options":{"token":"SECRET"}},"messages":[{"role":"user","content":"play options-log"}]}"#;
    let answer = client.send("PUT", "/session", &body.replace("SECRET", SECRET));
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(client.with_key(&key("stranger")).send("GET", "/sessions", "").status, 401);
    let refused = body
        .replace("SECRET", SECRET)
        .replace("play options-log", "hi")
        .replace("scripted", "demo")
        .replace("token", "volume");
    assert_eq!(client.send("PUT", "/session", &refused).status, 400);
    let log = home.log();
    assert!(log.contains("a model call failed"), "{log}");
    for secret in [SECRET, &key("acme"), &key("stranger"), PROVIDER_KEY] {
        assert!(!log.contains(secret), "{secret} is in the log: {log}");
    }
}
