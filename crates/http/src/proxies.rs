//! Which proxies are believed, and what they are believed.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, header, request::Parts, uri::Authority};
use ipnet::IpNet;

use crate::{
    forwarded::{Hop, forwarded, host_name, is_https, x_forwarded_for},
    host::{UNNAMED, is_loopback, names_this_machine},
};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Others that proxies send. Nobody reads them here, and nobody shall.
const UNUSED: [&str; 4] = ["x-forwarded-port", "x-forwarded-server", "x-forwarded-prefix", "x-real-ip"];
/// Longest headers of one kind that are read, all lines together.
const MAX_BYTES: usize = 4096;
/// Most proxies in a row.
const MAX_HOPS: usize = 32;

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
    /// Whether every proxy says that it was called from this machine, by one of its names.
    here: bool,
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

    /// Finds out who sent a request whose `Host` is settled, takes the proxies' headers off it, and takes its `Host` away
    /// if that is only how a proxy calls us.
    ///
    /// What a proxy says can take away, never give: a server without keys serves those on this machine only, which it
    /// sees by the `Host` that they call. Through a trusted proxy, a `Host` that names this machine counts only if
    /// everything that is said by it, and by those before it, is that somebody on this machine called it by such a name.
    /// The other way round, no header makes a foreign `Host` one of this machine.
    pub(crate) fn admit(&self, peer: IpAddr, secure: bool, request: &mut Parts) -> ClientAddress {
        let peer = peer.to_canonical();
        let trusted = self.trusts(peer);
        let outcome = if trusted { self.outcome(peer, &request.headers) } else { None };
        strip(&mut request.headers);
        let here = outcome.as_ref().map_or(!trusted, |outcome| outcome.here && peer.is_loopback());
        if !here && names_this_machine(&request.headers) {
            request.headers.insert(header::HOST, UNNAMED);
        }
        match outcome {
            Some(Outcome { ip, secure, host, here: _ }) => ClientAddress { ip, forwarded: true, secure, host },
            None => ClientAddress { ip: peer, forwarded: false, secure, host: None },
        }
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
                here: one.here && other.here && one.ip == other.ip,
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
        let hops = text(headers, &header::FORWARDED).and_then(|line| forwarded(&line)).unwrap_or_default();
        let here = !hops.is_empty() && hops.iter().all(|hop| is_here(hop.node) && is_ours(hop.host.as_ref()));
        let mut outcome = Outcome { ip: peer, secure: false, host: None, here };
        for Hop { node, secure, host } in hops.into_iter().rev().take(MAX_HOPS) {
            if !self.trusts(outcome.ip) {
                break;
            }
            outcome.secure = secure.unwrap_or_default();
            outcome.host = host;
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
        let line = |name: HeaderName| text(headers, &name).unwrap_or_default();
        let (schemes, hosts, nodes) = (line(X_FORWARDED_PROTO), line(X_FORWARDED_HOST), line(X_FORWARDED_FOR));
        let secure = schemes.rsplit(',').next().and_then(|scheme| is_https(scheme.trim())).unwrap_or_default();
        let hosts: Vec<_> = hosts.split(',').map(|host| host_name(host.trim())).collect();
        let nodes: Vec<_> = x_forwarded_for(&nodes).collect();
        // Where there is none, there is one that is nothing.
        let here = nodes.iter().all(|node| is_here(*node)) && hosts.iter().all(|host| is_ours(host.as_ref()));
        let mut outcome = Outcome { ip: peer, secure, host: hosts.into_iter().next_back().flatten(), here };
        for node in nodes.into_iter().rev().take(MAX_HOPS) {
            if !self.trusts(outcome.ip) {
                break;
            }
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

fn is_here(node: Option<IpAddr>) -> bool {
    node.is_some_and(|ip| ip.is_loopback())
}

fn is_ours(host: Option<&Authority>) -> bool {
    host.is_some_and(|host| is_loopback(host.as_str()))
}

#[cfg(test)]
mod tests;
