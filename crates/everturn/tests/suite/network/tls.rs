use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use expect_test::{Expect, expect};

use super::{Authority, Following, TLS, config, curl, fails, get, logged, secure};
use crate::suite::harness::{Gate, Home, PATIENCE, Reply, eventually, script};

#[test]
fn https_with_every_version() {
    let (home, server, _authority) = secure("");
    let url = format!("https://localhost:{}/healthz", server.address.port());
    assert_eq!(get(&home, &["--http2", &url]), "ok\n\n200 2 0");
    assert_eq!(get(&home, &["--http1.1", &url]), "ok\n\n200 1.1 0");
    assert_eq!(get(&home, &["--http2-prior-knowledge", &url]), "ok\n\n200 2 0");
    assert_eq!(get(&home, &["--tlsv1.2", "--tls-max", "1.2", &url]), "ok\n\n200 2 0");
    assert_eq!(get(&home, &["--tlsv1.3", &url]), "ok\n\n200 2 0");
    assert_eq!(fails(&home, &["--cacert", "authority.pem", "--tls-max", "1.1", &url]).status.code(), Some(35));
    assert_eq!(fails(&home, &[&url]).status.code(), Some(60), "nobody knows the authority");
    assert!(!home.log().contains("PRIVATE KEY"), "{}", home.log());
}

#[test]
fn a_stream_flows_frame_by_frame() {
    let (home, server, _authority) = secure("");
    let url = format!("https://localhost:{}/session", server.address.port());
    for version in ["--http2", "--http1.1"] {
        let gate = Gate::default();
        let name = format!("tls-stream-{}", version.trim_start_matches('-').replace('.', "-"));
        script(&name, [Reply::new().text("Nearly").hold(&gate).text(" done.").stops()]);
        let body = format!(
            r#"{{"agent":{{"name":"scripted"}},"stream":"delta","messages":[{{"role":"user","content":"play {name}"}}]}}"#
        );
        let json = "content-type: application/json";
        let mut stream = Following::start(&home, &[version, "-X", "PUT", &url, "-H", json, "-d", &body]);
        // The model says no more before the gate is open.
        stream.until("Nearly");
        gate.open();
        stream.until("end_turn");
    }
}

#[test]
fn the_banner_says_https() {
    let (home, server, _authority) = secure("");
    drop(server);
    let mut server = home.start();
    assert!(
        server.banner().contains("tls     cert.pem; call this server by a name that is in it\n"),
        "{}",
        server.banner()
    );
    server.terminate();
    assert!(server.ended().0.success());
    assert!(server.banner().contains("\n  curl https://127.0.0.1:"), "{}", server.banner());
}

#[test]
fn plain_http_is_told_where_it_is() {
    let (home, server, _authority) = secure("");
    let url = format!("http://localhost:{}/healthz", server.address.port());
    assert_eq!(get(&home, &[&url]), "this server speaks https here; call it by https://\n\n400 1.1 0");
    logged(&home, "a client speaks http where https is spoken");
    let url = format!("https://localhost:{}/healthz", server.address.port());
    assert_eq!(get(&home, &[&url]), "ok\n\n200 2 0");
}

/// Those who begin a handshake and do not go on with it hold up nobody.
#[test]
fn slow_handshakes_are_nobody_elses_trouble() {
    let (home, server, _authority) = secure("");
    let mut slow: Vec<_> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for socket in &mut slow {
        socket.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
    }
    let url = format!("https://localhost:{}/healthz", server.address.port());
    for _ in 0..5 {
        assert_eq!(get(&home, &[&url]), "ok\n\n200 2 0");
    }
    // In the end they are let go, by and by.
    let socket = &mut slow[0];
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
    logged(&home, "a TLS handshake took too long");
}

#[test]
fn a_failed_handshake_is_a_line_of_the_log() {
    let (home, server, _authority) = secure("");
    let url = format!("https://localhost:{}/healthz", server.address.port());
    fails(&home, &[&url]);
    let line = logged(&home, "a TLS handshake failed");
    assert!(line.contains("\"level\":\"DEBUG\"") && line.contains("\"client\":\"127.0.0.1\""), "{line}");
    assert_eq!(get(&home, &[&url]), "ok\n\n200 2 0");
}

#[test]
fn flags_and_variables() {
    let home = Home::new(&config(""));
    Authority::new().install(&home);
    for server in [
        home.start_with(&["--tls-cert", "cert.pem", "--tls-key", "key.pem"]),
        home.start_in(
            &[("EVERTURN_TLS_CERT", "cert.pem"), ("EVERTURN_TLS_KEY", "key.pem")],
            &["--store", "sqlite:other.db"],
        ),
    ] {
        assert_eq!(get(&home, &[&format!("https://{}/healthz", server.address)]), "ok\n\n200 2 0");
    }
}

