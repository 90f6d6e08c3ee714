//! What configuration takes away is taken away from sessions that had it, too.

use crate::suite::harness::{Home, shared_config};

#[test]
fn a_tool_that_was_withdrawn_does_not_run() {
    let home = Home::new(&shared_config(""));
    let mut server = home.start();
    let client = server.client();
    let create = |trust: bool| {
        let body = format!(
            r#"{{"agent":{{"name":"demo","tools":[{{"name":"clock","trust":{trust}}}]}},"messages":[{{"role":"user","content":"use clock"}}]}}"#
        );
        client.send("PUT", "/session", &body).json()
    };
    let (trusted, waiting) = (create(true), create(false));
    assert_eq!(waiting["stopReason"], "tool_use");
    server.kill();
    home.configure(&shared_config("").replace("tools = ['clock', 'calculator']", "tools = ['calculator']"));
    let server = home.start();
    let client = server.client();

    let path = format!("/session/{}", trusted["sessionId"].as_str().unwrap());
    let answer = client.send("POST", &path, r#"{"messages":[{"role":"user","content":"use clock"}]}"#).json();
    assert!(!answer.to_string().contains("tool_use"), "the model is not offered it: {answer}");

    let call = waiting["messages"][0]["content"][1]["toolCallId"].as_str().unwrap();
    let path = format!("/session/{}", waiting["sessionId"].as_str().unwrap());
    let grant = format!(r#"{{"messages":[{{"role":"tool_permission","toolCallId":"{call}","granted":true}}]}}"#);
    let answer = client.send("POST", &path, &grant).json();
    let result = &answer["messages"][0]["content"];
    assert_eq!(result, "Tool call not run: clock is not enabled in this session any more", "{answer}");
}
