//! The configuration is read again on SIGHUP.

use serde_json::{Value, json};

use super::{
    harness::{Client, Ended, Gate, Home, PROVIDER_KEY, Reply, Server, asked, eventually, script, shared_config},
    mcp::world::{command, table},
};

fn hang_up(server: &Server) {
    let told = std::process::Command::new("kill").args(["-HUP", &server.pid().to_string()]).status().unwrap();
    assert!(told.success());
}

/// Waits until the log says this so many times.
#[track_caller]
fn logged(home: &Home, words: &str, times: usize) -> String {
    eventually(words, || Some(home.log()).filter(|log| log.matches(words).count() >= times))
}

fn key(secret: &str, lines: &str) -> String {
    format!("[[keys]]\nkey = '{secret}-0123456789abcdef'\ntenant = 'acme'\n{lines}\n")
}

fn client(server: &Server, secret: &str) -> Client {
    server.client().with_key(&format!("{secret}-0123456789abcdef"))
}

fn agent(name: &str, tools: &str) -> String {
    format!("[[agents]]\nname = '{name}'\nmodel = 'script/model'\ntitles = false\ntools = [{tools}]\n")
}

fn agents(client: &Client) -> Vec<Value> {
    let listed = client.send("GET", "/api/v1/agents", "").json();
    listed["agents"].as_array().unwrap().clone()
}

fn servers(client: &Client) -> Vec<String> {
    let ready = client.send("GET", "/readyz", "").json();
    ready["mcp"].as_object().unwrap().keys().cloned().collect()
}

const READ_AGAIN: &str = "the configuration was read again";

#[test]
fn keys_agents_and_servers_change_while_turns_go_on() {
    let shared = shared_config("");
    let before = format!(
        "{shared}{}{}{}{}{}{}",
        agent("old", "'one/*'"),
        key("stays", "scopes = ['chat', 'read', 'admin']"),
        key("goes", "scopes = ['chat']"),
        key("shrinks", "scopes = ['chat']"),
        table("one", &command(&[]), ""),
        table("same", &command(&[]), ""),
    );
    let home = Home::new(&before);
    let server = home.start();
    let (stays, goes, shrinks) = (client(&server, "stays"), client(&server, "goes"), client(&server, "shrinks"));
    eventually("the servers are ready", || {
        let ready = stays.send("GET", "/readyz", "").json();
        ["one", "same"].iter().all(|name| ready["mcp"][name]["state"] == "ready").then_some(())
    });
    let gate = Gate::default();
    script("reload-goes-on", [Reply::new().text("Begun").hold(&gate).text(" and done.").stops()]);
    let ask = json!({
        "agent": { "name": "old" }, "stream": "delta",
        "messages": [{ "role": "user", "content": "play reload-goes-on" }],
    });
    let mut kept = stays.open("PUT", "/session", &ask.to_string());
    kept.until("Begun");
    let session = kept.header("x-session-id").to_owned();
    let mut cut = [(&goes, "reload-goes"), (&shrinks, "reload-shrinks")].map(|(client, name)| {
        script(name, [Reply::new().text("Begun").hold(&gate).text(" and done.").stops()]);
        let ask = ask.to_string().replace("reload-goes-on", name);
        let mut stream = client.open("PUT", "/session", &ask);
        stream.until("Begun");
        stream
    });

    home.configure(&format!(
        "{shared}[cors]\norigins = ['https://pages.example']\n{}{}{}{}{}{}",
        agent("new", "'two/*'"),
        key("stays", "scopes = ['chat', 'read', 'admin']"),
        key("comes", "scopes = ['read']"),
        key("shrinks", "scopes = ['read']"),
        table("two", &command(&[]), ""),
        table("same", &command(&[]), ""),
    ));
    hang_up(&server);
    let log = logged(&home, READ_AGAIN, 1);
    for stream in &mut cut {
        assert_eq!(stream.rest().1, Ended::Broken);
    }
    assert_eq!(goes.send("GET", "/sessions", "").status, 401);
    assert_eq!(shrinks.open("PUT", "/session", &ask.to_string()).status(), 403);
    assert_eq!(client(&server, "comes").send("GET", "/sessions", "").status, 200);
    let names: Vec<_> = agents(&stays).iter().map(|agent| agent["agent_id"].as_str().unwrap().to_owned()).collect();
    assert!(names.contains(&"new".to_owned()) && !names.contains(&"old".to_owned()), "{names:?}");
    assert_eq!(servers(&stays), ["same", "two"]);
    eventually("the new server's tools are there, and the removed server's are not", || {
        let meta = stays.send("GET", "/meta", "").body;
        (meta.contains("two__") && !meta.contains("one__")).then_some(())
    });
    for told in ["\"mcp_added\":\"two\"", "\"mcp_removed\":\"one\"", "\"mcp_started_anew\":\"none\""] {
        assert!(log.contains(told), "{told}: {log}");
    }
    logged(&home, "\"settings\":\"[cors]\"", 1);
    // What was begun goes on with what it was begun with.
    gate.open();
    let (frames, ended) = kept.rest();
    assert_eq!(ended, Ended::Cleanly);
    assert!(frames.last().unwrap().contains("end_turn"), "{frames:?}");
    let shown = stays.send("GET", &format!("/session/{session}"), "").json();
    assert_eq!(shown["history"]["full"][1]["content"], "Begun and done.");
    let metrics = stays.send("GET", "/metrics", "").body;
    assert!(
        metrics.contains("everturn_mcp_up{server=\"two\"}") && !metrics.contains("everturn_mcp_up{server=\"one\"}")
    );
    assert!(!home.log().contains("0123456789abcdef"));
}

