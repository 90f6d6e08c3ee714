//! The API's doors.

use std::{ops::Deref, sync::Arc};

use axum::extract::DefaultBodyLimit;
use everturn_core::Prices;
use everturn_engine::{Engine, TenantSlots};
use everturn_http::{BodyLimits, Caller, Keys, Scope, document};
use http::HeaderMap;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    agents, artifacts,
    code::Code,
    compact, cut, documents,
    error::{ApiError, ErrorBody},
    forms,
    frame::Event,
    keys, messages, permissions, sessions, spawn, stop, token, upload, usage,
};

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Native {
    /// Runs the turns.
    pub engine: Engine,
    /// Who may call.
    pub keys: Arc<Keys>,
    /// Bounds on requests.
    pub limits: BodyLimits,
    /// Largest document, in bytes.
    pub document_bytes: usize,
    /// What models cost.
    pub prices: Arc<Prices>,
}

/// What the handlers work with.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    native: Native,
    pub(crate) uploads: Arc<TenantSlots>,
}

impl Deref for Api {
    type Target = Native;

    fn deref(&self) -> &Native {
        &self.native
    }
}

impl Api {
    /// Who calls, if they may do this.
    pub(crate) fn caller(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, ApiError> {
        let caller = self.keys.caller(headers)?;
        caller.require(scope)?;
        Ok(caller)
    }
}

/// The routes under `/api/v1`, all but the stream of a turn.
pub fn routes(native: Native) -> OpenApiRouter {
    let body = DefaultBodyLimit::max(native.document_bytes.saturating_add(upload::AROUND_THE_FILE));
    let api = Api { native, uploads: Arc::new(upload::slots()) };
    let version_1 = OpenApiRouter::default()
        .routes(routes!(spawn::spawn))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::show, sessions::rename, sessions::delete))
        .routes(routes!(stop::session))
        .routes(routes!(cut::fork))
        .routes(routes!(cut::truncate))
        .routes(routes!(compact::compact))
        .routes(routes!(messages::list))
        .routes(routes!(messages::show))
        .routes(routes!(stop::message))
        .routes(routes!(token::create))
        .routes(routes!(forms::list))
        .routes(routes!(forms::show))
        .routes(routes!(artifacts::list))
        .routes(routes!(artifacts::download))
        .routes(routes!(artifacts::versions))
        .routes(routes!(documents::list, upload::upload))
        .routes(routes!(documents::show, documents::delete))
        .routes(routes!(documents::download))
        .routes(routes!(agents::list, agents::create))
        .routes(routes!(agents::show, agents::change, agents::delete))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::show, keys::revoke))
        .routes(routes!(permissions::list))
        .routes(routes!(usage::show))
        .routes(routes!(permissions::delete));
    let version_1 = document::optional_body(version_1, &["native_fork_session", "native_create_stream_token"]);
    let version_1 = document::with_schema::<ErrorBody, _>(version_1);
    let version_1 = document::with_schema::<Event, _>(version_1);
    let version_1 = document::tagged(version_1, "Durable streaming", &[document::BEARER_KEY]);
    let version_1 = document::behind(version_1, |router| {
        router
            .method_not_allowed_fallback(async || {
                ApiError::new(Code::MethodNotAllowed, "this path does not take that method")
            })
            .fallback(async || ApiError::new(Code::NotFound, "there is nothing at this path"))
            .layer(body)
            .with_state(api)
    });
    OpenApiRouter::default().nest("/api/v1", version_1)
}
