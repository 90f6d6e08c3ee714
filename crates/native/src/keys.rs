//! `/keys`: the keys of the tenant. The secret of a new one is told once.

use axum::{
    Json,
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse as _, Response},
};
use everturn_core::{Quota, Timestamp};
use everturn_http::{
    BookError, KeyInfo, MAX_KEY_NAME, NewKey, Object, Quotas, Scope, document, parse_json, read_body, submission_key,
};
use http::{HeaderMap, StatusCode, header};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    answers::{Always, KeyFixed, KeyNotMade, Listed, NoKey, Posted},
    code::Code,
    error::{ApiError, Thing},
    paging::{List, ListQuery, Page, Paged},
    path,
    routes::Api,
    time::rfc3339,
};

/// A page of keys.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Keys)]
struct KeysOut {
    keys: Vec<KeyOut>,
    /// For the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// A key, without its secret.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Key)]
struct KeyOut {
    key_id: String,
    /// Its name for people.
    name: String,
    tenant: String,
    /// How its secret begins; null for those of the configuration.
    #[schema(required)]
    prefix: Option<String>,
    /// What it allows: `read` looks at things, `chat` runs turns besides, `admin` does everything.
    #[schema(schema_with = scopes)]
    scopes: Vec<Scope>,
    #[schema(schema_with = statuses)]
    status: &'static str,
    /// Where it stands: `stored` ones are made and revoked here.
    #[schema(schema_with = sources)]
    source: &'static str,
    /// What it may use, as far as it has a quota of its own.
    #[schema(schema_with = quota)]
    quota: Quota,
    /// When it was made; not known of those of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    created_at: Option<String>,
    /// When it ends; null for never.
    #[schema(required, format = DateTime)]
    expires_at: Option<String>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    revoked_at: Option<String>,
    /// When it was last used, about; null for never.
    #[schema(required, format = DateTime)]
    last_used_at: Option<String>,
}

impl From<KeyInfo> for KeyOut {
    fn from(key: KeyInfo) -> Self {
        Self {
            source: if key.is_configured() { "configured" } else { "stored" },
            status: key.status(Timestamp::now()).as_str(),
            key_id: key.id.into(),
            name: key.name,
            tenant: key.tenant.into(),
            prefix: key.prefix,
            scopes: key.scopes,
            quota: key.quota,
            created_at: key.created_at.map(rfc3339),
            expires_at: key.expires_at.map(rfc3339),
            revoked_at: key.revoked_at.map(rfc3339),
            last_used_at: key.last_used_at.map(rfc3339),
        }
    }
}

/// A new key, with its secret.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::NewKeyMade)]
struct MadeOut<'a> {
    /// What callers send as `Authorization: Bearer <secret>`. Shown here and never again.
    #[schema(pattern = "^evt_[A-Za-z0-9_-]{43}$")]
    secret: &'a str,
    #[serde(flatten)]
    key: KeyOut,
}

/// What a new key shall be.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = native::NewKey)]
struct KeyIn {
    /// Its name for people.
    #[schema(required, schema_with = names)]
    name: Option<String>,
    /// What it allows; `chat` and `read` if it is left out.
    #[schema(schema_with = wanted_scopes)]
    scopes: Option<Vec<Scope>>,
    /// When it ends, at most ten years ahead; never if it is left out.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// What it may use; what is left out is as the server is configured.
    #[schema(schema_with = wanted_quota)]
    quota: Option<Quota>,
    /// Not taken: a key belongs to the tenant of the key that makes it.
    #[schema(ignore)]
    tenant: Option<String>,
}

fn names() -> document::AnySchema {
    // Without control characters, and with something that is not white space.
    let pattern = r"^[^\u0000-\u001f\u007f-\u009f]*[^\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000][^\u0000-\u001f\u007f-\u009f]*$";
    document::schema(json!({ "type": "string", "minLength": 1, "maxLength": MAX_KEY_NAME, "pattern": pattern }))
}

fn scopes() -> document::AnySchema {
    document::schema(json!({ "type": "array", "items": { "type": "string", "enum": Scope::ALL } }))
}

fn wanted_scopes() -> document::AnySchema {
    let scope = json!({ "type": "string", "enum": Scope::ALL });
    document::schema(json!({ "type": ["array", "null"], "minItems": 1, "items": scope }))
}

fn statuses() -> document::AnySchema {
    document::schema(json!({ "type": "string", "enum": ["live", "expired", "revoked"] }))
}

fn sources() -> document::AnySchema {
    document::schema(json!({ "type": "string", "enum": ["stored", "configured"] }))
}

fn quota() -> document::AnySchema {
    bounds(json!("object"), &json!("integer"))
}

fn wanted_quota() -> document::AnySchema {
    bounds(json!(["object", "null"]), &json!(["integer", "null"]))
}

