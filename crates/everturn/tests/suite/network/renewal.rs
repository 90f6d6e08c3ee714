use std::process::Command;

use super::{Authority, fails, get, logged, secure};
use crate::suite::harness::{Server, eventually};

pub(super) fn hang_up(server: &Server) {
    let told = Command::new("kill").args(["-HUP", &server.pid().to_string()]).status().unwrap();
    assert!(told.success());
}

/// By somebody else, so that it can be told which one is in use.
#[test]
fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let (home, server, authority) = secure("");
    let url = format!("https://localhost:{}/healthz", server.address.port());
    let working = || get(&home, &[&url]) == "ok\n\n200 2 0";
    assert!(working());

    // A key that does not belong to it.
    std::fs::write(home.path().join("key.pem"), authority.sign().1).unwrap();
    hang_up(&server);
    let line = logged(&home, "the new certificate cannot be used; the old one stays in use");
    assert!(line.contains("the key key.pem does not belong to the certificate cert.pem"), "{line}");
    assert!(working());

    std::fs::remove_file(home.path().join("cert.pem")).unwrap();
    hang_up(&server);
    logged(&home, "cannot read the certificate cert.pem");
    assert!(working());

    let old = std::fs::read(home.path().join("authority.pem")).unwrap();
    Authority::new().install(&home);
    std::fs::write(home.path().join("old.pem"), old).unwrap();
    hang_up(&server);
    logged(&home, "the certificate was renewed");
    assert!(working());
    // Another authority of the same name: its signature is wrong, or nobody knows it.
    let code = fails(&home, &["--cacert", "old.pem", &url]).status.code();
    assert!(matches!(code, Some(35 | 60)), "{code:?}");
    assert!(!home.log().contains("PRIVATE KEY"), "{}", home.log());
}

/// Who is connected stays so.
#[test]
fn a_renewal_ends_no_connection() {
    let (home, server, _authority) = secure("");
    let url = format!("https://localhost:{}/session", server.address.port());
    let body =
        r#"{"agent":{"name":"demo"},"stream":"delta","messages":[{"role":"user","content":"stream 40 at 20/s"}]}"#;
    let arguments = ["-X", "PUT", &url, "-H", "content-type: application/json", "-d", body];
    let mut stream = super::Following::start(&home, &arguments);
    stream.until("word 1 ");
    Authority::new().install(&home);
    hang_up(&server);
    eventually("the certificate was renewed", || home.log().contains("the certificate was renewed").then_some(()));
    stream.until("end_turn");
}
