//! `GET /api/v1/usage`: what was used is told exactly, whatever became of the turn.

use serde_json::{Value, json};

use super::harness::{Answer, Client, Gate, Home, Reply, eventually, key, script, shared_config};

/// The shared configuration, with an administrator's key for each of two tenants.
fn config() -> String {
    let keys =
        ["acme", "other"].map(|who| format!("[[keys]]\nkey = '{}'\ntenant = '{who}'\nscopes = ['admin']\n", key(who)));
    shared_config("") + &keys.concat()
}

fn spawn(client: &Client, text: &str) -> Value {
    let answer =
        client.send("POST", "/api/v1/sessions/stream", &json!({ "agent_id": "scripted", "message": text }).to_string());
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()
}

fn path_of(turn: &Value) -> String {
    let (session, message) = (turn["session_id"].as_str().unwrap(), turn["message_id"].as_str().unwrap());
    format!("/api/v1/sessions/{session}/messages/{message}")
}

/// The turn once it is over.
fn ended(client: &Client, turn: &Value) -> Value {
    eventually("the turn ends", || {
        let shown = client.send("GET", &path_of(turn), "").json();
        ["completed", "failed", "cancelled"].contains(&shown["status"].as_str().unwrap()).then_some(shown)
    })
}

fn usage(client: &Client, query: &str) -> Answer {
    client.send("GET", &format!("/api/v1/usage{query}"), "")
}

fn sums(answer: &Answer) -> (u64, u64, u64, u64) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let number = |field: &str| {
        answer.json()["usage"].as_array().unwrap().iter().map(|entry| entry[field].as_u64().unwrap()).sum()
    };
    (number("turns"), number("model_calls"), number("input_tokens"), number("output_tokens"))
}

#[test]
fn turns_that_were_stopped_or_lost_their_server_are_counted_once() {
    let home = Home::new(&config().replace("durability = 'process'", "durability = 'fsync'"));
    let mut server = home.start();
    let client = server.client().with_key(&key("acme"));
    let gates = [Gate::default(), Gate::default()];
    script("usage-whole", [Reply::says(&["Hello"])]);
    script("usage-stopped", [Reply::new().text("Well").hold(&gates[0]).stops()]);
    script("usage-killed", [Reply::new().text("Well").hold(&gates[1]).stops(), Reply::says(&["Again"])]);
    let whole = spawn(&client, "play usage-whole");
    ended(&client, &whole);
    let stopped = spawn(&client, "play usage-stopped");
    client.open("GET", &format!("{}/stream", path_of(&stopped)), "").until("Well");
    let session = stopped["session_id"].as_str().unwrap();
    assert_eq!(client.send("POST", &format!("/api/v1/sessions/{session}/stop"), "").status, 204);
    ended(&client, &stopped);
    let killed = spawn(&client, "play usage-killed");
    client.open("GET", &format!("{}/stream", path_of(&killed)), "").until("Well");
    server.kill();
    let server = home.start();
    let client = server.client().with_key(&key("acme"));
    let turns = [&whole, &stopped, &killed].map(|turn| ended(&client, turn));
    let of = |field: &str| turns.iter().map(|turn| turn[field].as_u64().unwrap()).sum::<u64>();
    let told = usage(&client, "");
    // The interrupted call, and the one that took its place.
    assert_eq!(sums(&told), (3, 4, of("total_input_tokens"), of("total_output_tokens")), "{told:?} {turns:?}");
    assert!(sums(&told).3 > 0);
    // A deletion gives nothing back.
    assert_eq!(client.send("DELETE", &format!("/api/v1/sessions/{session}"), "").status, 204);
    assert_eq!(sums(&usage(&client, "")), sums(&told));
    // Nobody else has used anything.
    assert_eq!(usage(&server.client().with_key(&key("other")), "").json()["usage"], json!([]));
}