fn bounds(object: serde_json::Value, number: &serde_json::Value) -> document::AnySchema {
    let bound = |most: u64, what: &str| json!({ "type": number, "minimum": 1, "maximum": most, "description": what });
    document::schema(json!({
        "type": object,
        "properties": {
            "requests_per_second": bound(Quotas::MOST_REQUESTS, "Requests in a second"),
            "concurrent_turns": bound(Quotas::MOST_TURNS, "Turns that run at once"),
            "tokens_per_day": bound(Quotas::MOST_TOKENS, "Tokens in a day, UTC, both directions together"),
        },
        "additionalProperties": false,
    }))
}

impl KeyIn {
    fn wanted(self) -> Result<NewKey, ApiError> {
        let expires_at = match self.expires_at.as_deref().map(str::parse::<jiff::Timestamp>).transpose() {
            Ok(at) => at.map(|at| Timestamp(at.as_millisecond())),
            Err(_) => return Err(ApiError::invalid("expires_at: write a time like 2027-01-31T12:00:00Z")),
        };
        Ok(NewKey {
            name: self.name.ok_or_else(|| ApiError::invalid("name is missing"))?,
            scopes: self.scopes.unwrap_or_else(|| vec![Scope::Read, Scope::Chat]),
            expires_at,
            quota: self.quota.unwrap_or_default(),
        })
    }
}

impl From<BookError> for ApiError {
    fn from(error: BookError) -> Self {
        let text = error.to_string();
        match error {
            BookError::Invalid { .. } => Self::invalid(text),
            BookError::TooMany { .. } => Self::new(Code::KeyLimitReached, text),
            BookError::NotFound { id } => Self::no(Thing::Key, &id),
            BookError::Configured { .. } | BookError::NoBook => Self::new(Code::KeyReadOnly, text),
            BookError::KeyReused { .. } => Self::new(Code::IdempotencyKeyReused, text),
            BookError::MadeBefore { .. } => Self::new(Code::KeyMadeBefore, text),
            BookError::Conflict { .. } => Self::new(Code::Conflict, text),
            BookError::Store(error) => error.into(),
            BookError::Random(_) | BookError::Rejected(_) => Self::internal(&error),
        }
    }
}

/// A page in a browser on this machine may call a server that has no keys. It must not lock everybody else out, nor keep
/// a key for later.
pub(crate) fn first() -> ApiError {
    let message = "this server has no keys yet, and the first one is not made by HTTP";
    ApiError::new(Code::AuthPermissionDenied, message)
        .hint("make it with `everturn keys create --scope admin`; from then on every caller needs a key")
}

/// List keys
///
/// Those of the configuration come first, on the first page; then those that are not revoked, newest first; then those
/// that are.
#[utoipa::path(
    get, path = "/keys", operation_id = "native_list_keys",
    params(Paged<{ List::Keys.letter() }>),
    responses(
        (status = 200, description = "A page", body = KeysOut, example = json!({ "keys": [{
            "key_id": "key_0199a1b2c3d47e8f9a0b1c2d3e4f5a6b", "name": "laptop", "tenant": "acme",
            "prefix": "evt_4f9a0b", "scopes": ["read", "chat"], "status": "live", "source": "stored",
            "quota": { "requests_per_second": 10 }, "created_at": "2026-07-25T17:20:00.120Z", "expires_at": null,
            "last_used_at": "2026-07-26T08:00:00.000Z",
        }] })),
        Always, Listed,
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Admin)?;
    let page = Page::new(List::Keys, &query?.0)?;
    let mut stored = api.keys.list(&caller.tenant, page.below, page.wanted()).await?;
    let next_cursor = page.cut(&mut stored, |key| key.place);
    let configured = if page.below.is_none() { api.keys.configured(&caller.tenant) } else { Vec::new() };
    let keys = configured.into_iter().chain(stored).map(KeyOut::from).collect();
    Ok(Json(KeysOut { keys, next_cursor }).into_response())
}

/// Show a key
#[utoipa::path(
    get, path = "/keys/{key}", operation_id = "native_show_key",
    params(("key" = String, Path, description = "The key", example = "key_0199a1b2c3d47e8f9a0b1c2d3e4f5a6b")),
    responses(
        (status = 200, description = "The key, without its secret", body = KeyOut, example = json!({
            "key_id": "key_0199a1b2c3d47e8f9a0b1c2d3e4f5a6b", "name": "laptop", "tenant": "acme",
            "prefix": "evt_4f9a0b", "scopes": ["read", "chat"], "status": "revoked", "source": "stored",
            "quota": {}, "created_at": "2026-07-25T17:20:00.120Z", "expires_at": "2027-01-31T12:00:00.000Z",
            "revoked_at": "2026-08-01T09:30:00.000Z", "last_used_at": null,
        })),
        Always, NoKey,
    ),
)]
pub(crate) async fn show(State(api): State<Api>, path: path::One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Admin)?;
    let id = path::name(path, Thing::Key)?;
    let key = api.keys.find(&caller.tenant, &id).await?;
    let key = key.ok_or_else(|| ApiError::no(Thing::Key, &id))?;
    Ok(Json(KeyOut::from(key)).into_response())
}

