//! The proxies that are believed.

use std::net::IpAddr;

use everturn_http::{Proxies, ProxyHeaders};
use ipnet::IpNet;

use super::{
    choice::{Choice, choose},
    file,
    problem::Report,
};

impl Choice for ProxyHeaders {
    const WHAT: &'static str = "kind of headers";
    const WORDS: &'static [(&'static str, Self)] =
        &[("either", Self::Either), ("forwarded", Self::Forwarded), ("x-forwarded", Self::XForwarded)];
}

/// The proxies that hold up.
pub(super) fn check(report: &mut Report<'_>, file: &file::Proxy) -> Proxies {
    let mut trusted = Vec::with_capacity(file.trusted.len());
    for text in &file.trusted {
        let written = text.get_ref();
        let network = written.parse::<IpNet>().ok();
        let network = network.or_else(|| written.parse::<IpAddr>().ok().map(IpNet::from));
        if network.is_none() {
            let hint =
                "write an address or a network, such as \"127.0.0.1\", \"10.0.0.0/8\" or \"fd00::/8\"".to_owned();
            report.add(Some(text.span()), format!("`{written}` is neither an address nor a network"), hint);
        }
        trusted.extend(network);
    }
    let headers = file.headers.as_ref();
    let headers = headers.and_then(|word| choose(report, Some(word.span()), word.get_ref())).unwrap_or_default();
    Proxies::new(trusted, headers)
}
