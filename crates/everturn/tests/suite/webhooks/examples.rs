//! The lines of the documentation that verify a message, on messages that came.

use std::process::{Command, Stdio};

use serde_json::json;

use super::{Delivery, Receiver, SECRET, World, config, local};

/// The code of the documentation in a language.
fn documented(language: &str) -> String {
    let text = include_str!("../../../../../docs/webhooks.md");
    let (_, rest) = text.split_once(&format!("```{language}\n")).expect("the documentation has an example");
    rest.split_once("```").unwrap().0.to_owned()
}

/// What a program prints that verifies a message with these lines.
fn verify(program: &[&str], code: &str, secret: &str, delivery: &Delivery) -> String {
    let headers: serde_json::Map<_, _> = ["webhook-id", "webhook-timestamp", "webhook-signature"]
        .map(|name| (name.to_owned(), delivery.header(name).into()))
        .into_iter()
        .collect();
    let input = json!({ "secret": secret, "headers": headers, "body": String::from_utf8_lossy(&delivery.body) });
    let output = Command::new(program[0])
        .args(&program[1..])
        .args([code, &input.to_string()])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("cannot run {}: {error}; is it installed?", program[0]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_lowercase()
}

#[test]
fn python_and_node_verify_a_message() {
    let receiver = Receiver::start();
    let world = World::start(&config(&["acme"], &local("acme", &receiver, "")));
    world.turn("acme", "stream 1");
    let genuine = receiver.wait(1).remove(0);
    let tampered = {
        let text = String::from_utf8(genuine.body.to_vec()).unwrap().replace("completed", "cancelled");
        Delivery { body: text.into(), ..genuine.clone() }
    };
    let late = {
        let mut late = genuine.clone();
        late.headers.insert("webhook-timestamp", "1614265330".parse().unwrap());
        late
    };
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let python = "\nimport json, sys\ngiven = json.loads(sys.argv[1])\n\
                  print(verify(given['secret'], given['headers'], given['body'].encode()))";
    let node = "\nconst given = JSON.parse(process.argv[1]);\n\
                console.log(verify(given.secret, given.headers, Buffer.from(given.body)));";
    for (program, code) in
        [(&["python3", "-c"][..], documented("python") + python), (&["node", "-e"][..], documented("js") + node)]
    {
        assert_eq!(verify(program, &code, SECRET, &genuine), "true", "{program:?}");
        assert_eq!(verify(program, &code, SECRET, &tampered), "false", "{program:?}");
        assert_eq!(verify(program, &code, SECRET, &late), "false", "{program:?}");
        assert_eq!(verify(program, &code, other, &genuine), "false", "{program:?}");
    }
}
