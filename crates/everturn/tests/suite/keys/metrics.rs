//! The key of `/metrics`.

use super::{create, home};

const KEY: &str = "a-key-for-the-metrics-alone";

#[test]
fn metrics_have_a_key_of_their_own() {
    let home = home("\n[metrics]\nkey = 'file:metrics.key'\n");
    std::fs::write(home.path().join("metrics.key"), format!("{KEY}\n")).unwrap();
    let admin = create(&home, &["--scope", "admin"]);
    let server = home.start();
    let look = |client: crate::suite::harness::Client| client.send("GET", "/metrics", "");
    let refused = look(server.client());
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Bearer"));
    assert!(refused.body.contains("/metrics of this server wants a key of its own"), "{refused:?}");
    assert_eq!(look(admin.client(&server)).status, 401);
    let shown = look(server.client().with_key(KEY));
    assert_eq!(shown.status, 200);
    assert!(shown.body.ends_with("# EOF\n"));
    // It opens nothing else.
    assert_eq!(super::looks(&server.client().with_key(KEY)), 401);
    assert_eq!(server.client().send("GET", "/readyz", "").status, 200);
}
