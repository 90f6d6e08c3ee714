//! Connections end, turns do not.

use std::{
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::sdk::{Sdk, World, user};
use crate::suite::harness::{Gate, Reply, asked, eventually, go_on, script};

#[test]
fn python_may_go_away() {
    walk(Sdk::python());
}

#[test]
fn node_may_go_away() {
    walk(Sdk::node());
}

fn walk(mut sdk: Sdk) {
    let world = World::start();
    closed(&world, &mut sdk);
    cut_off(&world, &mut sdk);
}

/// Whoever closes the stream has not stopped the turn; the rest can be read by its cursor, in the same words.
fn closed(world: &World, sdk: &mut Sdk) {
    let (name, gate) = (format!("openai-closed-{}", sdk.name), Gate::default());
    script(&name, [Reply::new().text("one ").hold(&gate).text("two ").text("three").stops()]);
    let params = json!({ "model": "scripted", "messages": [user(&format!("play {name}"))], "stream": true });
    let told = sdk.told(world, "acme", &json!({ "do": "create", "params": params, "close_after": 2 }));
    assert_eq!(told["chunks"][1]["choices"][0]["delta"]["content"], "one ", "{told}");
    gate.open();
    let (session, turn) = (told["session"].as_str().unwrap(), told["message"].as_str().unwrap());
    let ended = |turn: Value| (turn["status"] == "completed").then(|| turn["response"].clone());
    let response = eventually("the turn ends", || ended(world.turn("acme", session, turn)));
    assert_eq!(response, "one two three");
    let path = format!("/api/v1/sessions/{session}/messages/{turn}/stream?as=openai");
    let whole = world.client("acme").send("GET", &path, "").body;
    let cursor = whole.split("id: ").nth(2).unwrap().split_once('\n').unwrap().0;
    let rest = world.client("acme").send("GET", &format!("{path}&since={cursor}"), "").body;
    assert!(whole.ends_with(&rest) && !rest.contains("one ") && rest.contains("two "), "{rest}");
    assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
}

/// An SDK whose connection breaks comes again by itself, and is shown the turn that it began.
fn cut_off(world: &World, sdk: &mut Sdk) {
    let (name, gate, cable) = (format!("openai-cut-{}", sdk.name), Gate::default(), Cable::to(world.server.address));
    script(&name, [Reply::new().text("slow").hold(&gate).stops()]);
    let before = world.sessions("acme");
    let params = json!({ "model": "scripted", "messages": [user(&format!("play {name}"))] });
    let url = format!("http://{}/v1", cable.address);
    sdk.begin(world, "acme", &json!({ "do": "create", "params": params, "retries": 5, "url": url }));
    eventually("the model is asked", || (asked(&name).len() == 1).then_some(()));
    cable.cut();
    eventually("the SDK comes again", || (cable.laid() == 2).then_some(()));
    gate.open();
    let told = sdk.end();
    assert_eq!(told["completion"]["choices"][0]["message"]["content"], "slow", "{told}");
    assert_eq!(asked(&name).len(), 1, "the model was asked once");
    assert_eq!(world.sessions("acme"), before + 1);
}

/// An SDK that comes again by itself after a crash of the server is shown the turn that it began.
#[test]
fn an_sdk_comes_again_after_a_crash() {
    let mut world = World::start();
    let name = "openai-crash";
    script(name, [Reply::new().text("half").hold(&Gate::default()), Reply::says(&["whole"])]);
    let body = json!({ "model": "scripted", "messages": [user(&format!("play {name}"))], "stream": true }).to_string();
    let attempt = |world: &World, count: &str| {
        let headers = [("content-type", "application/json"), ("x-stainless-retry-count", count)];
        world.client("acme").open_with("POST", "/v1/chat/completions", &headers, body.clone())
    };
    let mut first = attempt(&world, "0");
    first.until("half");
    let turn = first.header("x-message-id").to_owned();
    world.crash();
    let mut again = attempt(&world, "1");
    assert_eq!(again.header("x-message-id"), turn);
    again.until("whole");
    again.rest();
    assert_eq!(world.sessions("acme"), 1);
    // A first attempt is another request.
    go_on(name, [Reply::says(&["other"])]);
    assert_ne!(attempt(&world, "0").header("x-message-id"), turn);
}

/// The AI SDK does not count its attempts. Right after a start, a request whose turn was cut off is its next one.
#[test]
fn the_ai_sdk_comes_again_after_a_crash() {
    let mut world = World::start();
    let name = "openai-crash-ai-sdk";
    script(name, [Reply::new().text("half").hold(&Gate::default()), Reply::says(&["whole"]), Reply::says(&["other"])]);
    let body = json!({ "model": "scripted", "messages": [user(&format!("play {name}"))], "stream": true }).to_string();
    let attempt = |world: &World| {
        let headers =
            [("content-type", "application/json"), ("user-agent", "ai/6.0.326 ai-sdk/openai-compatible/2.0.87")];
        world.client("acme").open_with("POST", "/v1/chat/completions", &headers, body.clone())
    };
    let mut first = attempt(&world);
    first.until("half");
    let turn = first.header("x-message-id").to_owned();
    world.crash();
    let mut again = attempt(&world);
    assert_eq!(again.header("x-message-id"), turn);
    again.until("whole");
    again.rest();
    // What was delivered is not shown again.
    let other = attempt(&world);
    assert_ne!(other.header("x-message-id"), turn);
    drop(other);
    assert_eq!((world.sessions("acme"), asked(name).len()), (2, 3));
}

/// Answers that were delivered before a restart are nobody's who comes again after it, and each of several who asked the same
/// finds a turn of its own.
#[test]
fn an_sdk_that_comes_again_after_a_restart_is_not_shown_an_older_answer() {
    let mut world = World::start();
    let name = "openai-restart";
    script(name, [Reply::says(&["one"]), Reply::says(&["two"])]);
    let body = json!({ "model": "scripted", "messages": [user(&format!("play {name}"))] });
    let attempt = |world: &World, count: &str| {
        let headers = [("content-type", "application/json"), ("x-stainless-retry-count", count)];
        let answer = world.client("acme").send_with("POST", "/v1/chat/completions", &headers, body.to_string());
        answer.json()["choices"][0]["message"]["content"].clone()
    };
    assert_eq!(attempt(&world, "0"), "one");
    world.restart();
    assert_eq!(attempt(&world, "1"), "two", "the answer of the first request was delivered");

    let held = || Reply::new().text("half").hold(&Gate::default());
    go_on(name, [held(), held(), Reply::says(&["a"]), Reply::says(&["b"])]);
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let open = |world: &World, count: &str| {
        let headers = [("content-type", "application/json"), ("x-stainless-retry-count", count)];
        world.client("acme").open_with("POST", "/v1/chat/completions", &headers, streamed.to_string())
    };
    let mut lost = [open(&world, "0"), open(&world, "0")];
    lost.iter_mut().for_each(|stream| drop(stream.until("half")));
    world.crash();
    let found = || {
        let mut again = open(&world, "1");
        let turn = again.header("x-message-id").to_owned();
        again.rest();
        turn
    };
    let (mut found, mut turns) = ([found(), found()], lost.map(|stream| stream.header("x-message-id").to_owned()));
    found.sort();
    turns.sort();
    assert_eq!(found, turns, "each has its own, also after the other's was delivered");
}

/// Passes on what clients and a server say to each other, until it is cut.
struct Cable {
    address: SocketAddr,
    /// The ends of all connections.
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cable {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let cable = Self { address: listener.local_addr().unwrap(), ends: Arc::default() };
        let ends = Arc::clone(&cable.ends);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(server).unwrap();
                for (mut from, mut to) in [(&client, &server), (&server, &client)].map(copies) {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
                ends.lock().unwrap().extend([client, server]);
            }
        });
        cable
    }

    /// Breaks all connections.
    fn cut(&self) {
        for end in &*self.ends.lock().unwrap() {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// How many connections there were.
    fn laid(&self) -> usize {
        self.ends.lock().unwrap().len() / 2
    }
}

fn copies((from, to): (&TcpStream, &TcpStream)) -> (TcpStream, TcpStream) {
    (from.try_clone().unwrap(), to.try_clone().unwrap())
}
