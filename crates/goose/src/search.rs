//! `GET /sessions/search`: sessions by what was said in them.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::{Message, Timestamp};
use everturn_engine::Flow;
use everturn_http::{Caller, Scope};
use everturn_store::SessionRecord;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;

use crate::{
    answers::{Always, NotListed},
    error::ApiError,
    routes::Api,
    session_out::{SessionOut, session_example},
};

/// How many sessions are looked at: the newest.
const MAX_SESSIONS: usize = 500;
/// How many of them at a time.
const PAGE: usize = 100;
/// How many are found, unless the client says so, and at most.
const DEFAULT_LIMIT: usize = 10;
const MAX_LIMIT: usize = 50;
/// Longest question, in bytes.
const MAX_QUERY: usize = 1000;

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// Words, all of which must be in the session's name or in what was said
    #[param(required, nullable = false, min_length = 1, max_length = 1000, example = "milk")]
    query: Option<String>,
    /// How many sessions to find
    #[param(value_type = Option<u32>, minimum = 1, maximum = 50, default = 10, nullable = false)]
    limit: Option<String>,
    /// Only sessions in which something happened since
    #[serde(alias = "afterDate")]
    #[param(nullable = false, format = DateTime)]
    after_date: Option<String>,
    /// Only sessions that were begun before
    #[serde(alias = "beforeDate")]
    #[param(nullable = false, format = DateTime)]
    before_date: Option<String>,
}

/// Find sessions by what was said in them
///
/// Among the newest 500, newest first.
#[utoipa::path(
    get, path = "/sessions/search", operation_id = "goose_released_search_sessions",
    params(SearchQuery),
    responses(
        (status = 200, description = "The sessions, without what was said", body = Vec<SessionOut<'_>>, example = json!([session_example(false)])),
        Always, NotListed,
    ),
)]
pub(crate) async fn search(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let Query(SearchQuery { query, limit, after_date, before_date }) = query?;
    let query = query.filter(|query| !query.trim().is_empty() && query.len() <= MAX_QUERY).ok_or_else(|| {
        ApiError::new(StatusCode::BAD_REQUEST, format!("query: say in 1 to {MAX_QUERY} bytes what to look for"))
    })?;
    let wanted = Wanted {
        words: query.to_lowercase().split_whitespace().map(str::to_owned).collect(),
        after: after_date.as_deref().map(|text| date("after_date", text)).transpose()?,
        before: before_date.as_deref().map(|text| date("before_date", text)).transpose()?,
    };
    let limit = limit.as_deref().map_or(Ok(DEFAULT_LIMIT), read_limit)?;
    let mut found = Vec::new();
    for session in api.find_sessions(&caller, &wanted, limit).await? {
        found.push(api.session_summary(&caller.tenant, &session).await?);
    }
    Ok(Json(found).into_response())
}

/// What is looked for.
struct Wanted {
    words: Vec<String>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
}

impl Wanted {
    fn in_time(&self, session: &SessionRecord) -> bool {
        self.after.is_none_or(|after| session.updated_at >= after)
            && self.before.is_none_or(|before| session.created_at < before)
    }

    /// Leaves the words that are not in a text.
    fn strike(words: &mut Vec<&str>, text: &str) {
        words.retain(|word| !text.contains(*word));
    }
}

impl Api {
    async fn find_sessions(
        &self,
        caller: &Caller,
        wanted: &Wanted,
        limit: usize,
    ) -> Result<Vec<SessionRecord>, ApiError> {
        let (mut found, mut below) = (Vec::new(), None);
        for _ in 0..MAX_SESSIONS / PAGE {
            let rows = self.engine.sessions(&caller.tenant, below, PAGE).await?;
            let Some(last) = rows.last() else { break };
            below = Some(last.position);
            for row in rows.into_iter().filter(|row| wanted.in_time(&row.session)) {
                let session = row.session;
                let mut missing: Vec<&str> = wanted.words.iter().map(String::as_str).collect();
                Wanted::strike(&mut missing, &session.title.as_deref().unwrap_or_default().to_lowercase());
                if !missing.is_empty() {
                    let look = |message: &Message| {
                        spoken(message).iter().for_each(|text| Wanted::strike(&mut missing, text));
                        if missing.is_empty() { Flow::Close } else { Flow::Continue }
                    };
                    self.engine.look_back(&caller.tenant, &session.id, look).await?;
                }
                if missing.is_empty() {
                    found.push(session);
                }
                if found.len() == limit {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }
}

/// What somebody said, to be compared. Instructions and results of tools are nobody's words.
fn spoken(message: &Message) -> Option<String> {
    match message {
        Message::User { content } | Message::Assistant { content } => Some(content.text().to_lowercase()),
        Message::System { .. } | Message::Tool { .. } => None,
    }
}

fn date(field: &str, text: &str) -> Result<Timestamp, ApiError> {
    let time = text.trim().parse::<jiff::Timestamp>().ok();
    time.map(|time| Timestamp(time.as_millisecond())).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        ApiError::invalid(format!("{field}={shown:?} is not a time such as 2026-03-04T10:00:00Z"))
    })
}

fn read_limit(text: &str) -> Result<usize, ApiError> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        ApiError::invalid(format!("limit={shown:?} is not a number from 1 to {MAX_LIMIT}"))
    })
}
