use super::{Reaction, Receiver, World, config, hook, local};
use crate::suite::harness::Home;

/// A name that leads to this machine: the guard looks at where names lead, not at what they are called.
#[test]
fn a_name_that_leads_to_this_machine_is_refused() {
    let receiver = Receiver::start();
    let url = format!("http://localhost:{}/hook", receiver.address.port());
    let mut world = World::start(&config(&["acme"], &hook("acme", &url, "retry_for = '1s'")));
    world.turn("acme", "stream 1");
    let line = world.logged("a webhook was not delivered");
    assert!(
        line.contains("localhost leads to ") && line.contains("which is loopback and not on the internet"),
        "{line}"
    );
    world.logged("a webhook was given up");
    assert_eq!(receiver.deliveries().len(), 0);

    // Unless it is meant.
    world.home.configure(&config(&["acme"], &hook("acme", &url, "allow_private = true")));
    world.crash();
    world.turn("acme", "stream 1");
    assert_eq!(receiver.wait(1).len(), 1);
}

#[test]
fn redirects_are_not_followed() {
    let (first, second) = (Receiver::start(), Receiver::start());
    let elsewhere = second.url();
    first.react(move |_| Reaction::Answer(307, vec![("location", elsewhere.clone())]));
    let world = World::start(&config(&["acme"], &local("acme", &first, "retry_for = '1s'")));
    world.turn("acme", "stream 1");
    let line = world.logged("a webhook was not delivered");
    assert!(line.contains("it answered 307, and redirects are not followed"), "{line}");
    world.logged("a webhook was given up");
    assert_eq!(second.deliveries().len(), 0);
}

/// A proxy of the environment would do for us what we must not do.
#[test]
fn proxies_of_the_environment_are_not_used() {
    let (receiver, proxy) = (Receiver::start(), Receiver::start());
    let home = Home::new(&config(&["acme"], &local("acme", &receiver, "")));
    let url = format!("http://{}", proxy.address);
    let variables = [("HTTP_PROXY", url.as_str()), ("http_proxy", &url), ("ALL_PROXY", &url), ("NO_PROXY", "")];
    // The scripted model is not asked, so that nothing else has a use for them.
    let server = home.start_in(&variables, &[]);
    let world = World { home, server };
    world.turn("acme", "stream 1");
    receiver.wait(1);
    assert_eq!(proxy.deliveries().len(), 0);
}

/// Of an answer that does not end, no more is read than is of use.
#[test]
fn an_endless_answer_is_cut() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sending = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read(&mut [0; 4096]).unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
        let chunk = [b"400\r\n".as_slice(), &[b'x'; 0x400], b"\r\n"].concat();
        let mut sent = 0_u64;
        while socket.write_all(&chunk).is_ok() {
            sent += 0x400;
        }
        sent
    });
    let world = World::start(&config(&["acme"], &hook("acme", &url, "allow_private = true\ntimeout = '1h'")));
    world.turn("acme", "stream 1");
    let sent = sending.join().unwrap();
    // What the buffers of the system hold, and a little.
    assert!(sent < 64 * 1024 * 1024, "{sent}");
    crate::suite::harness::eventually("it is counted", || (world.count("delivered_total") == 1).then_some(()));
}
