//! Requests in a second.

use super::{create, home, looks};
use crate::suite::harness::{Client, eventually};

/// How many of so many requests at once are let in.
fn let_in(clients: &[Client], each: usize) -> usize {
    let told: Vec<u16> = std::thread::scope(|scope| {
        let all: Vec<_> = clients.iter().flat_map(|client| (0..each).map(move |_| client)).collect();
        let all: Vec<_> = all.into_iter().map(|client| scope.spawn(move || looks(client))).collect();
        all.into_iter().map(|told| told.join().unwrap()).collect()
    });
    assert!(told.iter().all(|status| [200, 429].contains(status)), "{told:?}");
    told.iter().filter(|status| **status == 200).count()
}

#[test]
fn a_key_may_make_so_many() {
    let home = home("");
    let (slow, fast) = (create(&home, &["--requests-per-second", "5"]), create(&home, &[]));
    let server = home.start();
    let began = std::time::Instant::now();
    let admitted = let_in(&[slow.client(&server)], 30);
    let seconds = began.elapsed().as_secs() as usize + 1;
    assert!((5..=5 + 5 * seconds).contains(&admitted), "{admitted} in {seconds} s");
    assert_eq!(let_in(&[fast.client(&server)], 30), 30, "another key does not mind");
    // It comes back.
    eventually("the next is taken", || (looks(&slow.client(&server)) == 200).then_some(()));
}

#[test]
fn a_tenant_may_make_so_many_with_all_its_keys() {
    let home =
        home("[quotas]\nkey = { requests_per_second = 1000 }\n[tenants.acme]\nquota = { requests_per_second = 4 }\n");
    let [one, two] = [0, 1].map(|_| create(&home, &["--tenant", "acme"]));
    let other = create(&home, &["--tenant", "bob"]);
    let server = home.start();
    let began = std::time::Instant::now();
    let admitted = let_in(&[one.client(&server), two.client(&server)], 15);
    let seconds = began.elapsed().as_secs() as usize + 1;
    assert!((4..=4 + 4 * seconds).contains(&admitted), "{admitted} in {seconds} s");
    assert_eq!(let_in(&[other.client(&server)], 30), 30, "another tenant does not mind");
    let told = eventually("one is refused", || {
        let answer = one.client(&server).send("GET", "/sessions", "");
        (answer.status == 429).then_some(answer)
    });
    assert_eq!(told.error(), "this tenant may make 4 requests a second; try again in a moment");
    assert_eq!(told.header("retry-after"), "1");
    // What wants no key is not counted, with or without one.
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/meta"] {
        for _ in 0..10 {
            let status = one.client(&server).send("GET", path, "").status;
            assert!((200..400).contains(&status), "{path}: {status}");
        }
    }
}

#[test]
fn without_keys_the_tenant_local_is_counted() {
    let home = home("[tenants.local]\nquota = { requests_per_second = 3 }\n");
    let server = home.start();
    let began = std::time::Instant::now();
    let admitted = let_in(&[server.client()], 20);
    let seconds = began.elapsed().as_secs() as usize + 1;
    assert!((3..=3 + 3 * seconds).contains(&admitted), "{admitted} in {seconds} s");
}
