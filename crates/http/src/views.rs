//! Any view of any turn: one door through which every dialect's projection can be read, from any cursor.
//!
//! A client that lost its stream, in whatever dialect, goes on here with the ids of the answer's headers and the last
//! frame's `id:`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::Response,
};
use everturn_core::{SessionId, TurnId};
use everturn_engine::{Cursor, Engine, OpenError, Projection, TokenHolder};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::json;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Keys, Scope,
    document::{self, BEARER_KEY, STREAM_TOKEN},
    event_stream,
    keys::OpenedFor,
    stream::no_more,
    view_error::{ErrorBody, Refused, ViewError},
};

/// The view of those who do not say which.
const DEFAULT_VIEW: &str = "native";

/// What the route needs.
#[derive(Clone)]
pub struct Views {
    engine: Engine,
    keys: Arc<Keys>,
    silence: Duration,
    projections: Arc<BTreeMap<&'static str, &'static dyn Projection>>,
}

impl std::fmt::Debug for Views {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Views").field("projections", &self.names()).finish_non_exhaustive()
    }
}

impl Views {
    /// The projections of all dialects; the names of two never agree. A heartbeat comes after so long a silence.
    pub fn new(
        engine: Engine,
        keys: Arc<Keys>,
        silence: Duration,
        projections: impl IntoIterator<Item = &'static dyn Projection>,
    ) -> Self {
        let projections = projections.into_iter().map(|projection| (projection.name(), projection)).collect();
        Self { engine, keys, silence, projections: Arc::new(projections) }
    }

    fn names(&self) -> String {
        self.projections.keys().copied().collect::<Vec<_>>().join(", ")
    }
}

/// `GET /api/v1/sessions/{session}/messages/{turn}/stream?as=<view>`, with `Last-Event-ID` or `?since=`, and with a key in
/// the header or a stream token in `?token=`.
pub fn views(views: Views) -> OpenApiRouter {
    let routes = document::with_schema::<ErrorBody, _>(OpenApiRouter::default().routes(routes!(view)));
    let mut routes = document::tagged(routes, "Durable streaming", &[BEARER_KEY, STREAM_TOKEN]);
    // Which views there are is known only here.
    let names: Vec<_> = views.projections.keys().copied().collect();
    let operations = document::operations(routes.get_openapi_mut());
    let parameters = operations.filter_map(|operation| operation.parameters.as_mut()).flatten();
    for parameter in parameters {
        if let utoipa::openapi::RefOr::T(parameter) = parameter
            && parameter.name == "as"
        {
            let schema = json!({ "type": "string", "enum": names, "default": DEFAULT_VIEW });
            parameter.schema = Some(document::schema(schema));
        }
    }
    document::behind(routes, |router| {
        router.method_not_allowed_fallback(async || ViewError::method()).with_state(views)
    })
}

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct ViewQuery {
    /// Which view: the frames of which dialect
    #[param(nullable = false)]
    r#as: Option<String>,
    /// The `id` of the last frame that was seen; the header Last-Event-ID comes before it
    #[param(nullable = false, pattern = r"^(0|[1-9][0-9]{0,17}(\.[1-9][0-9]{0,8})?)$", example = "17")]
    since: Option<String>,
    // In the document it is a way to be let in.
    #[param(ignore)]
    token: Option<String>,
}

/// Watch a turn
///
/// From its beginning, or from after the last frame that was seen; while it runs or later, and as often as one likes. The
/// stream ends when the turn does. Every dialect's streams can be read here: the ids are in the headers X-Session-Id and
/// X-Message-Id of the answer that began the turn.
#[utoipa::path(
    get, path = "/api/v1/sessions/{session}/messages/{turn}/stream", operation_id = "native_watch_message",
    params(
        ("session" = String, Path, description = "The session"),
        ("turn" = String, Path, description = "The message"),
        ViewQuery,
        (
            "Last-Event-ID" = Option<String>, Header, description = "The `id` of the last frame that was seen",
            nullable = false, pattern = r"^(0|[1-9][0-9]{0,17}(\.[1-9][0-9]{0,8})?)$", example = "17",
        ),
    ),
    responses(
        (
            status = 200, description = "The frames, as server-sent events; those of the view `native` are described by \
                the schema native.Event",
            headers(
                ("X-Session-Id" = String, description = "The session"),
                ("X-Message-Id" = String, description = "The message"),
            ),
            content_type = "text/event-stream", body = String,
            example = json!("retry: 1000\nid: 2\ndata: {\"type\":\"delta\",\"content\":\"Hel\"}\n\n"),
        ),
        (
            status = 204, description = "The turn is over and all of it was seen: do not come again",
            headers(
                ("X-Session-Id" = String, description = "The session"),
                ("X-Message-Id" = String, description = "The message"),
            ),
        ),
        Refused,
    ),
)]
async fn view(
    State(views): State<Views>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    query: Result<Query<ViewQuery>, QueryRejection>,
) -> Result<Response, ViewError> {
    let query = query.map_err(|error| ViewError::invalid("QUERY_INVALID", error.body_text()));
    // Whoever may not see it learns nothing of what else is wrong.
    let ids: Option<(SessionId, TurnId)> =
        path.ok().and_then(|Path((session, turn))| Some((session.parse().ok()?, turn.parse().ok()?)));
    let token = query.as_ref().ok().and_then(|Query(query)| query.token.as_deref());
    let mut opened_for = None;
    let tenant = match (token, &ids) {
        (Some(token), Some((session, turn))) => {
            let holder = views.engine.open_stream_token(token, session, turn);
            let is_live = |holder: &TokenHolder| holder.key.as_ref().is_none_or(|key| views.keys.is_live(key));
            let TokenHolder { tenant, key } = holder.filter(is_live).ok_or(ViewError::token())?;
            opened_for = key.map(OpenedFor);
            tenant
        }
        (Some(_), None) => return Err(ViewError::token()),
        (None, _) => {
            let caller = views.keys.caller(&headers)?;
            caller.require(Scope::Read)?;
            caller.tenant
        }
    };
    let Query(query) = query?;
    let name = query.r#as.as_deref().unwrap_or(DEFAULT_VIEW);
    let projection = *views.projections.get(name).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        ViewError::invalid("VIEW_UNKNOWN", format!("as={shown:?} is not a view; there are: {}", views.names()))
    })?;
    // A header that is not text is no cursor either; browsers send an empty one before they have seen a frame.
    let resumed = headers.get("last-event-id").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let is_given = |text: &String| !text.is_empty();
    let cursor = match resumed.filter(is_given).or(query.since.filter(is_given)) {
        Some(text) => text.parse::<Cursor>().map_err(|error| ViewError::cursor(&text, &error))?,
        None => Cursor::default(),
    };
    let (session, turn) = ids.ok_or(OpenError::NotFound)?;
    let mut response = match views.engine.read_turn(&tenant, &session, &turn, projection, cursor).await? {
        Some(reader) => event_stream(reader, views.silence),
        None => no_more(&session, &turn),
    };
    if let Some(key) = opened_for {
        response.extensions_mut().insert(key);
    }
    Ok(response)
}
