//! Tells other servers what became of turns: by HTTP, signed, in order within a session, again and again until they have
//! taken it or too much time has passed.
//!
//! The engine keeps a notice with the events that it tells of ([`everturn_engine::Notices`]); what is kept is delivered at
//! least once, whatever happens to this process. A message has ids and no content: who wants to know more asks for it
//! with a key. It is signed as [Standard Webhooks](https://www.standardwebhooks.com) says.
//!
//! Receivers are named by configuration, but where a name leads is somebody else's business: unless a hook says otherwise,
//! nothing is sent to addresses that are not on the internet.

mod address;
mod backoff;
mod hook;
mod intake;
mod lane;
mod message;
mod metrics;
mod post;
mod resolver;
mod secret;
mod service;
mod settle;

pub use address::not_public;
pub use hook::{Hook, Receiver, ReceiverError};
pub use metrics::Metrics;
pub use secret::{SecretError, SigningSecret};
pub use service::{Parts, Webhooks};
