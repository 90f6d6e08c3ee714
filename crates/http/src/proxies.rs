//! Which proxies are believed, and what they are believed.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts, uri::Authority};
use ipnet::IpNet;

use crate::forwarded::{Hop, forwarded, host_name, is_https, x_forwarded_for};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Others that proxies send. Nobody reads them here, and nobody shall.
const UNUSED: [&str; 4] = ["x-forwarded-port", "x-forwarded-server", "x-forwarded-prefix", "x-real-ip"];
/// Longest headers of one kind that are read, all lines together.
const MAX_BYTES: usize = 4096;
/// Most proxies in a row.
const MAX_HOPS: usize = 32;
/// Stands for a host that a proxy did not name. It belongs to nobody, by RFC 2606.
const UNNAMED: HeaderValue = HeaderValue::from_static("forwarded.invalid");

/// Who sent a request, as far as it can be known. It is among the extensions of every request that came by the network.
///
/// Where the peer is one of the configured [`Proxies`], this is what it says; from anybody else, `Forwarded` and
/// `X-Forwarded-*` mean nothing. A handler never sees these headers themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// The client's address: behind proxies, the nearest one that is not a trusted proxy's.
    pub ip: IpAddr,
    /// Whether a trusted proxy stands between.
    pub forwarded: bool,
    /// Whether the client speaks https, to us or to the proxy.
    pub secure: bool,
    /// The host that the client called, if a trusted proxy says so; else it is in the header `Host`.
    pub host: Option<Authority>,
}

/// Which headers the proxies set. Others that come through them are their clients', who may write anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyHeaders {
    /// Either kind; where both are there, they count only as far as they agree.
    #[default]
    Either,
    /// `Forwarded` only.
    Forwarded,
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` only.
    XForwarded,
}

/// The proxies that are believed. None of them by default.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    trusted: Vec<IpNet>,
    headers: ProxyHeaders,
}

/// What the headers of one kind come to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    ip: IpAddr,
    secure: bool,
    host: Option<Authority>,
    /// Whether the walk to the client came to an end at a client, and not at words that are no address.
    complete: bool,
}

impl Proxies {
    /// Believes the peers of these networks, in these headers.
    pub fn new(trusted: Vec<IpNet>, headers: ProxyHeaders) -> Self {
        Self { trusted, headers }
    }

    fn trusts(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.trusted.iter().any(|network| network.contains(&ip))
    }

    /// Finds out who sent a request, takes the proxies' headers off it, and settles its `Host`.
    ///
    /// What a proxy says can take away, never give: a server without keys serves those on this machine only, which it
    /// sees by the `Host` that they call. If a proxy says that the client called another name, or is elsewhere, then a
    /// `Host` that names this machine is replaced: it is only how the proxy calls us. The other way round, no header
    /// makes a foreign `Host` one of this machine.
    pub(crate) fn admit(&self, peer: IpAddr, secure: bool, request: &mut Parts) -> ClientAddress {
        let peer = peer.to_canonical();
        let outcome = if self.trusts(peer) { self.outcome(peer, &request.headers) } else { None };
        strip(&mut request.headers);
        // HTTP/2 has the host in another place, which wins over the header.
        if request.version == http::Version::HTTP_2
            && let Some(host) = request.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok())
        {
            request.headers.insert(header::HOST, host);
        }
        let Some(Outcome { ip, secure, host, complete }) = outcome else {
            return ClientAddress { ip: peer, forwarded: false, secure, host: None };
        };
        let elsewhere = host.as_ref().filter(|host| !is_loopback(host.as_str()));
        if (!complete || !ip.is_loopback() || elsewhere.is_some()) && names_this_machine(&request.headers) {
            let named = elsewhere.and_then(|host| HeaderValue::from_str(host.as_str()).ok());
            request.headers.insert(header::HOST, named.unwrap_or(UNNAMED));
        }
        ClientAddress { ip, forwarded: true, secure, host }
    }

    /// `None` if no proxy said anything.
    fn outcome(&self, peer: IpAddr, headers: &HeaderMap) -> Option<Outcome> {
        let (standard, customary) = match self.headers {
            ProxyHeaders::Either => (true, true),
            ProxyHeaders::Forwarded => (true, false),
            ProxyHeaders::XForwarded => (false, true),
        };
        let standard = standard.then(|| self.standard(peer, headers)).flatten();
        let customary = customary.then(|| self.customary(peer, headers)).flatten();
        match (standard, customary) {
            (Some(one), Some(other)) => Some(Outcome {
                ip: if one.ip == other.ip { one.ip } else { peer },
                secure: one.secure && other.secure,
                complete: one.complete && other.complete && one.ip == other.ip,
                host: one.host.filter(|host| Some(host) == other.host.as_ref()),
            }),
            (one, other) => one.or(other),
        }
    }

    /// What `Forwarded` comes to: each proxy's element is believed if the proxy is.
    fn standard(&self, peer: IpAddr, headers: &HeaderMap) -> Option<Outcome> {
        if !headers.contains_key(header::FORWARDED) {
            return None;
        }
        let mut outcome = Outcome { ip: peer, secure: false, host: None, complete: false };
        let hops = text(headers, &header::FORWARDED).and_then(|line| forwarded(&line)).unwrap_or_default();
        for Hop { node, secure, host } in hops.into_iter().rev().take(MAX_HOPS) {
            if !self.trusts(outcome.ip) {
                break;
            }
            outcome.secure = secure.unwrap_or_default();
            outcome.host = host;
            outcome.complete = node.is_some();
            let Some(ip) = node else { break };
            outcome.ip = ip;
        }
        Some(outcome)
    }

    /// What `X-Forwarded-*` comes to: of the scheme and the host, what the nearest proxy said, which is the last.
    fn customary(&self, peer: IpAddr, headers: &HeaderMap) -> Option<Outcome> {
        if ![X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_HOST].iter().any(|name| headers.contains_key(name)) {
            return None;
        }
        let last = |name: HeaderName| text(headers, &name)?.rsplit(',').next().map(|item| item.trim().to_owned());
        let secure = last(X_FORWARDED_PROTO).and_then(|scheme| is_https(&scheme)).unwrap_or_default();
        let host = last(X_FORWARDED_HOST).and_then(|host| host_name(&host));
        let mut outcome = Outcome { ip: peer, secure, host, complete: false };
        let line = text(headers, &X_FORWARDED_FOR).unwrap_or_default();
        let nodes: Vec<_> = x_forwarded_for(&line).collect();
        for node in nodes.into_iter().rev().take(MAX_HOPS) {
            if !self.trusts(outcome.ip) {
                break;
            }
            outcome.complete = node.is_some();
            let Some(ip) = node else { break };
            outcome.ip = ip;
        }
        Some(outcome)
    }
}

/// All lines of a header in one; `None` if there is none, if they are too long or not text.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines = headers.get_all(name);
    if lines.iter().map(|line| line.len() + 1).sum::<usize>() > MAX_BYTES {
        return None;
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.to_str().ok()).collect::<Option<_>>()?;
    Some(lines.join(",")).filter(|text| !text.is_empty())
}

fn strip(headers: &mut HeaderMap) {
    headers.remove(header::FORWARDED);
    for name in [X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_HOST] {
        headers.remove(name);
    }
    for name in UNUSED {
        headers.remove(name);
    }
}

fn names_this_machine(headers: &HeaderMap) -> bool {
    // The first counts where there are several. One that is missing, or is no text, is taken for this machine's too.
    headers.get(header::HOST).is_none_or(|host| host.to_str().map_or(true, is_loopback))
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
