//! What the commands ask and what they are told, in process or through the server's door: a line of JSON each way.

use everturn_core::TenantId;
use everturn_http::{KeyInfo, Keys, NewKey};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};

/// How many keys an answer has at most.
const PAGE: usize = 200;

/// What can be asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// Make this key.
    Create { tenant: TenantId, key: NewKey },
    /// Who has keys?
    Tenants,
    /// The tenant's keys after this place.
    List { tenant: TenantId, after: Option<u64> },
    /// Take this key back.
    Revoke { id: String },
}

/// What is told. Printing it shows no secret.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Created {
        key: KeyInfo,
        secret: String,
        /// Whether callers needed no key before.
        first: bool,
    },
    Tenants {
        tenants: Vec<TenantId>,
    },
    Listed {
        keys: Vec<KeyInfo>,
    },
    Revoked {
        key: KeyInfo,
    },
    Failed {
        message: String,
    },
}

/// Does what is asked.
pub(super) async fn answer(keys: &Keys, request: Request) -> Answer {
    let answered = match request {
        Request::Create { tenant, key } => {
            let first = keys.is_open();
            keys.create(&tenant, key, None).await.map(|(key, secret)| {
                tracing::info!(key = %key.id, %tenant, "a key was made by the command line");
                Answer::Created { key, secret: secret.expose_secret().to_owned(), first }
            })
        }
        Request::Tenants => keys.tenants().await.map(|tenants| Answer::Tenants { tenants }),
        Request::List { tenant, after } => keys.list(&tenant, after, PAGE).await.map(|keys| Answer::Listed { keys }),
        Request::Revoke { id } => keys.revoke_anywhere(&id).await.map(|key| {
            tracing::info!(key = %key.id, tenant = %key.tenant, "a key was revoked by the command line");
            Answer::Revoked { key }
        }),
    };
    answered.unwrap_or_else(|error| Answer::Failed { message: error.to_string() })
}