#[test]
fn a_broken_file_is_refused_in_words_and_the_former_one_stays() {
    let config = format!("{}{}", shared_config(""), key("stays", "scopes = ['admin']"));
    let home = Home::new(&config);
    let server = home.start();
    let stays = client(&server, "stays");
    home.configure(&config.replace("stays", "other").replace("'admin'", "'emperor'"));
    hang_up(&server);
    let log = logged(&home, "the configuration is refused", 1);
    assert!(log.contains("emperor") && log.contains("everturn.toml"), "{log}");
    assert_eq!(stays.send("GET", "/sessions", "").status, 200);
    // Nor does a file that is gone leave the server without one.
    std::fs::remove_file(home.path().join("everturn.toml")).unwrap();
    hang_up(&server);
    logged(&home, "everturn.toml is not there any more", 1);
    assert_eq!(stays.send("GET", "/sessions", "").status, 200);
    // A server that has asked for keys never lets everybody in.
    home.configure(&shared_config(""));
    hang_up(&server);
    logged(&home, "nobody is let in", 1);
    for client in [&server.client(), &stays] {
        assert_eq!(client.send("GET", "/sessions", "").status, 401);
    }
    home.configure(&config);
    hang_up(&server);
    logged(&home, READ_AGAIN, 2);
    assert_eq!(stays.send("GET", "/sessions", "").status, 200);
}

/// Also on a server that had none before.
#[test]
fn quotas_providers_and_the_log_level_change() {
    let config = shared_config("");
    let home = Home::new(&config);
    let server = home.start();
    script("reload-key", [Reply::says(&["One."]), Reply::says(&["Two."])]);
    let ask = r#"{"agent":{"name":"scripted"},"messages":[{"role":"user","content":"play reload-key"}]}"#;
    assert_eq!(server.client().send("PUT", "/session", ask).status, 201);
    assert!(!home.log().contains("\"level\":\"DEBUG\""));
    let quotas = "[quotas.tenant]\nrequests_per_second = 1\n";
    let other = config.replace(PROVIDER_KEY, &format!("{PROVIDER_KEY}'\nbody = {{ seed = 7 }}\n#'"));
    home.configure(&format!("log_level = 'debug'\n{other}{quotas}{}", key("first", "scopes = ['chat', 'read']")));
    hang_up(&server);
    logged(&home, READ_AGAIN, 1);
    let first = client(&server, "first");
    assert_eq!(server.client().send("GET", "/sessions", "").status, 401);
    let statuses: Vec<_> = (0..20).map(|_| first.send("GET", "/sessions", "").status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    let answer = eventually("there is room", || Some(first.send("PUT", "/session", ask)).filter(|it| it.status != 429));
    assert_eq!(answer.status, 201, "{answer:?}");
    let seeds: Vec<_> = asked("reload-key").iter().map(|request| request["seed"].clone()).collect();
    assert_eq!(seeds, [Value::Null, json!(7)]);
    assert!(home.log().contains("\"level\":\"DEBUG\""));
}
