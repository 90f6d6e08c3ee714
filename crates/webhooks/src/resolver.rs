//! Finds out where a name leads, and refuses what is not on the internet. The addresses that it gives are those that are
//! connected to, so that a name cannot lead elsewhere afterwards.

use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::not_public;

/// Refuses addresses that are not on the internet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublicOnly;

/// A name that leads to no address that may be used.
#[derive(Debug, thiserror::Error)]
#[error("{name} leads to {address}, which is {what} and not on the internet; if you mean it, set allow_private = true")]
pub(crate) struct NotPublic {
    name: String,
    address: std::net::IpAddr,
    what: &'static str,
}

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let name = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
            Ok(public(name, found)?)
        })
    }
}

fn public(name: &str, found: Vec<SocketAddr>) -> Result<Addrs, NotPublic> {
    let refused = found.iter().find_map(|found| Some((found.ip(), not_public(found.ip())?)));
    let public: Vec<_> = found.into_iter().filter(|found| not_public(found.ip()).is_none()).collect();
    match (public.is_empty(), refused) {
        (true, Some((address, what))) => Err(NotPublic { name: name.to_owned(), address, what }),
        (_, _) => Ok(Box::new(public.into_iter())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_on_the_internet_is_left() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let left = |texts| public("a.example", addresses(texts)).map(Iterator::collect::<Vec<_>>);
        assert_eq!(left(&["1.1.1.1:0", "10.0.0.1:0", "[::1]:0"]).unwrap(), addresses(&["1.1.1.1:0"]));
        assert_eq!(left(&[]).unwrap(), []);
        assert_eq!(
            left(&["127.0.0.1:0", "[::1]:0"]).unwrap_err().to_string(),
            "a.example leads to 127.0.0.1, which is loopback and not on the internet; if you mean it, set allow_private = true"
        );
    }

    #[tokio::test]
    async fn localhost_is_refused() {
        let refused = PublicOnly.resolve("localhost".parse().unwrap()).await.err().unwrap();
        assert!(refused.to_string().contains("which is loopback"), "{refused}");
    }
}