#[test]
fn usage_is_told_apart_as_asked_in_pages() {
    let home = Home::new(&config());
    let server = home.start();
    let client = server.client().with_key(&key("acme"));
    script("usage-one", [Reply::says(&["Hello"])]);
    ended(&client, &spawn(&client, "play usage-one"));
    let demo = client.send("POST", "/api/v1/sessions/stream", r#"{"agent_id":"demo","message":"hello"}"#).json();
    ended(&client, &demo);
    // The call for the session's title is made once the turn is over, and counts too.
    eventually("the title is counted", || (sums(&usage(&client, "?agent=demo")).1 == 2).then_some(()));
    let all = usage(&client, "");
    let entries = all.json()["usage"].as_array().unwrap().clone();
    assert_eq!(entries.len(), 2, "{all:?}");
    assert_eq!((&entries[0]["agent"], &entries[1]["agent"]), (&json!("demo"), &json!("scripted")));
    assert!(entries.iter().all(|entry| entry["key_id"].is_string() && entry["day"] == all.json()["to"]), "{all:?}");
    let first = usage(&client, "?limit=1").json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = usage(&client, &format!("?limit=1&cursor={cursor}")).json();
    assert_eq!([&first["usage"][0], &second["usage"][0]], [&entries[0], &entries[1]]);
    assert_eq!(second["next_cursor"], Value::Null);
    let summed = usage(&client, "?group_by=day").json();
    assert_eq!(summed["usage"].as_array().unwrap().len(), 1);
    assert_eq!(summed["usage"][0].get("agent"), None);
    assert_eq!(summed["usage"][0]["turns"], 2);
    assert_eq!(usage(&client, "?agent=demo").json()["usage"], json!([entries[0]]));
    assert_eq!(usage(&client, "?agent=nobody").json()["usage"], json!([]));
    let yesterday = usage(&client, "?from=2020-01-01&to=2020-12-31");
    assert_eq!(yesterday.json()["usage"], json!([]));
    for query in ["?from=yesterday", "?from=2026-11-16&to=2026-11-15", "?from=2020-01-01", "?group_by=hour", "?limit=0"]
    {
        assert_eq!(usage(&client, query).status, 422, "{query}");
    }
    assert_eq!(usage(&client, "?cursor=x").status, 400);
}

/// A text, and tokens of which some were cached and some were reasoning.
fn detailed() -> Reply {
    let usage = json!({
        "prompt_tokens": 1000, "completion_tokens": 200,
        "prompt_tokens_details": { "cached_tokens": 800 }, "completion_tokens_details": { "reasoning_tokens": 150 },
    });
    Reply::new().text("Hello").finish_with("stop", &usage)
}

#[test]
fn details_and_costs_are_shown_wherever_tokens_are() {
    let prices = "
[prices.'script/model']
input = 4.0
cached_input = 0.4
cache_write = 5
output = 20.0
[prices.'lines/*']
input = 0
output = 0
";
    let home = Home::new(&(config() + prices));
    let server = home.start();
    let client = server.client().with_key(&key("acme"));
    script("usage-details", [detailed()]);
    script("usage-details-openai", [detailed(), detailed()]);
    let turn = spawn(&client, "play usage-details");
    let shown = ended(&client, &turn);
    let stream = client.send("GET", &format!("{}/stream", path_of(&turn)), "").body;
    let session = client.send("GET", &format!("/api/v1/sessions/{}", turn["session_id"].as_str().unwrap()), "").json();
    let frame = stream.lines().find_map(|line| line.strip_prefix("data: ").filter(|data| data.contains("complete")));
    let complete: Value = serde_json::from_str(frame.expect("the last frame")).unwrap();
    let totals = |view: &Value| {
        ["input", "cached_input", "output", "reasoning"].map(|kind| view[format!("total_{kind}_tokens")].clone())
    };
    for view in [&shown, &session, &complete] {
        assert_eq!(totals(view), [1000, 800, 200, 150].map(Value::from), "{view}");
    }

    // 200 at 4, 800 at 0.4 and 200 at 20 dollars per million.
    let row = json!({
        "model": "script/model", "turns": 1, "model_calls": 1, "input_tokens": 1000, "cached_input_tokens": 800,
        "cache_write_tokens": 0, "output_tokens": 200, "reasoning_tokens": 150, "cost": 0.00512,
    });
    let told = usage(&client, "?group_by=model").json();
    assert_eq!((&told["currency"], &told["usage"]), (&json!("USD"), &json!([row])));
    assert!(usage(&client, "?group_by=model").body.contains("\"cost\":0.00512"), "digits, not an exponent");

    let chat = json!({ "model": "scripted", "messages": [{ "role": "user", "content": "play usage-details-openai" }] });
    let whole = client.send("POST", "/v1/chat/completions", &chat.to_string()).json();
    let counted = json!({
        "prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200,
        "prompt_tokens_details": { "cached_tokens": 800 }, "completion_tokens_details": { "reasoning_tokens": 150 },
    });
    assert_eq!(whole["usage"], counted, "{whole}");
    let mut chat = chat;
    (chat["stream"], chat["stream_options"]) = (json!(true), json!({ "include_usage": true }));
    let chunks = client.send("POST", "/v1/chat/completions", &chat.to_string()).body;
    let mut chunks = chunks.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    assert_eq!(chunks.next_back().expect("the last chunk")["usage"], counted);

    // Three turns by now.
    let metrics = server.client().send("GET", "/metrics", "").body;
    for line in [
        "everturn_tokens_total{model=\"script/model\",direction=\"input\"} 3000",
        "everturn_tokens_total{model=\"script/model\",direction=\"cached_input\"} 2400",
        "everturn_tokens_total{model=\"script/model\",direction=\"output\"} 600",
        "everturn_tokens_total{model=\"script/model\",direction=\"reasoning\"} 450",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let cost =
        metrics.lines().find_map(|line| line.strip_prefix("everturn_cost_dollars_total{model=\"script/model\"} "));
    let cost: f64 = cost.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap();
    assert!((cost - 0.01536).abs() < 1e-9, "{cost}");

    // Together with a model whose price nobody knows there is no cost; a model that costs nothing does no harm.
    let lines = json!({ "message": { "role": "assistant", "content": "Hello" }, "done": true, "done_reason": "stop",
        "prompt_eval_count": 10, "eval_count": 5 });
    script("usage-free", [Reply::lines(&[lines])]);
    let free = json!({ "agent_id": "lines", "message": "play usage-free" });
    ended(&client, &client.send("POST", "/api/v1/sessions/stream", &free.to_string()).json());
    assert_eq!(usage(&client, "?group_by=day").json()["usage"][0]["cost"], json!(0.01536));
    assert_eq!(usage(&client, "?agent=lines").json()["usage"][0]["cost"], json!(0));
    let demo = client.send("POST", "/api/v1/sessions/stream", r#"{"agent_id":"demo","message":"hello"}"#).json();
    ended(&client, &demo);
    for query in ["?group_by=day", "?agent=demo"] {
        assert_eq!(usage(&client, query).json()["usage"][0].get("cost"), None, "{query}");
    }
}
