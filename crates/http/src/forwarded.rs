//! Reads what proxies say about those they speak for: `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Nothing here decides whether a proxy is believed.

use std::net::IpAddr;

use http::uri::Authority;

/// One element of a `Forwarded` header: what one proxy says of who called it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hop {
    /// Who called it; `None` if it does not say, or says it in words that are no address.
    pub(crate) node: Option<IpAddr>,
    /// Whether it was called by https.
    pub(crate) secure: Option<bool>,
    /// The name that it was called by.
    pub(crate) host: Option<Authority>,
}

/// The elements of one `Forwarded` header, the nearest proxy's last; `None` if it does not keep to the grammar.
pub(crate) fn forwarded(line: &str) -> Option<Vec<Hop>> {
    let mut scanner = Scanner { rest: line };
    let mut hops = Vec::new();
    loop {
        scanner.spaces();
        if scanner.take(',') {
            continue;
        }
        if scanner.rest.is_empty() {
            return Some(hops);
        }
        hops.push(element(&mut scanner)?);
        if !scanner.take(',') && !scanner.rest.is_empty() {
            return None;
        }
    }
}

fn element(scanner: &mut Scanner<'_>) -> Option<Hop> {
    let (mut node, mut proto, mut host) = (None, None, None);
    loop {
        scanner.spaces();
        if scanner.take(';') {
            continue;
        }
        if scanner.rest.is_empty() || scanner.rest.starts_with(',') {
            break;
        }
        let name = scanner.run(is_token);
        if name.is_empty() || !scanner.take('=') {
            return None;
        }
        let value = scanner.value()?;
        let place = match name {
            name if name.eq_ignore_ascii_case("for") => &mut node,
            name if name.eq_ignore_ascii_case("proto") => &mut proto,
            name if name.eq_ignore_ascii_case("host") => &mut host,
            // `by`, and what others have thought of.
            _ => &mut None,
        };
        if place.replace(value).is_some() {
            return None;
        }
        scanner.spaces();
        if !scanner.rest.is_empty() && !scanner.rest.starts_with([';', ',']) {
            return None;
        }
    }
    Some(Hop {
        node: node.and_then(|node| address(&node)),
        secure: proto.and_then(|proto| is_https(&proto)),
        host: host.and_then(|host| host_name(&host)),
    })
}

/// The addresses of `X-Forwarded-For`, the nearest proxy's last. What is no address is `None`.
pub(crate) fn x_forwarded_for(line: &str) -> impl Iterator<Item = Option<IpAddr>> {
    line.split(',').map(|item| address(item.trim()))
}

/// Whether a scheme is https; `None` for schemes that we do not have.
pub(crate) fn is_https(scheme: &str) -> Option<bool> {
    match scheme {
        scheme if scheme.eq_ignore_ascii_case("https") => Some(true),
        scheme if scheme.eq_ignore_ascii_case("http") => Some(false),
        _ => None,
    }
}

/// A host with or without a port.
pub(crate) fn host_name(text: &str) -> Option<Authority> {
    text.parse().ok().filter(|_| text.len() <= 255 && !text.contains('@'))
}

/// The address in `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]` and `[::1]:80`. Ports do not matter, and may be hidden.
fn address(text: &str) -> Option<IpAddr> {
    let (address, port) = match text.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => match text.split_once(':') {
            Some((v4, port)) if !port.contains(':') => (v4, &text[text.len() - port.len() - 1..]),
            Some(_) | None => (text, ""),
        },
    };
    let hidden = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let sound = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(port) => match port.strip_prefix('_') {
            Some(name) => !name.is_empty() && name.chars().all(hidden),
            None => (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit()),
        },
    };
    address.parse::<IpAddr>().ok().filter(|_| sound).map(|address| address.to_canonical())
}

struct Scanner<'t> {
    rest: &'t str,
}

