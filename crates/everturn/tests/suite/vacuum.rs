//! `everturn vacuum`, and the metrics that say whether it is worth it.

use super::harness::{Home, Reply, eventually, script, shared_config};
use crate::suite::native::world::spawn;

fn metric(metrics: &str, name: &str) -> Option<u64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_a_server_it_says_how_much_it_freed_and_with_one_it_refuses() {
    let home = Home::new(&shared_config(""));
    let none = home.run(&["vacuum"]);
    assert!(!none.status.success());
    assert!(text(&none.stderr).starts_with("error: there is no database "), "{none:?}");
    assert!(!home.path().join("everturn-data").exists(), "a look makes nothing");

    let mut server = home.start();
    script("vacuum", [Reply::says(&["Hello."])]);
    let turn = spawn(&server.client(), &serde_json::json!({ "agent_id": "scripted", "message": "play vacuum" }));
    assert_eq!(turn.complete()["final_response"], "Hello.");
    let metrics = eventually("the writer has looked", || {
        let metrics = server.client().send("GET", "/metrics", "").body;
        metric(&metrics, "everturn_store_bytes").filter(|bytes| *bytes > 0).map(|_| metrics)
    });
    let free = metric(&metrics, "everturn_store_free_pages").expect("free pages");
    assert_eq!(metric(&metrics, "everturn_store_free_bytes"), Some(free * 4096), "{metrics}");
    let busy = home.run(&["vacuum"]);
    assert!(!busy.status.success());
    let told = text(&busy.stderr);
    assert!(told.contains("is in use; a running server gives free space back by itself"), "{told}");
    assert!(told.contains("hint: stop the server"), "{told}");
    server.terminate();
    assert!(server.ended().0.success());

    let done = home.run(&["vacuum"]);
    assert!(done.status.success(), "{done:?}");
    let told = text(&done.stdout);
    assert!(told.contains(" bytes freed; it had ") && told.contains("everturn.db: "), "{told}");
    let again = home.start();
    let history = again.client().send("GET", &format!("/api/v1/sessions/{}", turn.session), "");
    assert_eq!(history.status, 200, "{history:?}");
}
