//! The clients that the protocol's text shows, as they are written there. Nothing of them is changed but the port and the
//! key; that of Python is indented, which the text is not.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use super::world::{Door, World, file, frames, kinds, rest, says, text, until};
use crate::suite::harness::{Gate, Reply, asked, key, script};

/// An agent that plays a script whatever it is told, and is the one that sessions have.
fn world(script: &str) -> World {
    let mut world = World::start();
    // These clients say what they say, so the instructions say what to play.
    world.replace("name = 'goose'\n", &format!("name = 'goose'\ninstructions = 'play {script}'\n"));
    world
}

/// The text of an example, with this server's port and a key.
fn example(world: &World, name: &str) -> String {
    let text = std::fs::read_to_string(file(&format!("tests/suite/goose_seed/examples/{name}"))).unwrap();
    assert!(text.contains("http://localhost:8080/reply") && text.contains("Bearer YOUR_API_KEY"));
    text.replace("localhost:8080", &format!("localhost:{}", world.server.address.port()))
        .replace("YOUR_API_KEY", &key("acme"))
}

/// Runs a program on an example and gives what it prints.
#[track_caller]
fn run(world: &World, program: &Path, name: &str) -> Output {
    let script = world.home.path().join(name);
    std::fs::write(&script, example(world, name)).unwrap();
    let output = Command::new(program).arg(&script).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("cannot run {}: {error}; is it installed?", program.display()))
}

#[track_caller]
fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn python() -> std::path::PathBuf {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers");
    let installed = std::fs::read_dir(peers.join(".venv/lib")).into_iter().flatten().flatten();
    let has_requests = installed.into_iter().any(|python| python.path().join("site-packages/requests").exists());
    assert!(has_requests, "requests is not installed under tests/peers; run: cargo xtask peers");
    peers.join(".venv/bin/python")
}

#[test]
fn curl() {
    script("seed-curl", [Reply::says(&["src/ ", "README.md"])]);
    let world = world("seed-curl");
    let seen = frames(&printed(&run(&world, Path::new("sh"), "client.sh")));
    assert_eq!(kinds(&seen), ["Ping", "Message", "Message", "Finish"]);
    assert_eq!(text(&seen), "src/ README.md");
    let messages = asked("seed-curl")[0]["messages"].clone();
    assert_eq!(messages[1]["content"], "List files in current directory", "{messages}");
    assert_eq!(world.session("session-abc123")["message_count"], 2);
}

#[test]
fn javascript() {
    script("seed-js", [Reply::says(&["print(", "hello world)"])]);
    let world = world("seed-js");
    let seen = printed(&run(&world, Path::new("node"), "client.mjs"));
    assert_eq!(seen.matches("Assistant: {").count(), 2, "{seen}");
    assert_eq!(texts(&seen), ["print(", "hello world)"]);
    assert!(seen.contains("role: 'assistant'") && seen.contains("created_at: '"), "{seen}");
    assert!(seen.ends_with("\nDone! stop\n"), "{seen}");
    // The same client again goes on in the same session.
    script_again("seed-js", "Once more.");
    let again = printed(&run(&world, Path::new("node"), "client.mjs"));
    assert!(again.contains("text: 'Once more.'") && again.ends_with("\nDone! stop\n"), "{again}");
    assert_eq!(world.session("session-abc123")["message_count"], 4);
    let given = asked("seed-js")[1]["messages"].as_array().unwrap().len();
    assert_eq!(given, 4, "instructions, question, answer, question");
}

fn script_again(name: &str, says: &str) {
    crate::suite::harness::go_on(name, [Reply::says(&[says])]);
}

#[test]
fn python_with_requests() {
    script("seed-py", [Reply::new().thinking("hm").text("`await` waits.\n").text("Änderung 🦢.").stops()]);
    let world = world("seed-py");
    let seen = printed(&run(&world, &python(), "client.py"));
    assert_eq!(seen, "`await` waits.\nÄnderung 🦢.\n\nFinished: stop\nTokens: 15\n");
    assert_eq!(asked("seed-py")[0]["messages"][1]["content"], "Explain async/await in Python");
}

