//! Stream tokens: for readers that cannot send a key, such as a browser's `EventSource`. A token opens one turn, for a
//! while, and nothing else.

use std::time::Duration;

use everturn_core::{KeyId, SessionId, TenantId, Timestamp, TurnId};
use everturn_store::{SecretPlace, StoreError};

use crate::Engine;

/// What a token opens its turn as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    /// The tenant of the caller who asked for the token.
    pub tenant: TenantId,
    /// The key of that caller: the token is worth nothing without it. `None` where no key was needed.
    pub key: Option<KeyId>,
}

/// The place that tokens are sealed for. Options have no such names.
fn place(turn: &TurnId) -> String {
    format!("stream token\0{turn}")
}

impl Engine {
    /// A token for one turn, and when it expires; `None` if the tenant has no such turn.
    pub async fn stream_token(
        &self,
        TokenHolder { tenant, key }: &TokenHolder,
        session: &SessionId,
        turn: &TurnId,
        lifetime: Duration,
    ) -> Result<Option<(String, Timestamp)>, StoreError> {
        if self.0.store.turn(tenant, session, turn).await?.is_none() {
            return Ok(None);
        }
        let lifetime = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        let expires_at = Timestamp(Timestamp::now().millis().saturating_add(lifetime));
        // The tenant is not known to whoever opens it, so it is inside.
        let nobody = TenantId::local();
        let place = place(turn);
        let place = SecretPlace { tenant: &nobody, session, option: &place };
        let key = key.as_ref().map_or("", KeyId::as_str);
        let sealed = self.0.secrets.seal(place, &format!("{} {tenant} {key}", expires_at.millis()));
        // Ids are short, so there is nothing that could be too large.
        let sealed = sealed.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Some((url_safe(&sealed), expires_at)))
    }

    /// Whom a token was given to, if it opens this turn now. Whether the key still opens is the caller's to find out.
    pub fn open_stream_token(&self, token: &str, session: &SessionId, turn: &TurnId) -> Option<TokenHolder> {
        let nobody = TenantId::local();
        let place = place(turn);
        let place = SecretPlace { tenant: &nobody, session, option: &place };
        let sealed = token.replace('-', "+").replace('_', "/").replacen("v1.", "v1:", 1);
        let opened = self.0.secrets.open(place, &sealed).ok()?;
        let mut parts = opened.splitn(3, ' ');
        let expires_at = Timestamp(parts.next()?.parse().ok()?);
        let tenant = parts.next()?.parse().ok()?;
        let key = match parts.next()? {
            "" => None,
            key => Some(key.parse().ok()?),
        };
        (Timestamp::now() < expires_at).then_some(TokenHolder { tenant, key })
    }
}

/// As it can stand in a query without being escaped.
fn url_safe(sealed: &str) -> String {
    sealed.replace('+', "-").replace('/', "_").replace(':', ".").trim_end_matches('=').to_owned()
}
