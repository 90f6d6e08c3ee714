//! What the server offers.

use expect_test::expect;

use crate::suite::harness::{check, shared};

#[test]
fn meta_is_open_and_tells_agents_tools_options_and_capabilities() {
    check(
        &["@nobody GET /meta"],
        expect![[r#"
            > @nobody GET /meta
            200
            content-type: application/json
            {
              "agents": [
                {
                  "capabilities": {
                    "application": {"tools":{}},
                    "history": {"compacted":{},"full":{}},
                    "image": {"data":{},"http":{}},
                    "stream": {"delta":{},"message":{},"none":{}}
                  },
                  "description": "Shows what there is",
                  "name": "demo",
                  "options": [
                    {"default":"English","name":"language","options":["English","Japanese"],"type":"select"},
                    {"default":"friend","name":"nickname","title":"Nickname","type":"text"},
                    {"default":"","description":"Of your account","name":"token","type":"secret"}
                  ],
                  "title": "Demo",
                  "tools": [
                    {
                      "description": "Tells the current date, time and weekday, in UTC or in a given time zone.",
                      "inputSchema": {
                        "additionalProperties": false,
                        "properties": {
                          "timezone": {
                            "description": "IANA name of a time zone, such as Europe/Berlin. UTC if left out.",
                            "maxLength": 64,
                            "minLength": 1,
                            "type": "string"
                          }
                        },
                        "type": "object"
                      },
                      "name": "clock",
                      "title": "Clock"
                    },
                    {
                      "description": "Evaluates an arithmetic expression and gives its value. Operators: + - * / ^ (power) and % (remainder, with the sign of the dividend), parentheses. Functions: sqrt, abs, round, floor, ceil, min, max, ln, log (base 10), sin, cos, tan (radians). Constants: pi, e. Whole numbers are exact.",
                      "inputSchema": {
                        "additionalProperties": false,
                        "properties": {
                          "expression": {
                            "description": "Such as 2 * (3 + 4) ^ 2 or sqrt(2) / max(1, pi).",
                            "maxLength": 1000,
                            "minLength": 1,
                            "type": "string"
                          }
                        },
                        "required": ["expression"],
                        "type": "object"
                      },
                      "name": "calculator",
                      "title": "Calculator"
                    }
                  ],
                  "version": "1.2.3"
                },
                {
                  "capabilities": {
                    "application": {"tools":{}},
                    "history": {"compacted":{},"full":{}},
                    "image": {"data":{},"http":{}},
                    "stream": {"delta":{},"message":{},"none":{}}
                  },
                  "name": "scripted",
                  "options": [
                    {"default":"English","name":"language","options":["English","Japanese"],"type":"select"},
                    {"default":"friend","name":"nickname","title":"Nickname","type":"text"},
                    {"default":"","description":"Of your account","name":"token","type":"secret"}
                  ],
                  "tools": [
                    {
                      "description": "Tells the current date, time and weekday, in UTC or in a given time zone.",
                      "inputSchema": {
                        "additionalProperties": false,
                        "properties": {
                          "timezone": {
                            "description": "IANA name of a time zone, such as Europe/Berlin. UTC if left out.",
                            "maxLength": 64,
                            "minLength": 1,
                            "type": "string"
                          }
                        },
                        "type": "object"
                      },
                      "name": "clock",
                      "title": "Clock"
                    },
                    {
                      "description": "Evaluates an arithmetic expression and gives its value. Operators: + - * / ^ (power) and % (remainder, with the sign of the dividend), parentheses. Functions: sqrt, abs, round, floor, ceil, min, max, ln, log (base 10), sin, cos, tan (radians). Constants: pi, e. Whole numbers are exact.",
                      "inputSchema": {
                        "additionalProperties": false,
                        "properties": {
                          "expression": {
                            "description": "Such as 2 * (3 + 4) ^ 2 or sqrt(2) / max(1, pi).",
                            "maxLength": 1000,
                            "minLength": 1,
                            "type": "string"
                          }
                        },
                        "required": ["expression"],
                        "type": "object"
                      },
                      "name": "calculator",
                      "title": "Calculator"
                    }
                  ],
                  "version": "1.2.3"
                },
                {
                  "capabilities": {
                    "application": {"tools":{}},
                    "history": {"compacted":{},"full":{}},
                    "image": {"data":{},"http":{}},
                    "stream": {"delta":{},"message":{},"none":{}}
                  },
                  "name": "short",
                  "version": "1.0.0"
                },
                {
                  "capabilities": {
                    "application": {"tools":{}},
                    "history": {"compacted":{},"full":{}},
                    "image": {"data":{},"http":{}},
                    "stream": {"delta":{},"message":{},"none":{}}
                  },
                  "name": "small",
                  "version": "1.0.0"
                },
                {
                  "capabilities": {
                    "application": {"tools":{}},
                    "history": {"compacted":{},"full":{}},
                    "image": {"data":{},"http":{}},
                    "stream": {"delta":{},"message":{},"none":{}}
                  },
                  "name": "lines",
                  "version": "1.0.0"
                },
                {
                  "capabilities": {
                    "application": {"tools":{}},
                    "history": {"compacted":{},"full":{}},
                    "image": {"data":{},"http":{}},
                    "stream": {"delta":{},"message":{},"none":{}}
                  },
                  "name": "hasty",
                  "version": "1.0.0"
                },
                {
                  "capabilities": {"history":{"full":{}},"image":{"data":{}},"stream":{"message":{}}},
                  "name": "plain",
                  "version": "1.0.0"
                }
              ],
              "version": 1
            }

        "#]],
    );
}

#[test]
fn everything_is_at_the_root_and_below_aap_v1() {
    let shared = shared();
    let client = shared.client("acme");
    let body = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"I like tea"}]}"#;
    let made = client.send("PUT", "/aap/v1/session", body);
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.json()["sessionId"].as_str().unwrap().to_owned();
    let turn = r#"{"messages":[{"role":"user","content":"and coffee"}]}"#;
    assert_eq!(client.send("POST", &format!("/aap/v1/session/{id}"), turn).status, 200);
    for path in ["/meta".to_owned(), format!("/session/{id}")] {
        let (root, below) = (client.send("GET", &path, ""), client.send("GET", &format!("/aap/v1{path}"), ""));
        assert_eq!((root.status, below.status), (200, 200));
        assert_eq!(root.body, below.body);
    }
    let listed = client.send("GET", "/aap/v1/sessions", "").json();
    assert!(listed["sessions"].as_array().unwrap().iter().any(|session| *session == id.as_str()), "{listed}");
    assert_eq!(client.send("DELETE", &format!("/aap/v1/session/{id}"), "").status, 204);
    assert_eq!(client.send("GET", &format!("/session/{id}"), "").status, 404);
    assert_eq!(client.send("GET", "/aap/v1/nothing", "").error(), client.send("GET", "/nothing", "").error());
}