#[track_caller]
fn check(home: &Home, expected: Expect) {
    for arguments in [&["config", "check"][..], &["--listen", "127.0.0.1:0"]] {
        let output = home.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(1), Vec::new()), "{said}");
        expected.assert_eq(&said);
    }
    assert!(!home.path().join("everturn-data").exists(), "nothing is half done");
}

#[test]
fn files_that_cannot_be_used() {
    let home = Home::new(&config(TLS));
    check(
        &home,
        expect![[r#"
            error: cannot read the certificate cert.pem: No such file or directory (os error 2)
        "#]],
    );
    let authority = Authority::new();
    authority.install(&home);
    std::fs::write(home.path().join("key.pem"), authority.sign().1).unwrap();
    check(
        &home,
        expect![[r#"
            error: the key key.pem does not belong to the certificate cert.pem; name the key that the certificate was made for, and put that certificate first in its file
        "#]],
    );
    authority.install(&home);
    let openssl = ["pkey", "-in", "key.pem", "-aes128", "-passout", "pass:open", "-out", "locked.pem"];
    let locked = Command::new("openssl").args(openssl).current_dir(home.path()).status();
    assert!(locked.expect("openssl is installed").success());
    std::fs::rename(home.path().join("locked.pem"), home.path().join("key.pem")).unwrap();
    check(
        &home,
        expect![[r#"
            error: key.pem has a key that is locked with a password, which nobody could type at a start; write it without one: openssl pkey -in locked.pem -out privkey.pem
        "#]],
    );
    std::fs::write(home.path().join("key.pem"), "-----BEGIN PRIVATE KEY-----\nmy-secret\n").unwrap();
    check(
        &home,
        expect![[r#"
            error: key.pem is broken PEM: it has a BEGIN line without its END line
        "#]],
    );
}

/// It can be used, and clients do not want it. Whoever looks is told.
#[test]
fn certificates_whose_time_is_not_now() {
    let home = Home::new(&config(TLS));
    let authority = Authority::new();
    let expired = "the certificate cert.pem has expired: it was valid from 2000-01-01T00:00:00Z until \
                   2001-01-01T00:00:00Z; clients refuse it: renew it";
    let early = "the certificate cert.pem is not valid yet: it is from 3000-01-01T00:00:00Z until 3001-01-01T00:00:00Z; \
                 clients refuse it before that: is the clock of this machine right?";
    for (year, problem) in [(3000, early), (2000, expired)] {
        authority.install_pair(&home, authority.sign_for(year, year + 1));
        let output = home.run(&["config", "check"]);
        assert_eq!(
            (output.status.code(), output.stderr.as_slice()),
            (Some(0), format!("warning: {problem}\n").as_bytes())
        );
    }
    let server = home.start();
    let line = logged(&home, expired);
    assert!(line.contains("\"level\":\"WARN\""), "{line}");
    let url = format!("https://localhost:{}/healthz", server.address.port());
    assert_eq!(fails(&home, &["--cacert", "authority.pem", &url]).status.code(), Some(60));
    // At a renewal, too.
    authority.install_pair(&home, authority.sign_for(3000, 3001));
    super::renewal::hang_up(&server);
    logged(&home, early);
    authority.install(&home);
    let told = home.run(&["config", "check"]).stderr;
    assert_eq!(String::from_utf8(told).unwrap(), "");
    super::renewal::hang_up(&server);
    logged(&home, "the certificate was renewed");
    eventually("clients take it", || {
        curl(&home, &["--cacert", "authority.pem", &url]).status().unwrap().success().then_some(())
    });
}

/// As for the server itself.
#[test]
fn a_check_takes_flags_and_variables() {
    let home = Home::new(&config(""));
    Authority::new().install(&home);
    let both = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let output = home.run(&[&["config", "check"][..], &both].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("\ntls     cert.pem\n"), "{said}");
    let nowhere = [("EVERTURN_TLS_CERT", "nowhere.pem"), ("EVERTURN_TLS_KEY", "key.pem")];
    for arguments in [&["config", "check"][..], &["--listen", "127.0.0.1:0"]] {
        let output = home.run_in(&nowhere, arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = "error: cannot read the certificate nowhere.pem: No such file or directory (os error 2)\n";
        assert_eq!((output.status.code(), said.as_str()), (Some(1), expected), "{arguments:?}");
    }
    // And the rest of what a server would take.
    let output = home.run_in(&[("EVERTURN_LISTEN", "nowhere")], &["config", "check"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.starts_with("error: cannot listen on `nowhere`"), "{said}");
}

/// Without https, a certificate beyond loopback would be no reason to do without keys; with it, neither.
#[test]
fn beyond_loopback_it_wants_keys_too() {
    let home = Home::new(&config(TLS));
    Authority::new().install(&home);
    let output = home.run(&["--listen", "0.0.0.0:0"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: refusing to listen on 0.0.0.0:0 without keys"), "{said}");
}
