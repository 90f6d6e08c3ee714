use super::{Following, config, get, secure};
use crate::suite::harness::{Gate, Home, Reply, script};

#[test]
fn a_stream_in_cleartext_flows_frame_by_frame() {
    let home = Home::new(&config(""));
    std::fs::write(home.path().join("authority.pem"), "").unwrap();
    let server = home.start();
    let gate = Gate::default();
    script("h2-stream", [Reply::new().text("Nearly").hold(&gate).text(" done.").stops()]);
    let url = format!("http://localhost:{}/session", server.address.port());
    let body =
        r#"{"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play h2-stream"}]}"#;
    let json = "content-type: application/json";
    let arguments = ["--http2-prior-knowledge", "-X", "PUT", &url, "-H", json, "-d", body];
    let mut stream = Following::start(&home, &arguments);
    stream.until("Nearly");
    gate.open();
    stream.until("end_turn");
}

/// Readers of many turns at once, over one connection.
#[test]
fn many_streams_over_one_connection() {
    let (home, server, _authority) = secure("");
    let url = format!("https://localhost:{}/session", server.address.port());
    let body =
        r#"{"agent":{"name":"demo"},"stream":"delta","messages":[{"role":"user","content":"stream 20 at 40/s"}]}"#;
    let one = format!(
        "url = \"{url}\"\nrequest = PUT\nheader = \"content-type: application/json\"\ndata = {body:?}\n\
         cacert = authority.pem\nhttp2\nwrite-out = \"{{connects %{{num_connects}}}} %{{http_code}}\\n\"\n"
    );
    std::fs::write(home.path().join("many"), vec![one; 60].join("next\n")).unwrap();
    let output = get(&home, &["--parallel", "--parallel-max", "60", "--config", "many"]);
    assert_eq!(output.matches(r#""stopReason":"end_turn""#).count(), 60, "{output}");
    assert_eq!(output.matches(" 200\n").count(), 60, "{output}");
    assert_eq!((output.matches("{connects 1}").count(), output.matches("{connects 0}").count()), (1, 59), "{output}");
}

/// As over HTTP/1: who calls by another name is not on this machine.
#[test]
fn a_server_without_keys_answers_to_this_machine_only() {
    let home = Home::new(&config(""));
    std::fs::write(home.path().join("authority.pem"), "").unwrap();
    let server = home.start();
    let (port, address) = (server.address.port(), server.address);
    let resolve = format!("evil.example:{port}:127.0.0.1");
    let evil = format!("http://evil.example:{port}/sessions");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let refused = get(&home, &[version, "--resolve", &resolve, &evil]);
        assert!(refused.contains("\n403 "), "{version}: {refused}");
        let served = get(&home, &[version, &format!("http://{address}/sessions")]);
        assert!(served.contains("\n200 "), "{version}: {served}");
    }
}
