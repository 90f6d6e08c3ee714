//! More clients than there is room for.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::json;

use crate::suite::harness::{Gate, Home, Reply, eventually, script, shared_config};

#[test]
fn silent_clients_keep_nobody_out_and_operators_always_get_in() {
    let home = Home::new(&shared_config("").replace("connections = 500", "connections = 8"));
    let server = home.start();
    let client = server.client();
    // Silent ones, half heads, and idle ones after an answer: three times as many as there is room for.
    let mut silent = Vec::new();
    for number in 0..24 {
        let mut socket = TcpStream::connect(server.address).unwrap();
        match number % 3 {
            0 => {}
            1 => socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").unwrap(),
            _ => {
                socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
                let mut first = [0; 12];
                socket.read_exact(&mut first).unwrap();
                assert_eq!(&first, b"HTTP/1.1 200");
            }
        }
        silent.push(socket);
        assert_eq!(client.send("GET", "/sessions", "").status, 200, "after {number}");
    }
    let gate = Gate::default();
    let open = |number: usize| {
        let name = format!("crowd-{number}");
        script(&name, [Reply::new().text("Begun").hold(&gate).text(" and done.").stops()]);
        let ask = json!({
            "agent": { "name": "scripted" }, "stream": "delta",
            "messages": [{ "role": "user", "content": format!("play {name}") }],
        });
        let mut stream = client.open("PUT", "/session", &ask.to_string());
        stream.until("Begun");
        stream
    };
    let mut streams: Vec<_> = (0..8).map(open).collect();
    // Nobody is idle now.
    let refused = eventually("there is no room", || {
        Some(client.send("GET", "/sessions", "")).filter(|answer| answer.status == 503)
    });
    assert_eq!(refused.header("retry-after"), "2");
    assert!(refused.json()["error"].as_str().unwrap().contains("limits.connections"), "{refused:?}");
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(client.send("GET", path, "").status, 200, "{path}");
    }
    gate.open();
    for stream in &mut streams {
        assert!(stream.rest().0.last().unwrap().contains("end_turn"));
    }
    eventually("there is room again", || (client.send("GET", "/sessions", "").status == 200).then_some(()));
}
