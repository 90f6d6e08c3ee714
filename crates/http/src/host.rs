//! Which host a request calls.
//!
//! A server without keys serves those who call this machine by one of its own names. A page on the web can have its own
//! name resolve to this machine; the browser then sends that name, in one of the places where a request has it.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderMap, HeaderValue, StatusCode, Version, header, request::Parts, uri::Authority};

use crate::{Keys, problem};

/// Stands for a host that nobody named. It belongs to nobody, by RFC 2606.
pub(crate) const UNNAMED: HeaderValue = HeaderValue::from_static("unnamed.invalid");

/// Why it cannot be told which host a request calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HostError {
    /// More than one header.
    #[error("the request has {0} Host headers; send one")]
    Several(usize),
    /// None, where one must be.
    #[error("the request has no Host header, which HTTP/1.1 wants; send one")]
    Missing,
    /// Something else in it.
    #[error("the Host header has no host in it; send a name or an address, with or without a port")]
    Malformed,
    /// Somebody before the host, which makes it look like another one.
    #[error("the address that the request is for has a user in it; send a host, with or without a port")]
    User,
}

/// Leaves a request with one `Host`, which is the host that it calls: that of its target, if that has one, else that of
/// its header. Where both are there and one of them is not a name of this machine, that one is left.
pub(crate) fn settle(request: &mut Parts) -> Result<(), HostError> {
    let lines = request.headers.get_all(header::HOST).iter().count();
    match request.headers.get(header::HOST) {
        Some(_) if lines > 1 => return Err(HostError::Several(lines)),
        Some(host) if !is_host(host) => return Err(HostError::Malformed),
        None if request.version == Version::HTTP_11 => return Err(HostError::Missing),
        Some(_) | None => {}
    }
    // HTTP/2 has it in the target as a rule, and HTTP/1 may.
    if let Some(target) = request.uri.authority().map(Authority::as_str) {
        if target.contains('@') {
            return Err(HostError::User);
        }
        if names_this_machine(&request.headers) || !is_loopback(target) {
            let host = HeaderValue::from_str(target).map_err(|_| HostError::Malformed)?;
            request.headers.insert(header::HOST, host);
        }
    }
    request.headers.entry(header::HOST).or_insert(UNNAMED);
    Ok(())
}

/// Refuses requests for a foreign host where callers need no key, for routes that are open to everybody. The others find out
/// together with who calls.
pub async fn own_host(State(keys): State<Arc<Keys>>, request: Request, next: Next) -> Response {
    match keys.check_host(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => problem(StatusCode::FORBIDDEN, "HOST_REFUSED", &refused.to_string()),
    }
}

/// Nothing is a host, too: that of a target that has none.
fn is_host(value: &HeaderValue) -> bool {
    let text = value.to_str().ok();
    text.is_some_and(|text| text.is_empty() || text.parse::<Authority>().is_ok() && !text.contains('@'))
}

/// Whether these headers call this machine by one of its own names. Those without a `Host` do not come by the network.
pub(crate) fn names_this_machine(headers: &HeaderMap) -> bool {
    headers.get_all(header::HOST).iter().all(|host| host.to_str().is_ok_and(is_loopback))
}

/// Whether a host, with or without a port, is a name of this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or((rest, "]")),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let ends = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    let is_ours = |address: IpAddr| address.to_canonical().is_loopback();
    ends && (name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_ours))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    /// The host that is left of a request to this target with these headers.
    fn settled(version: Version, target: &str, hosts: &[&str]) -> Result<String, HostError> {
        let request = Request::get(target).version(version);
        let request = hosts.iter().fold(request, |request, host| request.header(header::HOST, *host));
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        settle(&mut parts)?;
        let left: Vec<_> = parts.headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap()).collect();
        Ok(left.join(" "))
    }

    #[track_caller]
    fn leaves(version: Version, target: &str, hosts: &[&str], expected: &str) {
        assert_eq!(settled(version, target, hosts).as_deref(), Ok(expected));
    }

    #[test]
    fn one_host_is_called() {
        let refused = |hosts: &[&str]| settled(Version::HTTP_11, "/", hosts).unwrap_err();
        assert_eq!(refused(&["localhost", "evil.example"]), HostError::Several(2));
        assert_eq!(refused(&["a", "a", "a"]), HostError::Several(3));
        assert_eq!(refused(&[]), HostError::Missing);
        for host in
            ["localhost, evil.example", "localhost@evil.example", "localhost:80@evil.example", "a b", "a/b", "é"]
        {
            assert_eq!(refused(&[host]), HostError::Malformed, "{host}");
        }
        leaves(Version::HTTP_11, "/", &["a.example:80"], "a.example:80");
        leaves(Version::HTTP_11, "/", &[""], "");
        // The old version need not have one. Whoever does not say, called nobody's name.
        leaves(Version::HTTP_10, "/", &[], "unnamed.invalid");
        leaves(Version::HTTP_2, "/", &[], "unnamed.invalid");
    }

    #[test]
    fn the_target_wins_but_does_not_make_a_foreign_name_ours() {
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            leaves(version, "http://evil.example:8080/", &["localhost"], "evil.example:8080");
            leaves(version, "http://localhost:8080/", &["evil.example"], "evil.example");
            leaves(version, "http://localhost:8080/", &["127.0.0.1"], "localhost:8080");
            leaves(version, "http://a.example/", &["b.example"], "a.example");
            for target in ["http://localhost@evil.example/", "http://localhost:80@evil.example/", "http://a@localhost/"]
            {
                assert_eq!(settled(version, target, &["localhost"]), Err(HostError::User), "{target}");
            }
        }
        leaves(Version::HTTP_2, "http://localhost/", &[], "localhost");
        assert_eq!(settled(Version::HTTP_11, "http://localhost/", &[]), Err(HostError::Missing));
    }

    #[test]
    fn names_of_this_machine() {
        let ours = ["localhost", "LocalHost:80", "localhost:", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:8080"];
        for host in ours {
            assert!(is_loopback(host), "{host}");
        }
        let others = [
            "",
            "localhost.",
            "localhost.evil.example",
            "localhost:80@evil.example",
            "localhost:evil",
            "[::1",
            "[::1]evil.example",
            "[::1]:80@evil.example",
            "::1",
            "127.1",
            "0.0.0.0",
            "10.0.0.1",
        ];
        for host in others {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