/// Make a key
///
/// The answer has its secret, which is shown this once: only a digest of it is kept. So a request that is repeated with
/// the same Idempotency-Key is refused, with the id of the key that it made; if its secret is lost, revoke that one.
#[utoipa::path(
    post, path = "/keys", operation_id = "native_create_key",
    params(document::IdempotencyKey),
    request_body(content = KeyIn, example = json!({
        "name": "laptop", "scopes": ["chat", "read"], "expires_at": "2030-01-31T12:00:00Z",
        "quota": { "requests_per_second": 10, "concurrent_turns": 4 },
    })),
    responses(
        (
            status = 201, description = "The key and its secret",
            headers(("Cache-Control" = String, description = "`no-store`")),
            body = MadeOut<'_>,
            example = json!({
                "secret": "evt_4f9a0bQ7x2WkVrYc8mZt1uHs5eLd3nJp6gBq0iAoXyM",
                "key_id": "key_0199a1b2c3d47e8f9a0b1c2d3e4f5a6b", "name": "laptop", "tenant": "acme",
                "prefix": "evt_4f9a0b", "scopes": ["read", "chat"], "status": "live", "source": "stored",
                "quota": { "requests_per_second": 10, "concurrent_turns": 4 },
                "created_at": "2026-07-25T17:20:00.120Z", "expires_at": "2030-01-31T12:00:00.000Z",
                "last_used_at": null,
            }),
        ),
        Always, Posted, KeyNotMade,
    ),
)]
pub(crate) async fn create(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Admin)?;
    if caller.account.key.is_none() {
        return Err(first());
    }
    let body = read_body(&headers, body, api.limits, &api.engine.memory_of(&caller.tenant)).await?;
    let Object(request): Object<KeyIn> = parse_json(&body, api.limits)?;
    if let Some(tenant) = request.tenant.as_ref().filter(|tenant| *tenant != caller.tenant.as_str()) {
        let shown: String = tenant.chars().take(128).collect();
        let message = format!("tenant: a key is made for your own tenant, {}, not for {shown:?}", caller.tenant);
        return Err(ApiError::invalid(message).hint("use `everturn keys create --tenant` on the server's machine"));
    }
    let request_key = submission_key(&headers, "POST /api/v1/keys", &body)?;
    let (key, secret) = api.keys.create(&caller.tenant, request.wanted()?, request_key).await?;
    tracing::info!(key = %key.id, tenant = %key.tenant, by = ?caller.account.key, "a key was made");
    let made = Json(MadeOut { secret: secret.expose_secret(), key: key.into() });
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], made).into_response())
}

/// Revoke a key
///
/// From now on and for good; it stays in the list. Streams that are under way go on to their end. A key may revoke itself.
#[utoipa::path(
    delete, path = "/keys/{key}", operation_id = "native_revoke_key",
    params(("key" = String, Path, description = "The key", example = "key_0199a1b2c3d47e8f9a0b1c2d3e4f5a6b")),
    responses((status = 204, description = "It is revoked, or was before"), Always, KeyFixed),
)]
pub(crate) async fn revoke(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let caller = api.caller(&headers, Scope::Admin)?;
    let id = path::name(path, Thing::Key)?;
    let key = api.keys.revoke(&caller.tenant, &id).await?;
    tracing::info!(key = %key.id, tenant = %key.tenant, by = ?caller.account.key, "a key was revoked");
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(json: &str) -> Result<NewKey, ApiError> {
        let Object(request): Object<KeyIn> = serde_json::from_str(json).unwrap();
        request.wanted()
    }

    #[test]
    fn a_key_needs_a_name() {
        let key = wanted(r#"{"name":"a"}"#).unwrap();
        assert_eq!((key.scopes.as_slice(), key.expires_at), ([Scope::Read, Scope::Chat].as_slice(), None));
        assert_eq!(wanted("{}"), Err(ApiError::invalid("name is missing")));
        let at = wanted(r#"{"name":"a","expires_at":"1970-01-01T00:00:01Z"}"#).unwrap().expires_at;
        assert_eq!(at, Some(Timestamp(1000)));
        assert!(wanted(r#"{"name":"a","expires_at":"tomorrow"}"#).is_err());
        for json in [
            r#"{"name":"a","scopes":["root"]}"#,
            r#"{"name":"a","quota":{"concurrent_turns":0}}"#,
            r#"{"name":"a","quota":{"tokens":1}}"#,
        ] {
            assert!(serde_json::from_str::<Object<KeyIn>>(json).is_err(), "{json}");
        }
    }
}
