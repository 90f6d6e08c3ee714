//! Artifacts once they are written: all their versions, as files and never as pages, as long as their session.

use expect_test::expect;
use serde_json::json;

use super::{
    artifacts::{create, download, listed},
    world::World,
};
use crate::suite::harness::{Reply, Talk, script};

#[test]
fn versions_are_kept() {
    let world = World::start("");
    let client = world.client();
    let first = json!({ "title": "Primes", "type": "code", "language": "python", "content": "print(2)\n" });
    let (turn, id) = create(&client, "artifacts-first", &first);
    let second = json!({ "artifact_id": id, "title": "primes.py", "content": "print(2, 3)\n" });
    let third = json!({ "artifact_id": id, "content": "print(2, 3, 5)\n" });
    let calls = Reply::calls(&[("update_artifact", second), ("update_artifact", third)]);
    script("artifacts-again", [calls, Reply::says(&["Changed."])]);
    let again = turn.say("play artifacts-again");
    again.complete();
    let mut talk = Talk::new(client.clone());
    talk.say(&format!("{} made it in {}, {} changed it\n", turn.session, turn.message, again.message));
    talk.send("GET /api/v1/sessions/sess#1/messages/turn#2/stream");
    talk.send("GET /api/v1/artifacts/art#1/versions");
    for query in ["", "?version=1", "?version=2", "?version=3"] {
        let answer = talk.send(&format!("GET /api/v1/artifacts/art#1{query}"));
        talk.say(&format!("as {}\n\n", answer.header("content-disposition")));
    }
    talk.send("GET /api/v1/artifacts/art#1?version=4");
    talk.send("GET /api/v1/artifacts/art_no");
    talk.check(expect![[r#"
        sess#1 made it in turn#1, turn#2 changed it
        > GET /api/v1/sessions/sess#1/messages/turn#2/stream
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#2

        retry: 1000
        id: 1
        data: {"type":"start","session_id":"sess#1","message_id":"turn#2","agent_id":"writer"}

        id: 3
        data: {"type":"artifact_update","artifact_id":"art#1","version":2,"title":"primes.py"}

        id: 4
        data: {"type":"artifact_delta","artifact_id":"art#1","content_chunk":"print(2, 3)\n","chunk_index":0}

        id: 5
        data: {"type":"artifact_update","artifact_id":"art#1","version":3,"title":"primes.py"}

        id: 6
        data: {"type":"artifact_delta","artifact_id":"art#1","content_chunk":"print(2, 3, 5)\n","chunk_index":0}

        id: 10
        data: {"type":"tool_started","tool_call_id":"call#1","tool_name":"update_artifact","label":"Update artifact","iteration":1}

        id: 11
        data: {"type":"tool_started","tool_call_id":"call#2","tool_name":"update_artifact","label":"Update artifact","iteration":1}

        id: 12
        data: {"type":"artifact_complete","artifact_id":"art#1","version":2,"content_type":"text/plain; charset=utf-8","download_url":"/api/v1/artifacts/art#1?version=2"}

        id: 13
        data: {"type":"tool_completed","tool_call_id":"call#1","tool_name":"update_artifact","success":true,"message":"Kept as artifact art#1, version 2.","duration_ms":0}

        id: 14
        data: {"type":"artifact_complete","artifact_id":"art#1","version":3,"content_type":"text/plain; charset=utf-8","download_url":"/api/v1/artifacts/art#1?version=3"}

        id: 15
        data: {"type":"tool_completed","tool_call_id":"call#2","tool_name":"update_artifact","success":true,"message":"Kept as artifact art#1, version 3.","duration_ms":0}

        id: 17
        data: {"type":"delta","content":"Changed."}

        id: 19
        data: {"type":"complete","session_id":"sess#1","message_id":"turn#2","final_response":"Changed.","total_input_tokens":20,"total_output_tokens":10,"artifacts":[{"artifact_id":"art#1","title":"primes.py","version":3,"content_type":"text/plain; charset=utf-8","download_url":"/api/v1/artifacts/art#1?version=3"}]}

        > GET /api/v1/artifacts/art#1/versions
        200
        content-type: application/json
        {
          "artifact_id": "art#1",
          "artifact_type": "code",
          "content_type": "text/plain; charset=utf-8",
          "created_at": "<time>",
          "download_url": "/api/v1/artifacts/art#1?version=3",
          "language": "python",
          "session_id": "sess#1",
          "title": "primes.py",
          "updated_at": "<time>",
          "version": 3,
          "versions": [
            {
              "bytes": 9,
              "created_at": "<time>",
              "download_url": "/api/v1/artifacts/art#1?version=1",
              "message_id": "turn#1",
              "title": "Primes",
              "version": 1
            },
            {
              "bytes": 12,
              "created_at": "<time>",
              "download_url": "/api/v1/artifacts/art#1?version=2",
              "message_id": "turn#2",
              "title": "primes.py",
              "version": 2
            },
            {
              "bytes": 15,
              "created_at": "<time>",
              "download_url": "/api/v1/artifacts/art#1?version=3",
              "message_id": "turn#2",
              "title": "primes.py",
              "version": 3
            }
          ]
        }

        > GET /api/v1/artifacts/art#1
        200
        content-type: text/plain; charset=utf-8

        print(2, 3, 5)
        as attachment; filename="primes.py"; filename*=UTF-8''primes.py

        > GET /api/v1/artifacts/art#1?version=1
        200
        content-type: text/plain; charset=utf-8

        print(2)
        as attachment; filename="Primes.txt"; filename*=UTF-8''Primes.txt

        > GET /api/v1/artifacts/art#1?version=2
        200
        content-type: text/plain; charset=utf-8

        print(2, 3)
        as attachment; filename="primes.py"; filename*=UTF-8''primes.py

        > GET /api/v1/artifacts/art#1?version=3
        200
        content-type: text/plain; charset=utf-8

        print(2, 3, 5)
        as attachment; filename="primes.py"; filename*=UTF-8''primes.py

        > GET /api/v1/artifacts/art#1?version=4
        404
        content-type: application/json
        {
          "detail": {
            "code": "ARTIFACT_NOT_FOUND",
            "hint": "GET /api/v1/artifacts/art#1/versions lists them",
            "message": "the artifact art#1 has no version \"4\""
          }
        }

        > GET /api/v1/artifacts/art_no
        404
        content-type: application/json
        {
          "detail": {
            "code": "ARTIFACT_NOT_FOUND",
            "hint": "GET /api/v1/artifacts lists yours",
            "message": "there is no artifact \"art_no\""
          }
        }

    "#]]);
    let versions = ["0", "01", "-1", "x", ""].map(|version| format!("{id}?version={version}"));
    for wrong in versions.iter().map(String::as_str).chain(["art_no/versions", "%ff"]) {
        let answer = client.send("GET", &format!("/api/v1/artifacts/{wrong}"), "");
        assert_eq!((answer.status, &answer.json()["detail"]["code"]), (404, &json!("ARTIFACT_NOT_FOUND")), "{wrong}");
    }
}

/// What a model wrote comes as a file, whatever it is and is called: no browser shows it as a page of this server.
#[test]
fn downloads_are_files() {
    let world = World::start("");
    let client = world.client();
    let evil = "<script>alert(document.cookie)</script>";
    let titles = [
        ("html", "Q1/Q2 \"plan\"\r\nSet-Cookie: a=b; <b>é</b> 日本.html"),
        ("svg", "..\\..\\etc\\passwd"),
        ("markdown", "100% \u{202e}sure; filename=x.exe"),
        ("code", "primes.py"),
        ("json", "  "),
        ("csv", "ｆｕｌｌ\u{0}width"),
        ("text", "con\tsole"),
    ];
    let mut shown = String::new();
    for (kind, title) in titles {
        let input = json!({ "title": title, "type": kind, "content": evil });
        let (_, id) = create(&client, &format!("artifacts-file-{kind}"), &input);
        let answer = download(&client, &id);
        assert_eq!((answer.status, answer.body.as_str()), (200, evil));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "sandbox"),
            ("cache-control", "private, no-cache"),
        ] {
            assert_eq!(answer.header(name), value, "{kind}");
        }
        let disposition = answer.header("content-disposition");
        assert!(disposition.starts_with("attachment; "), "{disposition}");
        shown += &format!("{}\n  {disposition}\n", answer.header("content-type"));
        // Who has it need not load it again.
        let tag = answer.header("etag").to_owned();
        let again = client.send_with("GET", &format!("/api/v1/artifacts/{id}"), &[("if-none-match", &tag)], "");
        assert_eq!((again.status, again.body.as_str()), (304, ""));
    }
    expect![[r#"
        text/html; charset=utf-8
          attachment; filename="Q1-Q2 _plan_  Set-Cookie_ a=b; _b___-b_ __.html"; filename*=UTF-8''Q1-Q2%20_plan_%20%20Set-Cookie_%20a%3Db%3B%20_b_%C3%A9_-b_%20%E6%97%A5%E6%9C%AC.html
        image/svg+xml
          attachment; filename="..-..-etc-passwd.svg"; filename*=UTF-8''..-..-etc-passwd.svg
        text/markdown; charset=utf-8
          attachment; filename="100_ sure; filename=x.exe.md"; filename*=UTF-8''100%25%20sure%3B%20filename%3Dx.exe.md
        text/plain; charset=utf-8
          attachment; filename="primes.py"; filename*=UTF-8''primes.py
        application/json
          attachment; filename="document.json"; filename*=UTF-8''document.json
        text/csv; charset=utf-8
          attachment; filename="____width.csv"; filename*=UTF-8''%EF%BD%86%EF%BD%95%EF%BD%8C%EF%BD%8Cwidth.csv
        text/plain; charset=utf-8
          attachment; filename="con sole.txt"; filename*=UTF-8''con%20sole.txt
    "#]].assert_eq(&shown);
}

#[test]
fn the_list_is_paged_and_can_be_one_sessions() {
    let world = World::start("");
    let client = world.client();
    let made: Vec<_> = (0..3)
        .map(|number| {
            let input = json!({ "title": format!("Number {number}"), "type": "text", "content": "x" });
            create(&client, &format!("artifacts-list-{number}"), &input)
        })
        .collect();
    let titles = |path: &str| {
        let page = client.send("GET", path, "").json();
        let titles: Vec<_> = page["artifacts"].as_array().unwrap().iter().map(|a| a["title"].clone()).collect();
        (json!(titles), page["next_cursor"].as_str().map(str::to_owned))
    };
    let (first, cursor) = titles("/api/v1/artifacts?limit=2");
    assert_eq!(first, json!(["Number 2", "Number 1"]));
    let (second, end) = titles(&format!("/api/v1/artifacts?limit=2&cursor={}", cursor.unwrap()));
    assert_eq!((second, end), (json!(["Number 0"]), None));
    let (own, _) = titles(&format!("/api/v1/artifacts?session_id={}", made[1].0.session));
    assert_eq!(own, json!(["Number 1"]));
    for nobodys in ["sess_no", "%20"] {
        assert_eq!(titles(&format!("/api/v1/artifacts?session_id={nobodys}")), (json!([]), None));
    }
}

#[test]
fn kept_through_a_crash_and_gone_with_its_session() {
    let mut world = World::start("");
    let input = json!({ "title": "Kept", "type": "text", "content": "word for word" });
    let (turn, id) = create(&world.client(), "artifacts-crash", &input);
    let before = (listed(&world.client()), turn.frames());
    world.crash();
    let client = world.client();
    assert_eq!((listed(&client), turn.on(&world).frames()), before);
    assert_eq!(download(&client, &id).body, "word for word");
    assert_eq!(client.send("DELETE", &format!("/api/v1/sessions/{}", turn.session), "").status, 204);
    assert_eq!(listed(&client), json!([]));
    for path in ["", "?version=1", "/versions"] {
        let answer = client.send("GET", &format!("/api/v1/artifacts/{id}{path}"), "");
        assert_eq!((answer.status, &answer.json()["detail"]["code"]), (404, &json!("ARTIFACT_NOT_FOUND")));
    }
}
