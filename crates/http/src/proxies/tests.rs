use http::Request;
use proptest::prelude::*;

use super::*;

fn proxies(headers: ProxyHeaders) -> Proxies {
    let trusted = ["10.0.0.0/8", "127.0.0.1/32", "fd00::/8"].map(|network| network.parse().unwrap());
    Proxies::new(trusted.into(), headers)
}

/// Who sent a request, and the `Host` that is left of it.
fn admit(headers: ProxyHeaders, peer: &str, lines: &[(&str, &str)]) -> (ClientAddress, String) {
    let mut request = Request::builder().uri("/");
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    let client = proxies(headers).admit(peer.parse().unwrap(), false, &mut parts);
    let kept: Vec<_> = parts.headers.keys().filter(|name| **name != header::HOST).collect();
    assert!(kept.is_empty(), "{kept:?}");
    let host = parts.headers.get(header::HOST).map_or("", |host| host.to_str().unwrap());
    (client, host.to_owned())
}

#[track_caller]
fn check(peer: &str, lines: &[(&str, &str)], expected: &str) {
    let (client, host) = admit(ProxyHeaders::Either, peer, lines);
    let scheme = if client.secure { "https" } else { "http" };
    let called = client.host.as_ref().map_or("-", Authority::as_str);
    let way = if client.forwarded { "forwarded" } else { "direct" };
    assert_eq!(format!("{way} {} {scheme} {called} Host: {host}", client.ip), expected, "{lines:?}");
}

#[test]
fn others_are_not_believed() {
    let lines = [
        ("host", "everturn.example"),
        ("forwarded", "for=1.2.3.4;proto=https;host=localhost"),
        ("x-forwarded-for", "1.2.3.4"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "localhost"),
        ("x-forwarded-port", "1"),
        ("x-real-ip", "1.2.3.4"),
    ];
    check("192.0.2.1", &lines, "direct 192.0.2.1 http - Host: everturn.example");
}

#[test]
fn a_trusted_proxy_is() {
    let host = ("host", "backend.internal");
    check("10.1.1.1", &[host], "direct 10.1.1.1 http - Host: backend.internal");
    check(
        "10.1.1.1",
        &[host, ("forwarded", "for=1.2.3.4;proto=https;host=a.example")],
        "forwarded 1.2.3.4 https a.example Host: backend.internal",
    );
    check(
        "::ffff:10.1.1.1",
        &[host, ("x-forwarded-for", "1.2.3.4"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "a.example")],
        "forwarded 1.2.3.4 https a.example Host: backend.internal",
    );
    check("fd00::1", &[("x-forwarded-for", "2001:db8::1")], "forwarded 2001:db8::1 http - Host: unnamed.invalid");
}