impl<'t> Scanner<'t> {
    fn spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The longest run of such characters, which may be empty.
    fn run(&mut self, allowed: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !allowed(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at(end);
        self.rest = rest;
        run
    }

    fn value(&mut self) -> Option<String> {
        if !self.take('"') {
            // The grammar wants quotes around these three; not all proxies know.
            let value = self.run(|c| is_token(c) || matches!(c, ':' | '[' | ']'));
            return Some(value.to_owned()).filter(|value| !value.is_empty());
        }
        let mut value = String::new();
        let mut characters = self.rest.chars();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => value.push(characters.next()?),
                c => value.push(c),
            }
        }
        self.rest = characters.as_str();
        Some(value)
    }
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hop(node: Option<&str>, secure: Option<bool>, host: Option<&str>) -> Hop {
        Hop { node: node.map(|node| node.parse().unwrap()), secure, host: host.map(|host| host.parse().unwrap()) }
    }

    #[test]
    fn the_examples_of_the_standard() {
        let check = |line, expected: &[Hop]| assert_eq!(forwarded(line).as_deref(), Some(expected), "{line}");
        check(r#"for="_gazonk""#, &[hop(None, None, None)]);
        check(r#"For="[2001:db8:cafe::17]:4711""#, &[hop(Some("2001:db8:cafe::17"), None, None)]);
        check("for=192.0.2.60;proto=http;by=203.0.113.43", &[hop(Some("192.0.2.60"), Some(false), None)]);
        check(
            "for=192.0.2.43, for=198.51.100.17",
            &[hop(Some("192.0.2.43"), None, None), hop(Some("198.51.100.17"), None, None)],
        );
        check("for=_hidden, for=_SEVKISEK", &[hop(None, None, None), hop(None, None, None)]);
        check(
            r#"for=unknown ;host="a.example:8443"; Proto=HTTPS;ext=1"#,
            &[hop(None, Some(true), Some("a.example:8443"))],
        );
        check("", &[]);
        check(" , ,", &[]);
        check("for=1.2.3.4;;", &[hop(Some("1.2.3.4"), None, None)]);
        check("for=1.2.3.4:_port", &[hop(Some("1.2.3.4"), None, None)]);
        check(r#"for="::ffff:1.2.3.4""#, &[hop(Some("1.2.3.4"), None, None)]);
    }

    #[test]
    fn what_is_no_header_of_that_kind() {
        for line in [
            "1.2.3.4",
            "for",
            "for=",
            "=x",
            "for=1.2.3.4;for=5.6.7.8",
            "for=\"1.2.3.4",
            "for=\"1.2.3.4\\",
            "for=a b",
            "for = 1.2.3.4",
            "for=1.2.3.4 proto=http",
            "fo\u{e9}=1",
            "for=1.2.3.4;host=a;HOST=b",
            "for=\"a\"b",
        ] {
            assert_eq!(forwarded(line), None, "{line}");
        }
    }

    #[test]
    fn addresses() {
        for text in ["1.2.3.4", "1.2.3.4:80", "::ffff:1.2.3.4", "[::ffff:1.2.3.4]:1"] {
            assert_eq!(address(text), Some("1.2.3.4".parse().unwrap()), "{text}");
        }
        for text in ["::1", "[::1]", "[::1]:80", "[::1]:_a"] {
            assert_eq!(address(text), Some("::1".parse().unwrap()), "{text}");
        }
        for text in
            ["", "unknown", "_x", "1.2.3", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:123456", "[::1", "[::1]80", "::1%eth0"]
        {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn hosts_have_no_user() {
        assert!(host_name("a.example:1").is_some() && host_name("[::1]:8080").is_some());
        for text in ["", "user@a.example", "a b", "a/b", &"a".repeat(256)] {
            assert_eq!(host_name(text), None, "{text}");
        }
    }

    fn any_hop() -> impl Strategy<Value = Hop> {
        let host = prop_oneof![Just("a.example"), Just("b.example:8080"), Just("[::1]:1")];
        let host = prop::option::of(host.prop_map(|host| host.parse().unwrap()));
        (prop::option::of(any::<IpAddr>()), prop::option::of(any::<bool>()), host)
            .prop_map(|(node, secure, host)| Hop { node: node.map(|node| node.to_canonical()), secure, host })
    }

    /// A hop as a proxy would write it, with escapes that it need not use.
    fn written(hop: &Hop, escape: bool) -> String {
        let quoted = |text: &str| {
            let escaped = text.chars().map(|c| if escape { format!("\\{c}") } else { c.to_string() });
            format!("\"{}\"", escaped.collect::<String>())
        };
        let node = match hop.node {
            Some(IpAddr::V4(v4)) => v4.to_string(),
            Some(IpAddr::V6(v6)) => quoted(&format!("[{v6}]:99")),
            None => "unknown".to_owned(),
        };
        let mut text = format!("fOr={node}");
        text += match hop.secure {
            Some(true) => ";proto=https",
            Some(false) => " ; proto=http",
            None => "",
        };
        if let Some(host) = &hop.host {
            text += &format!(";host={}", quoted(host.as_str()));
        }
        text
    }

    proptest! {
        #[test]
        fn lines_of_any_kind_never_panic(line in "\\PC{0,80}", listed in r#"[for=;:," \\\[\]0-9a-f.]{0,80}"#) {
            for line in [&line, &listed] {
                let _ = (forwarded(line), x_forwarded_for(line).count(), host_name(line), is_https(line));
            }
        }

        #[test]
        fn what_is_written_is_read(hops in prop::collection::vec((any_hop(), any::<bool>()), 0..6)) {
            let line: Vec<_> = hops.iter().map(|(hop, escape)| written(hop, *escape)).collect();
            let hops: Vec<_> = hops.into_iter().map(|(hop, _)| hop).collect();
            prop_assert_eq!(forwarded(&line.join(" ,\t")), Some(hops));
        }
    }
}