#[test]
fn failures_are_printed() {
    script("seed-fail", (0..3).map(|_| Reply::status(401, &[], r#"{"error":{"message":"no such key"}}"#)));
    let world = world("seed-fail");
    let seen = printed(&run(&world, &python(), "client.py"));
    assert_eq!(seen, "Error: LLM_PROVIDER_ERROR: script answered 401: no such key\n");
    let output = run(&world, Path::new("node"), "client.mjs");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "Error: LLM_PROVIDER_ERROR: script answered 401: no such key\n"
    );
    assert_eq!(printed(&output), "Done! error\n");
    let seen = frames(&printed(&run(&world, Path::new("sh"), "client.sh")));
    assert_eq!(kinds(&seen), ["Ping", "Error", "Finish"]);
}

/// A session that is busy refuses them, and they print why, though none of them looks at the status.
#[test]
fn a_busy_session_says_so() {
    let gate = Gate::default();
    script("seed-examples-busy", [Reply::new().text("Wait").hold(&gate).text(" for me.").stops()]);
    let world = world("seed-examples-busy");
    let mut running = world.open(Door::Described, &says("session-abc123", "Begin."));
    until(&mut running, "Wait");
    let why = "Session already has an active request. Cancel it first, or wait until it ends.";
    assert_eq!(printed(&run(&world, &python(), "client.py")), format!("Error: {why}\n"));
    let output = run(&world, Path::new("node"), "client.mjs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("Error: {why}\n"));
    assert_eq!(printed(&output), "Done! error\n");
    let seen = frames(&printed(&run(&world, Path::new("sh"), "client.sh")));
    assert_eq!(kinds(&seen), ["Error", "Finish"]);
    gate.open();
    assert_eq!(text(&rest(&mut running)), " for me.", "nobody disturbed it");
    assert_eq!(asked("seed-examples-busy").len(), 1);
}

/// That client takes each chunk from the network for whole frames, and must live through thousands of them. They come in
/// bursts here, one after the other as it reads them: where more than 64 KiB wait for it, Node itself cuts them anywhere.
#[test]
fn javascript_survives_a_long_answer() {
    const BURSTS: usize = 100;
    const WORDS: usize = 50;
    let word = |burst: usize, n: usize| format!("word{burst}.{n} ");
    let gates: Vec<_> = (0..BURSTS).map(|_| Gate::default()).collect();
    let burst = |reply: Reply, burst: usize| (0..WORDS).fold(reply, |reply, n| reply.text(&word(burst, n)));
    let reply = (0..BURSTS).fold(Reply::new(), |reply, n| burst(reply.hold(&gates[n]), n)).stops();
    script("seed-long", [reply]);
    let world = world("seed-long");
    let script = world.home.path().join("client.mjs");
    std::fs::write(&script, example(&world, "client.mjs")).unwrap();
    let mut client = Command::new("node").arg(&script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut seen = String::new();
    for (n, gate) in gates.iter().enumerate() {
        gate.open();
        let last = word(n, WORDS - 1);
        loop {
            let line = lines.next().unwrap_or_else(|| panic!("it ended before {last:?}; see above why")).unwrap();
            seen += &format!("{line}\n");
            if line.contains(&last) {
                break;
            }
        }
    }
    seen.extend(lines.map(|line| line.unwrap() + "\n"));
    assert!(client.wait().unwrap().success());
    let all: Vec<_> = (0..BURSTS).flat_map(|burst| (0..WORDS).map(move |n| word(burst, n))).collect();
    assert_eq!(texts(&seen), all);
    assert!(seen.ends_with("\nDone! stop\n"), "{}", &seen[seen.len() - 500..]);
}

/// The texts in what Node prints of messages. They have no quotes in them.
fn texts(printed: &str) -> Vec<String> {
    let pieces = printed.split("text: '").skip(1);
    pieces.map(|piece| piece.split('\'').next().unwrap().to_owned()).collect()
}

#[test]
fn without_a_valid_key_nothing_is_said() {
    script("seed-keyless", [Reply::says(&["Hello."])]);
    let world = world("seed-keyless");
    let text = example(&world, "client.sh").replace(&key("acme"), "YOUR_API_KEY");
    let output = Command::new("sh").args(["-c", &text]).stdin(Stdio::null()).output().unwrap();
    let refused: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(refused["message"], "the key is not valid on this server");
    assert_eq!(asked("seed-keyless"), [] as [Value; 0]);
    assert_eq!(world.post(Door::Described, &says("s", "hello")).text(), "Hello.");
}
