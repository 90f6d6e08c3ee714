//! The refusal of a busy session as events: the clients of the protocol's text read events whatever the status is, and would
//! else see nothing.

use axum::{body::Body, response::Response};
use everturn_core::SessionId;
use everturn_http::Caller;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::json;

use crate::{Style, error::ApiError, routes::Api, wire::Tokens};

const EVENTS: &str = "text/event-stream";

impl Api {
    /// An `Error` that says why and a `Finish`, with the status of the refusal.
    pub(crate) async fn busy_events(
        &self,
        caller: &Caller,
        session: Option<&SessionId>,
        style: Style,
        error: &ApiError,
    ) -> Result<Response, ApiError> {
        let record = match session {
            Some(session) => self.engine.session(&caller.tenant, session).await?,
            None => None,
        };
        let (last, all) = match &record {
            Some(record) => (self.last_used(record).await?.unwrap_or_default(), record.usage),
            None => Default::default(),
        };
        let tokens = json!(Tokens::of_session(style, last, all));
        let mut told = json!({ "type": "Error", "error": error.to_string() });
        if style == Style::Described {
            told["token_state"] = tokens.clone();
        }
        let finish = json!({ "type": "Finish", "reason": "error", "token_state": tokens });
        let mut response = Response::new(Body::from(format!("data: {told}\n\ndata: {finish}\n\n")));
        *response.status_mut() = StatusCode::CONFLICT;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENTS));
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

/// Whether a client takes events rather than JSON. At the door of the protocol's text `*/*` does, which its examples send;
/// clients of the releases look at the status and read JSON unless they name events.
pub(crate) fn takes_events(headers: &HeaderMap, style: Style) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accepts: Vec<&str> = accepts.flat_map(|value| value.split(',')).collect();
    let [events, json] = [EVENTS, "application/json"].map(|kind| taken(&accepts, kind));
    match style {
        Style::Described => events.weight > 0.0 && (events.weight, events.exactness) >= (json.weight, json.exactness),
        Style::Released => events.weight > 0.0 && events.exactness == 2,
    }
}

/// How a client takes a kind of answer.
#[derive(Clone, Copy)]
struct Taken {
    /// How much it likes it; zero if it does not take it.
    weight: f32,
    /// 2 if it names it, 1 if it names all texts or the like, 0 if it takes anything.
    exactness: u8,
}

/// How a kind of answer is taken: what names it best counts.
fn taken(accepts: &[&str], kind: &str) -> Taken {
    let mut best = None;
    for accept in accepts {
        let mut parts = accept.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default().to_ascii_lowercase();
        let of_family = || range.strip_suffix("/*").is_some_and(|family| kind.split('/').next() == Some(family));
        let exactness = match range.as_str() {
            range if range == kind => 2,
            "*/*" => 0,
            _ if of_family() => 1,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        if best.is_none_or(|best: Taken| exactness > best.exactness) {
            best = Some(Taken { weight, exactness });
        }
    }
    best.unwrap_or(Taken { weight: 0.0, exactness: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_events_is_told_in_events() {
        let takes = |accept: &str| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).unwrap())]);
            [Style::Described, Style::Released].map(|style| takes_events(&headers, style))
        };
        assert_eq!(takes("text/event-stream"), [true, true]);
        assert_eq!(takes("Text/Event-Stream, application/json"), [true, true]);
        assert_eq!(takes("*/*"), [true, false]);
        assert_eq!(takes("text/*"), [true, false]);
        assert_eq!(takes("application/json, text/plain, */*"), [false, false]);
        assert_eq!(takes("application/json"), [false, false]);
        assert_eq!(takes("text/event-stream;q=0, */*"), [false, false]);
        assert_eq!(takes("application/json;q=0.5, text/event-stream"), [true, true]);
        for style in [Style::Described, Style::Released] {
            assert!(!takes_events(&HeaderMap::new(), style));
        }
    }
}
