//! A hook: who is told what of which tenant's turns.

use std::{collections::BTreeSet, fmt, net::IpAddr, time::Duration};

use everturn_core::TenantId;
use everturn_engine::NoticeKind;
use reqwest::Url;

use crate::{address::not_public, secret::SigningSecret};

/// Longest address of a receiver.
const MAX_URL: usize = 2048;

/// A hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Whose turns.
    pub tenant: TenantId,
    /// Who is told.
    pub receiver: Receiver,
    /// What messages are signed with.
    pub secret: SigningSecret,
    /// What is told.
    pub events: BTreeSet<NoticeKind>,
    /// How long a delivery may take.
    pub timeout: Duration,
    /// How long a message is tried again, from when it happened.
    pub retry_for: Duration,
}

impl Hook {
    /// How long a delivery may take, unless configured.
    pub const TIMEOUT: Duration = Duration::from_secs(15);
    /// How long a message is tried again, unless configured.
    pub const RETRY_FOR: Duration = Duration::from_secs(24 * 60 * 60);
}

/// Where messages go. Printing it shows the host and no more: the rest may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Receiver {
    pub(crate) url: Url,
    pub(crate) allow_private: bool,
}

/// Why a text cannot be a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiverError {
    /// It is no URL.
    #[error("the URL of the receiver cannot be read; write one such as https://example.org/hooks")]
    NotUrl,
    /// It is too long.
    #[error("the URL of the receiver is longer than {MAX_URL} bytes")]
    Long,
    /// It is one of another kind.
    #[error("the URL of the receiver must begin with https:// or http://")]
    Scheme,
    /// It has a user or a password.
    #[error("the URL of the receiver has a user or a password in it; messages are signed, and need neither")]
    User,
    /// It leads to an address that is not on the internet.
    #[error("the address {address} is {what}, and not one of the internet; if you mean it, set allow_private = true")]
    Private {
        /// The address.
        address: IpAddr,
        /// What it is.
        what: &'static str,
    },
}

impl Receiver {
    /// The receiver at this address. Where a name leads is found out when messages are sent.
    pub fn parse(text: &str, allow_private: bool) -> Result<Self, ReceiverError> {
        if text.len() > MAX_URL {
            return Err(ReceiverError::Long);
        }
        let mut url = Url::parse(text).map_err(|_| ReceiverError::NotUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ReceiverError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ReceiverError::User);
        }
        let host = url.host_str().ok_or(ReceiverError::NotUrl)?;
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        if let Some(address) = literal.filter(|_| !allow_private)
            && let Some(what) = not_public(address)
        {
            return Err(ReceiverError::Private { address, what });
        }
        url.set_fragment(None);
        Ok(Self { url, allow_private })
    }

    /// The host, with the port if it is not the usual one.
    pub fn host(&self) -> String {
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}{port}", self.url.host_str().unwrap_or_default())
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allow_private = self.allow_private;
        f.debug_struct("Receiver").field("host", &self.host()).field("allow_private", &allow_private).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers() {
        let host = |text| Receiver::parse(text, false).map(|receiver| receiver.host());
        assert_eq!(host("https://example.org/hook?token=abc#x").as_deref(), Ok("example.org"));
        assert_eq!(host("http://example.org:8080").as_deref(), Ok("example.org:8080"));
        assert_eq!(host("https://[2606:4700::1111]/").as_deref(), Ok("[2606:4700::1111]"));
        assert_eq!(host("example.org"), Err(ReceiverError::NotUrl));
        assert_eq!(host("https://"), Err(ReceiverError::NotUrl));
        assert_eq!(host("ftp://example.org"), Err(ReceiverError::Scheme));
        assert_eq!(host("file:///etc/passwd"), Err(ReceiverError::Scheme));
        assert_eq!(host("https://me@example.org"), Err(ReceiverError::User));
        assert_eq!(host("https://me:secret@example.org"), Err(ReceiverError::User));
        assert_eq!(host(&format!("https://example.org/{}", "x".repeat(3000))), Err(ReceiverError::Long));
        let shown = format!("{:?}", Receiver::parse("https://example.org/token", false).unwrap());
        assert_eq!(shown, r#"Receiver { host: "example.org", allow_private: false }"#);
    }

    /// However the address is written.
    #[test]
    fn addresses_that_are_not_of_the_internet() {
        for text in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0x7f000001/",
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://127.0.0.1./",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://169.254.169.254/",
            "http://0/",
            "http://①②⑦.0.0.1/",
        ] {
            let refused = Receiver::parse(text, false);
            assert!(matches!(refused, Err(ReceiverError::Private { .. })), "{text}: {refused:?}");
            assert!(Receiver::parse(text, true).is_ok(), "{text}");
        }
    }
}
