//! `everturn keys`: makes, lists and revokes keys, whether or not the server runs.
//!
//! A running server has its database to itself. It keeps a door beside it ([`door`]), which only the same user can open;
//! the commands go there, and to the database itself when no server runs.

mod door;
mod reach;
mod show;
mod talk;

use std::{num::NonZeroU32, num::NonZeroU64, path::PathBuf, time::Duration};

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use everturn_core::{Quota, TenantId, Timestamp};
use everturn_http::{KeyInfo, NewKey, Scope};

use self::talk::{Answer, Request};
pub(crate) use self::{door::Door, reach::Reach, show::bounds};
use crate::config::{duration, moment};

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key; its secret is shown this once
    ///
    /// The first key closes a server that was open to everybody on this machine. Hints go to stderr.
    Create {
        #[command(flatten)]
        common: Common,
        /// On whose behalf its holder acts
        #[arg(long, default_value = "local")]
        tenant: TenantId,
        /// Its name, to know it by
        #[arg(long, default_value = "unnamed")]
        name: String,
        /// What it allows: read, chat or admin; may be given more than once [default: chat, read]
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<Scope>,
        /// When it ends: after a time such as 12h or 30d, or at one such as 2027-01-31 [default: never]
        #[arg(long, value_name = "WHEN", value_parser = expiry)]
        expires: Option<Timestamp>,
        /// How many requests it may make in a second
        #[arg(long, value_name = "NUMBER")]
        requests_per_second: Option<NonZeroU32>,
        /// How many turns it may have running at once
        #[arg(long, value_name = "NUMBER")]
        concurrent_turns: Option<NonZeroU32>,
        /// How many tokens it may use in a day, UTC
        #[arg(long, value_name = "NUMBER")]
        tokens_per_day: Option<NonZeroU64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Print the secret and nothing else
        #[arg(long, short, conflicts_with = "json")]
        quiet: bool,
    },
    /// List keys: those that are not revoked first
    List {
        #[command(flatten)]
        common: Common,
        /// Only those of this tenant
        #[arg(long)]
        tenant: Option<TenantId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key, from now on and for good
    Revoke {
        #[command(flatten)]
        common: Common,
        /// The key's id, as `everturn keys list` shows it
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Configuration file [default: ./everturn.toml, if it exists]
    #[arg(long, short, value_name = "FILE", env = "EVERTURN_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Where the server keeps its data [default: sqlite:everturn-data/everturn.db]
    #[arg(long, value_name = "STORE", env = "EVERTURN_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,
}

impl KeysCommand {
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::Create { common, .. } | Self::List { common, .. } | Self::Revoke { common, .. } => common,
        }
    }

    /// Does it, on the store that is there.
    pub(crate) async fn run(self, mut reach: Reach) -> anyhow::Result<()> {
        let done = self.over(&mut reach).await;
        reach.close().await;
        done
    }

    async fn over(self, reach: &mut Reach) -> anyhow::Result<()> {
        match self {
            Self::Create {
                tenant,
                name,
                mut scopes,
                expires,
                requests_per_second,
                concurrent_turns,
                tokens_per_day,
                json,
                quiet,
                common: _,
            } => {
                if scopes.is_empty() {
                    scopes = vec![Scope::Read, Scope::Chat];
                }
                let quota = Quota { requests_per_second, concurrent_turns, tokens_per_day, ..Quota::default() };
                let key = NewKey { name, scopes, expires_at: expires, quota };
                match reach.ask(Request::Create { tenant, key }).await? {
                    Answer::Created { key, secret, first } => {
                        show::created(&key, &secret, first, show::Form::new(json, quiet));
                        Ok(())
                    }
                    other => Err(other.unexpected()),
                }
            }
            Self::List { tenant, json, common: _ } => {
                let keys = list(reach, tenant).await?;
                show::list(&keys, json);
                Ok(())
            }
            Self::Revoke { id, common: _ } => match reach.ask(Request::Revoke { id }).await? {
                Answer::Revoked { key } => {
                    show::revoked(&key);
                    Ok(())
                }
                other => Err(other.unexpected()),
            },
        }
    }
}

/// All keys, page by page.
async fn list(reach: &mut Reach, tenant: Option<TenantId>) -> anyhow::Result<Vec<KeyInfo>> {
    let tenants = match tenant {
        Some(tenant) => vec![tenant],
        None => match reach.ask(Request::Tenants).await? {
            Answer::Tenants { tenants } => tenants,
            other => return Err(other.unexpected()),
        },
    };
    let mut keys: Vec<KeyInfo> = Vec::new();
    for tenant in tenants {
        let mut after = None;
        loop {
            match reach.ask(Request::List { tenant: tenant.clone(), after }).await? {
                Answer::Listed { keys: page } => {
                    let Some(last) = page.last() else { break };
                    after = Some(last.place);
                    keys.extend(page);
                }
                other => return Err(other.unexpected()),
            }
        }
    }
    Ok(keys)
}

impl Answer {
    fn unexpected(self) -> anyhow::Error {
        match self {
            Self::Failed { message } => anyhow!(message),
            _ => anyhow!("the server gave an answer to another question; is it of another version?"),
        }
    }
}

/// After a time, or at one.
fn expiry(text: &str) -> anyhow::Result<Timestamp> {
    let after = |wait: Duration| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
    if let Some(wait) = duration::parse(text).filter(|wait| !wait.is_zero()) {
        return Ok(Timestamp(Timestamp::now().millis().saturating_add(after(wait))));
    }
    match moment::parse(text) {
        Some(moment) => Ok(moment),
        None => bail!("write how long, such as 12h or 30d (365d at most), or when, such as 2027-01-31"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_after_a_time_or_at_one() {
        let now = Timestamp::now().millis();
        let hour = expiry("1h").unwrap().millis() - now;
        assert!((3_600_000..3_660_000).contains(&hour), "{hour}");
        assert_eq!(expiry("2027-01-31").unwrap().millis(), 1_801_353_600_000);
        for text in ["", "0s", "soon", "366d", "-1h"] {
            assert!(expiry(text).is_err(), "{text}");
        }
    }
}