#[test]
fn of_a_chain_the_nearest_that_is_not_trusted() {
    check(
        "10.1.1.1",
        &[("x-forwarded-for", "6.6.6.6, 1.2.3.4, 10.2.2.2")],
        "forwarded 1.2.3.4 http - Host: unnamed.invalid",
    );
    check(
        "10.1.1.1",
        &[("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "1.2.3.4")],
        "forwarded 1.2.3.4 http - Host: unnamed.invalid",
    );
    check("10.1.1.1", &[("x-forwarded-for", "10.3.3.3, 10.2.2.2")], "forwarded 10.3.3.3 http - Host: unnamed.invalid");
    check(
        "10.1.1.1",
        &[("forwarded", "for=6.6.6.6;host=evil, for=1.2.3.4;proto=https;host=a, for=10.2.2.2;proto=http;host=b")],
        "forwarded 1.2.3.4 https a Host: unnamed.invalid",
    );
    // Whoever hides its client is the last that is known.
    check(
        "10.1.1.1",
        &[("x-forwarded-for", "6.6.6.6, unknown, 10.2.2.2")],
        "forwarded 10.2.2.2 http - Host: unnamed.invalid",
    );
    check("10.1.1.1", &[("forwarded", "for=_a, for=10.2.2.2")], "forwarded 10.2.2.2 http - Host: unnamed.invalid");
}

#[test]
fn what_cannot_be_read_says_nothing() {
    let long = format!("for=1.2.3.4, {}", "x".repeat(MAX_BYTES));
    for line in ["rubbish", "for=\"1.2.3.4", &long] {
        check("10.1.1.1", &[("forwarded", line), ("host", "b")], "forwarded 10.1.1.1 http - Host: b");
    }
    check("10.1.1.1", &[("x-forwarded-for", &long), ("host", "b")], "forwarded 10.1.1.1 http - Host: b");
    check("10.1.1.1", &[("x-forwarded-host", "u@h"), ("host", "b")], "forwarded 10.1.1.1 http - Host: b");
    let many = vec!["10.2.2.2"; MAX_HOPS + 5].join(",");
    check("10.1.1.1", &[("x-forwarded-for", &many), ("host", "b")], "forwarded 10.2.2.2 http - Host: b");
}

#[test]
fn of_two_kinds_what_they_agree_on() {
    let forwarded = ("forwarded", "for=1.2.3.4;proto=https;host=a");
    let host = ("host", "b");
    check("10.1.1.1", &[forwarded, ("x-forwarded-for", "6.6.6.6"), host], "forwarded 10.1.1.1 http - Host: b");
    check("10.1.1.1", &[forwarded, ("x-forwarded-for", "1.2.3.4"), host], "forwarded 1.2.3.4 http - Host: b");
    check(
        "10.1.1.1",
        &[forwarded, ("x-forwarded-for", "1.2.3.4"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "a"), host],
        "forwarded 1.2.3.4 https a Host: b",
    );
    let lines = [forwarded, ("x-forwarded-for", "6.6.6.6"), host];
    assert_eq!(admit(ProxyHeaders::Forwarded, "10.1.1.1", &lines).0.ip.to_string(), "1.2.3.4");
    assert_eq!(admit(ProxyHeaders::XForwarded, "10.1.1.1", &lines).0.ip.to_string(), "6.6.6.6");
}

/// Without keys, a server takes callers of `localhost` for people on this machine. A proxy on it calls it so, too.
#[test]
fn a_proxy_opens_nothing() {
    let here = ("host", "127.0.0.1:8080");
    let both = |lines: &[(&str, &str)], expected| {
        for headers in [ProxyHeaders::Either, ProxyHeaders::Forwarded, ProxyHeaders::XForwarded] {
            assert_eq!(admit(headers, "127.0.0.1", lines).1, expected, "{headers:?} {lines:?}");
        }
    };
    let check = |lines: &[(&str, &str)], expected| {
        assert_eq!(admit(ProxyHeaders::Either, "127.0.0.1", lines).1, expected, "{lines:?}");
    };
    let (client, local) = (("x-forwarded-for", "127.0.0.1"), ("x-forwarded-host", "localhost"));
    // What the web sends through it is not of this machine.
    for lines in [
        &[("x-forwarded-for", "1.2.3.4")][..],
        &[("x-forwarded-for", "1.2.3.4"), local],
        &[("x-forwarded-for", "1.2.3.4, 127.0.0.1"), local],
        &[client, ("x-forwarded-host", "evil.example")],
        &[client, ("x-forwarded-host", "localhost:80@evil.example")],
        &[("forwarded", "for=127.0.0.1;host=evil.example")],
        &[("x-forwarded-host", "evil.example")],
        &[("forwarded", "for=unknown;host=localhost")],
        // Who does not say, or not in words that can be read.
        &[],
        &[client],
        &[local],
        &[client, ("x-forwarded-host", "")],
        &[("x-forwarded-for", ""), local],
        &[("x-forwarded-proto", "https")],
        &[("forwarded", "")],
        &[("forwarded", "for=127.0.0.1")],
        &[("forwarded", "host=localhost")],
        &[("forwarded", "for=unknown")],
        &[("forwarded", "rubbish")],
        // One of a chain is enough.
        &[("x-forwarded-for", "127.0.0.1, 127.0.0.1"), ("x-forwarded-host", "evil.example, localhost")],
        &[client, ("x-forwarded-host", "evil.example"), local],
        &[client, ("x-forwarded-host", "localhost, evil.example")],
        &[("forwarded", "for=127.0.0.1;host=evil.example, for=127.0.0.1;host=localhost")],
        &[("forwarded", "for=127.0.0.1;host=localhost, for=127.0.0.1")],
        // On another machine, a client of the proxy there is not here.
        &[("x-forwarded-for", "127.0.0.1, 10.2.2.2"), local],
        &[("forwarded", "for=127.0.0.1;host=localhost, for=10.2.2.2;host=localhost")],
    ] {
        both(&[&[here], lines].concat(), "unnamed.invalid");
        both(&[&[("host", "evil.example")], lines].concat(), "evil.example");
    }
    check(&[("x-forwarded-for", "1.2.3.4")], "unnamed.invalid");
    // Of two kinds, both have to say it: one of them may be the client's.
    let forwarded = ("forwarded", "for=127.0.0.1;host=localhost");
    check(&[here, forwarded, client, ("x-forwarded-host", "evil.example")], "unnamed.invalid");
    check(&[here, forwarded, client], "unnamed.invalid");
    check(&[here, ("forwarded", "for=127.0.0.1;host=evil.example"), client, local], "unnamed.invalid");
    check(&[here, ("forwarded", "for=127.0.0.1"), client, local], "unnamed.invalid");
    // A foreign name stays one.
    both(&[("host", "evil.example"), forwarded, client, local], "evil.example");
    // Only people on this machine, through proxies on this machine.
    both(&[here, forwarded, client, local], "127.0.0.1:8080");
    check(&[here, client, ("x-forwarded-host", "localhost, 127.0.0.1:8080")], "127.0.0.1:8080");
    check(&[here, ("forwarded", "for=\"[::1]\";host=\"localhost:3000\"")], "127.0.0.1:8080");
    assert_eq!(admit(ProxyHeaders::Either, "10.1.1.1", &[here, forwarded]).1, "unnamed.invalid");
    // Who is no proxy calls what it calls.
    assert_eq!(admit(ProxyHeaders::Either, "::1", &[here]).1, "127.0.0.1:8080");
}

proptest! {
    /// Whatever a client writes before it, what the trusted proxy adds is what counts.
    #[test]
    fn a_client_cannot_choose_its_address(lies in "[ -~]{0,60}", hops in prop::collection::vec(any::<IpAddr>(), 0..4)) {
        let lies = hops.iter().fold(lies, |lies, hop| format!("{lies}, {hop}"));
        let line = format!("{lies}, 1.2.3.4, 10.9.9.9");
        let (client, _) = admit(ProxyHeaders::XForwarded, "10.1.1.1", &[("x-forwarded-for", &line)]);
        prop_assert_eq!(client.ip.to_string(), "1.2.3.4");
        // By the standard, lies can spoil the line, and then nothing of it counts.
        let line = format!("{lies}, for=1.2.3.4, for=10.9.9.9");
        let (client, _) = admit(ProxyHeaders::Forwarded, "10.1.1.1", &[("forwarded", &line)]);
        prop_assert!(["1.2.3.4", "10.1.1.1"].contains(&client.ip.to_string().as_str()), "{:?}", client);
    }

    /// Headers of any kind: no panic, and no way for a foreign host to become this machine's.
    #[test]
    fn a_foreign_host_stays_foreign(
        forwarded in prop::option::of(r#"[ -~]{0,40}|for=127\.0\.0\.1;host=localhost"#),
        for_ in prop::option::of(r"[ -~]{0,40}|127\.0\.0\.1"),
        host in prop::option::of("[ -~]{0,20}|localhost"),
    ) {
        let named = [("forwarded", forwarded), ("x-forwarded-for", for_), ("x-forwarded-host", host)];
        let mut lines: Vec<_> = named.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
        lines.push(("host", "evil.example"));
        prop_assert_eq!(admit(ProxyHeaders::Either, "127.0.0.1", &lines).1, "evil.example");
    }
}
