//! How turns end, and what is shown when the agent must change its mind.

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    transcript::{side_by_side, side_by_side_by},
    world::{Door, Stream, World, rest, says, says_to, until},
};
use crate::suite::harness::{Gate, Reply, eventually};

fn failure(status: u16, text: &str) -> Reply {
    Reply::status(status, &[], &json!({ "error": { "message": text } }).to_string())
}

#[test]
fn stopped_by_the_model() {
    let world = World::start();
    side_by_side(
        &world,
        "seed-stop",
        &[Reply::says(&["All."])],
        &says("", "play seed-stop"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        3 {"message":{"content":[{"text":"All.","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        5 {"reason":"stop","token_state":"10+5 of 10+5","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        3 {"message":{"content":[{"text":"All.","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        5 {"reason":"stop","token_state":"10+5 of 10+5","type":"Finish"}
    "##]],
    );
    let cut = [Reply::new().text("So far").finish("length")];
    side_by_side(
        &world,
        "seed-length",
        &cut,
        &says("", "play seed-length"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        3 {"message":{"content":[{"text":"So far","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        5 {"reason":"length","token_state":"10+5 of 10+5","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        3 {"message":{"content":[{"text":"So far","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        5 {"reason":"length","token_state":"10+5 of 10+5","type":"Finish"}
    "##]],
    );
    let refused = [Reply::new().finish("content_filter")];
    side_by_side(
        &world,
        "seed-refused",
        &refused,
        &says("", "play seed-refused"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        4.1 {"error":"the model or its provider declined to answer","token_state":"10+5 of 10+5","type":"Error"}
        4.2 {"reason":"error","token_state":"10+5 of 10+5","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        4.1 {"error":"the model or its provider declined to answer","type":"Error"}
        4.2 {"reason":"error","token_state":"10+5 of 10+5","type":"Finish"}
    "##]],
    );
}

#[test]
fn failures() {
    let world = World::with("retries = 0", "");
    let broken = [failure(401, "no such key")];
    side_by_side(
        &world,
        "seed-broken",
        &broken,
        &says("", "play seed-broken"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        4.1 {"error":"LLM_PROVIDER_ERROR: script answered 401: no such key","token_state":"0+0 of 0+0","type":"Error"}
        4.2 {"reason":"error","token_state":"0+0 of 0+0","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        4.1 {"error":"LLM_PROVIDER_ERROR: script answered 401: no such key","type":"Error"}
        4.2 {"reason":"error","token_state":"0+0 of 0+0","type":"Finish"}
    "##]],
    );
    let call = || Reply::calls(&[("calculator", json!({ "expression": "1+1" }))]);
    let endless = [call(), call(), call()];
    side_by_side(
        &world,
        "seed-endless",
        &endless[..2],
        &says_to("short", "", "play seed-endless"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        4 {"message":{"content":[{"id":"call#1","tool_call":{"arguments":{"expression":"1+1"},"name":"calculator"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        6 {"message":{"content":[{"id":"call#1","tool_result":{"content":[{"text":"2","type":"text"}],"is_error":false},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#1","role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        9 {"message":{"content":[{"id":"call#2","tool_call":{"arguments":{"expression":"1+1"},"name":"calculator"},"type":"tool_request"}],"created_at":"<time>","id":"turn#1.a2","role":"assistant"},"token_state":"20+10 of 20+10","type":"Message"}
        11 {"message":{"content":[{"id":"call#2","tool_result":{"content":[{"text":"2","type":"text"}],"is_error":false},"type":"tool_response"}],"created_at":"<time>","id":"turn#1.call#2","role":"user"},"token_state":"20+10 of 20+10","type":"Message"}
        12.1 {"error":"STEP_LIMIT: the turn made 2 model calls, which is its limit (the agent's max_steps); send a message to go on","token_state":"20+10 of 20+10","type":"Error"}
        12.2 {"reason":"error","token_state":"20+10 of 20+10","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        4 {"message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{"expression":"1+1"},"name":"calculator"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        6 {"message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"text":"2","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"10+5 of 10+5","type":"Message"}
        9 {"message":{"content":[{"id":"call#2","toolCall":{"status":"success","value":{"arguments":{"expression":"1+1"},"name":"calculator"}},"type":"toolRequest"}],"created":"<s>","id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"20+10 of 20+10","type":"Message"}
        11 {"message":{"content":[{"id":"call#2","toolResult":{"status":"success","value":{"content":[{"text":"2","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":"<s>","id":"turn#1.call#2","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"token_state":"20+10 of 20+10","type":"Message"}
        12.1 {"error":"STEP_LIMIT: the turn made 2 model calls, which is its limit (the agent's max_steps); send a message to go on","type":"Error"}
        12.2 {"reason":"error","token_state":"20+10 of 20+10","type":"Finish"}
    "##]],
    );
}

/// Another model answers where the first one fails.
#[test]
fn a_fallback() {
    let world = World::with("retries = 0", "");
    let replies = [failure(503, "under repair"), Reply::says(&["Me instead."])];
    side_by_side(
        &world,
        "seed-fallback",
        &replies,
        &says_to("twofold", "", "play seed-fallback"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        3 {"mode":"fallback","model":"other","token_state":"0+0 of 0+0","type":"ModelChange"}
        4 {"conversation":[{"content":[{"text":"play seed-fallback","type":"text"}],"created_at":"<time>","id":"turn#1.u1","role":"user"}],"token_state":"0+0 of 0+0","type":"UpdateConversation"}
        5 {"message":{"content":[{"text":"Me instead.","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        7 {"reason":"stop","token_state":"10+5 of 10+5","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        3 {"mode":"fallback","model":"other","type":"ModelChange"}
        4 {"conversation":[{"content":[{"text":"play seed-fallback","type":"text"}],"created":"<s>","id":"turn#1.u1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"}],"type":"UpdateConversation"}
        5 {"message":{"content":[{"text":"Me instead.","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        7 {"reason":"stop","token_state":"10+5 of 10+5","type":"Finish"}
    "##]],
    );
}

/// Text of a call that breaks off is void: the conversation shows what there is instead.
#[test]
fn a_step_that_begins_again() {
    let world = World::with("retries = 1", "");
    let broken = Reply::new().thinking("well").text("Once upon").call("calculator", "{}");
    let replies = [broken, Reply::says(&["Another ", "time."])];
    side_by_side(
        &world,
        "seed-again",
        &replies,
        &says("", "play seed-again"),
        expect![[r##"
            # POST /reply
            - {"type":"Ping"}
            4 {"message":{"content":[{"text":"Once upon","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
            5 {"conversation":[{"content":[{"text":"play seed-again","type":"text"}],"created_at":"<time>","id":"turn#1.u1","role":"user"}],"token_state":"657+3 of 657+3","type":"UpdateConversation"}
            6 {"message":{"content":[{"text":"Another ","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"657+3 of 657+3","type":"Message"}
            7 {"message":{"content":[{"text":"time.","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"657+3 of 657+3","type":"Message"}
            9 {"reason":"stop","token_state":"667+8 of 667+8","type":"Finish"}
            # POST /goose/reply
            - {"type":"Ping"}
            3 {"message":{"content":[{"signature":"","thinking":"well","type":"thinking"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
            4 {"message":{"content":[{"text":"Once upon","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
            5 {"conversation":[{"content":[{"text":"play seed-again","type":"text"}],"created":"<s>","id":"turn#1.u1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"}],"type":"UpdateConversation"}
            6 {"message":{"content":[{"text":"Another ","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"657+3 of 657+3","type":"Message"}
            7 {"message":{"content":[{"text":"time.","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"657+3 of 657+3","type":"Message"}
            9 {"reason":"stop","token_state":"667+8 of 667+8","type":"Finish"}
        "##]],
    );
}

#[test]
fn cancelled() {
    let world = World::start();
    let gate = Gate::default();
    let replies = [Reply::new().text("I was about to").hold(&gate)];
    let live = |door: Door, body: &Value| {
        let mut stream = world.open(door, body);
        let (session, turn) = (stream.header("x-session-id").to_owned(), stream.header("x-message-id").to_owned());
        let mut frames = until(&mut stream, "about to");
        let said = world.client().send("POST", "/goose/agent/stop", &json!({ "session_id": session }).to_string());
        assert_eq!(said.status, 200, "{said:?}");
        frames.extend(rest(&mut stream));
        Stream { session, turn, frames }
    };
    side_by_side_by(
        &world,
        "seed-cancel",
        &replies,
        &says("", "play seed-cancel"),
        live,
        expect![[r##"
            # POST /reply
            - {"type":"Ping"}
            3 {"message":{"content":[{"text":"I was about to","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
            5 {"reason":"cancel","token_state":"657+3 of 657+3","type":"Finish"}
            # POST /goose/reply
            - {"type":"Ping"}
            3 {"message":{"content":[{"text":"I was about to","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
            5 {"reason":"cancel","token_state":"657+3 of 657+3","type":"Finish"}
        "##]],
    );
    eventually("the model is left alone", || gate.is_left().then_some(()));
}

/// A turn that takes too long has failed.
#[test]
fn out_of_time() {
    let world = World::start();
    let replies = [Reply::new().text("Slowly").hold(&Gate::default())];
    side_by_side(
        &world,
        "seed-hasty",
        &replies,
        &says_to("hasty", "", "play seed-hasty"),
        expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        3 {"message":{"content":[{"text":"Slowly","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        5.1 {"error":"the turn took longer than a turn may","token_state":"8+2 of 8+2","type":"Error"}
        5.2 {"reason":"error","token_state":"8+2 of 8+2","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        3 {"message":{"content":[{"text":"Slowly","type":"text"}],"created":"<s>","id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"0+0 of 0+0","type":"Message"}
        5.1 {"error":"the turn took longer than a turn may","type":"Error"}
        5.2 {"reason":"error","token_state":"8+2 of 8+2","type":"Finish"}
    "##]],
    );
}
