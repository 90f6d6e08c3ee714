//! What both doors, and the views behind them, show of an answer.

use std::process::Command;

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    transcript::side_by_side,
    world::{Door, Frame, World, file, kinds, rest, says, says_to, until},
};
use crate::suite::harness::{Gate, Reply, asked, eventually, script};

#[test]
fn text_and_reasoning() {
    let replies = [Reply::new().thinking("Let me ").thinking("see.").text("Here's a ").text("\"goose\" 🪿\n").stops()];
    side_by_side(
        &World::start(),
        "seed-text",
        &replies,
        &says("", "play seed-text"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        5 {"message":{"content":[{"text":"Here's a ","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        6 {"message":{"content":[{"text":"\"goose\" 🪿\n","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        8 {"reason":"stop","token_state":"10+5 of 10+5","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        3 {"message":{"content":[{"signature":"","thinking":"Let me ","type":"thinking"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        4 {"message":{"content":[{"signature":"","thinking":"see.","type":"thinking"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        5 {"message":{"content":[{"text":"Here's a ","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        6 {"message":{"content":[{"text":"\"goose\" 🪿\n","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        8 {"reason":"stop","token_state":"10+5 of 10+5","type":"Finish"}
    "##]],
    );
}

#[test]
fn tools_of_the_server() {
    let calls = [("calculator", json!({ "expression": "6*7" })), ("calculator", json!({ "expression": "1/0" }))];
    let first = Reply::new().text("I count.").call(calls[0].0, calls[0].1.to_string());
    let first = first.call(calls[1].0, calls[1].1.to_string()).finish("tool_calls");
    let replies = [first, Reply::says(&["It is 42."])];
    side_by_side(
        &World::start(),
        "seed-tools",
        &replies,
        &says("", "play seed-tools"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        3 {"message":{"content":[{"text":"I count.","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        6 {"message":{"content":[{"id":"call#1","tool_call":{"arguments":{"expression":"6*7"},"name":"calculator"},"type":"tool_request"},{"id":"call#2","tool_call":{"arguments":{"expression":"1/0"},"name":"calculator"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        9 {"message":{"content":[{"id":"call#1","tool_result":{"content":[{"text":"42","type":"text"}],"is_error":false},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#1","role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        10 {"message":{"content":[{"id":"call#2","tool_result":{"content":[{"text":"Error: division by zero (at character 2)","type":"text"}],"is_error":true},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#2","role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        12 {"message":{"content":[{"text":"It is 42.","type":"text"}],"created_at":"<time>","id":"turn#1.a2","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        14 {"reason":"stop","token_state":"20+10 of 20+10","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        3 {"message":{"content":[{"text":"I count.","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        6 {"message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{"expression":"6*7"},"name":"calculator"}},"type":"toolRequest"},{"id":"call#2","toolCall":{"status":"success","value":{"arguments":{"expression":"1/0"},"name":"calculator"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        9 {"message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"text":"42","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        10 {"message":{"content":[{"id":"call#2","toolResult":{"status":"success","value":{"content":[{"text":"Error: division by zero (at character 2)","type":"text"}],"isError":true}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#2","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        12 {"message":{"content":[{"text":"It is 42.","type":"text"}],"created":"<s>","id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        14 {"reason":"stop","token_state":"20+10 of 20+10","type":"Finish"}
    "##]],
    );
}

#[test]
fn tools_of_an_mcp_server() {
    let calls = |name: &str, input: Value| Reply::calls(&[(name, input)]);
    let replies = [
        calls("bad__image", json!({})),
        calls("bad__fail", json!({})),
        calls("bad__refuse", json!({})),
        Reply::says(&["Seen."]),
    ];
    let world = World::with_tools("", "");
    side_by_side(
        &world,
        "seed-mcp",
        &replies,
        &says_to("worker", "", "play seed-mcp"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        4 {"message":{"content":[{"id":"call#1","tool_call":{"arguments":{},"name":"bad__image"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        6 {"message":{"content":[{"id":"call#1","tool_result":{"content":[{"source":{"data":"aGVsbG8=","media_type":"image/png","type":"base64"},"type":"image"}],"is_error":false},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#1","role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        9 {"message":{"content":[{"id":"call#2","tool_call":{"arguments":{},"name":"bad__fail"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a2","role":"assistant"},"token_state":"20+10 of 20+10","type":"Message"}
        11 {"message":{"content":[{"id":"call#2","tool_result":{"content":[{"text":"that went wrong","type":"text"}],"is_error":true},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#2","role":"user"},"token_state":"20+10 of 20+10","type":"Message"}
        14 {"message":{"content":[{"id":"call#3","tool_call":{"arguments":{},"name":"bad__refuse"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a3","role":"assistant"},"token_state":"30+15 of 30+15","type":"Message"}
        16 {"message":{"content":[{"id":"call#3","tool_result":{"content":[{"text":"Error: MCP server \"bad\": it is Sunday (code -32602)","type":"text"}],"is_error":true},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#3","role":"user"},"token_state":"30+15 of 30+15","type":"Message"}
        18 {"message":{"content":[{"text":"Seen.","type":"text"}],"created_at":"<time>","id":"turn#1.a4","role":"assistant"},"token_state":"30+15 of 30+15","type":"Message"}
        20 {"reason":"stop","token_state":"40+20 of 40+20","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        4 {"message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{},"name":"bad__image"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        6 {"message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"data":"aGVsbG8=","mimeType":"image/png","type":"image"}],"isError":false}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        9 {"message":{"content":[{"id":"call#2","toolCall":{"status":"success","value":{"arguments":{},"name":"bad__fail"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"20+10 of 20+10","type":"Message"}
        11 {"message":{"content":[{"id":"call#2","toolResult":{"status":"success","value":{"content":[{"text":"that went wrong","type":"text"}],"isError":true}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#2","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"20+10 of 20+10","type":"Message"}
        14 {"message":{"content":[{"id":"call#3","toolCall":{"status":"success","value":{"arguments":{},"name":"bad__refuse"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a3","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"30+15 of 30+15","type":"Message"}
        16 {"message":{"content":[{"id":"call#3","toolResult":{"status":"success","value":{"content":[{"text":"Error: MCP server \"bad\": it is Sunday (code -32602)","type":"text"}],"isError":true}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#3","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"30+15 of 30+15","type":"Message"}
        18 {"message":{"content":[{"text":"Seen.","type":"text"}],"created":"<s>","id":"turn#1.a4","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"30+15 of 30+15","type":"Message"}
        20 {"reason":"stop","token_state":"40+20 of 40+20","type":"Finish"}
    "##]],
    );
}

/// What a running tool tells comes as it was told.
#[test]
fn notifications() {
    let steps = ("bad__steps", json!({ "count": 2 }));
    let replies = [Reply::calls(&[steps]), Reply::calls(&[("bad__chatter", json!({}))]), Reply::says(&["Done."])];
    let world = World::with_tools("", "");
    side_by_side(
        &world,
        "seed-notes",
        &replies,
        &says_to("worker", "", "play seed-notes"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        4 {"message":{"content":[{"id":"call#1","tool_call":{"arguments":{"count":2},"name":"bad__steps"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        6 {"message":{"method":"notifications/progress","params":{"message":"step 1","progress":1,"progressToken":"<token>","total":2}},"request_id":"call#1","token_state":"10+5 of 10+5","type":"Notification"}
        7 {"message":{"method":"notifications/progress","params":{"message":"step 2","progress":2,"progressToken":"<token>","total":2}},"request_id":"call#1","token_state":"10+5 of 10+5","type":"Notification"}
        8 {"message":{"content":[{"id":"call#1","tool_result":{"content":[{"text":"done","type":"text"}],"is_error":false},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#1","role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        11 {"message":{"content":[{"id":"call#2","tool_call":{"arguments":{},"name":"bad__chatter"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a2","role":"assistant"},"token_state":"20+10 of 20+10","type":"Message"}
        13 {"message":{"method":"notifications/message","params":{"data":{"a":1},"level":"warning","logger":"it"}},"request_id":"call#2","token_state":"20+10 of 20+10","type":"Notification"}
        14 {"message":{"method":"notifications/resources/updated","params":{"uri":"file:///a"}},"request_id":"call#2","token_state":"20+10 of 20+10","type":"Notification"}
        15 {"message":{"method":"notifications/resources/list_changed","params":{}},"request_id":"call#2","token_state":"20+10 of 20+10","type":"Notification"}
        16 {"message":{"content":[{"id":"call#2","tool_result":{"content":[{"text":"done","type":"text"}],"is_error":false},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#2","role":"user"},"token_state":"20+10 of 20+10","type":"Message"}
        18 {"message":{"content":[{"text":"Done.","type":"text"}],"created_at":"<time>","id":"turn#1.a3","role":"assistant"},"token_state":"20+10 of 20+10","type":"Message"}
        20 {"reason":"stop","token_state":"30+15 of 30+15","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        4 {"message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{"count":2},"name":"bad__steps"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        6 {"message":{"method":"notifications/progress","params":{"message":"step 1","progress":1,"progressToken":"<token>","total":2}},"request_id":"call#1","type":"Notification"}
        7 {"message":{"method":"notifications/progress","params":{"message":"step 2","progress":2,"progressToken":"<token>","total":2}},"request_id":"call#1","type":"Notification"}
        8 {"message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"text":"done","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        11 {"message":{"content":[{"id":"call#2","toolCall":{"status":"success","value":{"arguments":{},"name":"bad__chatter"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"20+10 of 20+10","type":"Message"}
        13 {"message":{"method":"notifications/message","params":{"data":{"a":1},"level":"warning","logger":"it"}},"request_id":"call#2","type":"Notification"}
        14 {"message":{"method":"notifications/resources/updated","params":{"uri":"file:///a"}},"request_id":"call#2","type":"Notification"}
        15 {"message":{"method":"notifications/resources/list_changed"},"request_id":"call#2","type":"Notification"}
        16 {"message":{"content":[{"id":"call#2","toolResult":{"status":"success","value":{"content":[{"text":"done","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#2","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"20+10 of 20+10","type":"Message"}
        18 {"message":{"content":[{"text":"Done.","type":"text"}],"created":"<s>","id":"turn#1.a3","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"20+10 of 20+10","type":"Message"}
        20 {"reason":"stop","token_state":"30+15 of 30+15","type":"Finish"}
    "##]],
    );
}

/// A real server tells how far it is, and what it logs.
#[test]
fn notifications_of_a_real_server() {
    let world = real_server();
    for door in Door::BOTH {
        let name = format!("seed-real-{}", door.view());
        let long = ("everything__trigger-long-running-operation", json!({ "duration": 1, "steps": 4 }));
        script(
            &name,
            [
                Reply::calls(&[long]),
                Reply::calls(&[("everything__get-tiny-image", json!({}))]),
                Reply::says(&["Done."]),
            ],
        );
        let stream = world.post(door, &says_to("real", &name, &format!("play {name}")));
        assert_eq!((stream.text().as_str(), stream.reason()), ("Done.", "stop"), "{:#?}", stream.frames);
        let told: Vec<_> = stream.frames.iter().filter(|frame| frame.kind() == "Notification").collect();
        let call = |frame: &Frame| {
            let item = &frame.items()[0];
            item["id"].as_str().unwrap().to_owned()
        };
        let requests: Vec<_> =
            stream.frames.iter().filter(|frame| frame.data.to_string().contains("arguments")).map(call).collect();
        assert_eq!(requests.len(), 2);
        let progress: Vec<_> = told
            .iter()
            .filter(|frame| frame.data["message"]["method"] == "notifications/progress")
            .map(|frame| {
                (
                    frame.data["request_id"].as_str().unwrap(),
                    frame.data["message"]["params"]["progress"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(progress, [1, 2, 3, 4].map(|n| (requests[0].as_str(), n)));
        // Between the request and its response.
        let kinds = kinds(&stream.frames);
        let first = kinds.iter().position(|kind| *kind == "Notification").unwrap();
        assert_eq!(
            kinds[first - 1..first + 5],
            ["Message", "Notification", "Notification", "Notification", "Notification", "Message"]
        );
        let image =
            stream.frames.iter().flat_map(Frame::items).map(Value::to_string).find(|item| item.contains("image/png"));
        let image = image.unwrap();
        let shape = if door == Door::Described { "\"source\":{" } else { "\"mimeType\":\"image/png\"" };
        assert!(image.contains(shape) && image.contains("iVBORw0KGgo"), "{image}");
    }
}

/// What a real server logs while a call runs.
#[test]
fn what_a_real_server_logs() {
    let world = real_server();
    let toggle = ("everything__toggle-simulated-logging", json!({}));
    // Each time that it is switched on it logs something of a level that it draws by lot, and debugging is not listened to.
    let switched = (0..20).map(|_| Reply::calls(std::slice::from_ref(&toggle)));
    script("seed-logs", switched.chain([Reply::says(&["Logged."])]));
    let mut body = says_to("real", "logs", "play seed-logs");
    body["user_message"]["id"] = json!("m1");
    for door in Door::BOTH {
        let stream = world.post(door, &body);
        let told = stream.frames.iter().find(|frame| frame.kind() == "Notification");
        let told = &told.unwrap_or_else(|| panic!("nothing is told: {:#?}", stream.frames)).data;
        assert_eq!(told["message"]["method"], "notifications/message");
        let params = &told["message"]["params"];
        let level = params["level"].as_str().unwrap();
        assert!(params["data"].as_str().unwrap().to_lowercase().starts_with(level), "{told}");
        assert!(told["request_id"].as_str().unwrap().starts_with("call_"), "{told}");
    }
}

/// A server that has other tools than before says so in the turns that have them.
#[test]
fn lists_that_change() {
    let world = World::with_tools("", "");
    let gates = Door::BOTH.map(|_| Gate::default());
    let replies = gates.iter().enumerate().flat_map(|(n, gate)| {
        let grow = ("bad__grow", json!({ "name": format!("fresh{n}") }));
        let echo = Reply::new().hold(gate).call("bad__echo", r#"{"text":"hi"}"#).finish("tool_calls");
        [Reply::calls(&[grow]), echo, Reply::says(&["Grown."])]
    });
    script("seed-grow", replies.collect::<Vec<_>>());
    for (n, door) in Door::BOTH.into_iter().enumerate() {
        let session = format!("grow-{}", door.view());
        let mut stream = world.open(door, &says_to("worker", &session, "play seed-grow"));
        let mut frames = until(&mut stream, "done");
        let path = format!("/goose/agent/tools?session_id={session}");
        eventually("the new tool is known", || {
            let tools = world.client().send("GET", &path, "").body;
            tools.contains(&format!("bad__fresh{n}")).then_some(())
        });
        gates[n].open();
        frames.extend(rest(&mut stream));
        let turn = stream.header("x-message-id");
        let told: Vec<_> =
            frames.iter().filter(|frame| frame.kind() == "Notification").map(|frame| &frame.data).collect();
        assert_eq!(told.len(), 1, "{frames:#?}");
        let message = json!({ "method": "notifications/tools/list_changed", "params": { "server": "bad" } });
        assert_eq!((&told[0]["request_id"], &told[0]["message"]), (&json!(turn), &message));
        let given = asked("seed-grow").pop().unwrap()["tools"].to_string();
        assert!(given.contains(&format!("bad__fresh{n}")), "the model is given it: {given}");
    }
}

/// A world with the server that shows everything, and an agent that has all of its tools.
fn real_server() -> World {
    let script_file = file("../../tests/peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let command = [node(), script_file.to_str().unwrap().to_owned(), "stdio".to_owned()];
    let more = format!(
        "[mcp.everything]\ncommand = {command:?}\n[[agents]]\nname = 'real'\nmodel = 'script/model'\ntitles = false\n\
         tools = ['everything/*']\ntrusted = ['everything/*']\n"
    );
    let world = World::with("", &more);
    world.await_tools();
    world
}

/// Where Node.js is: the server under test has no `PATH` to look for it.
fn node() -> String {
    let output = Command::new("node").args(["-p", "process.execPath"]).output().expect("Node.js is installed");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
