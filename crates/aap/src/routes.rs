//! Where the protocol's doors are.

use std::{sync::Arc, time::Duration};

use axum::Router;
use everturn_engine::Engine;
use everturn_http::{
    BodyLimits, Keys,
    document::{BEARER_KEY, behind, renamed, tagged, with_schema},
};
use http::StatusCode;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    error::{ApiError, ErrorOut},
    v1, v3,
};

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Aap {
    /// Runs the turns.
    pub engine: Engine,
    /// Who may call.
    pub keys: Arc<Keys>,
    /// Bounds on requests.
    pub limits: BodyLimits,
    /// After so long a silence a comment keeps the connection open.
    pub silence: Duration,
}

/// Version 1 at the root and under `/aap/v1`, version 3 under `/aap/v3`. Where nothing is, the root tells so.
pub fn routes(aap: Aap) -> OpenApiRouter {
    let version_1 = tagged(open(v1::routes(), &aap), "Agent Application Protocol v1", &[BEARER_KEY]);
    let version_3 = tagged(open(v3::routes(), &aap), "Agent Application Protocol v3", &[BEARER_KEY]);
    let at_the_root = renamed(version_1.clone(), |id| id.replacen("aap_v1_", "aap_root_", 1));
    at_the_root.nest("/aap/v1", version_1).nest("/aap/v3", version_3)
}

fn open(routes: OpenApiRouter<Aap>, aap: &Aap) -> OpenApiRouter {
    behind(with_schema::<ErrorOut, _>(routes), |routes: Router<Aap>| {
        routes
            .method_not_allowed_fallback(async || {
                ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take that method")
            })
            .fallback(async || {
                ApiError::new(StatusCode::NOT_FOUND, "there is nothing here; GET /meta tells what this server offers")
            })
            .with_state(aap.clone())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use everturn_http::document::operations;
    use serde_json::Value;

    use super::*;

    /// All that a document refers to.
    fn refs(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| refs(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| refs(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn document(routes: OpenApiRouter<Aap>, version: &str) -> Value {
        let mut document = with_schema::<ErrorOut, _>(routes).into_openapi();
        let ids: Vec<_> = operations(&mut document).map(|operation| operation.operation_id.clone().unwrap()).collect();
        assert!(ids.iter().all(|id| id.starts_with(&format!("aap_{version}_"))), "{ids:?}");
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
        serde_json::to_value(&document).unwrap()
    }

    #[test]
    fn the_document_is_whole() {
        let (first, third) = (document(v1::routes(), "v1"), document(v3::routes(), "v3"));
        for document in [&first, &third] {
            let mut found = BTreeSet::new();
            refs(document, &mut found);
            assert!(!found.is_empty());
            for name in found {
                let place = name.strip_prefix('#').unwrap();
                assert!(document.pointer(place).is_some(), "{name} is not there");
            }
        }
        let schemas = |document: &Value| document["components"]["schemas"].as_object().unwrap().clone();
        let third = schemas(&third);
        for (name, schema) in schemas(&first) {
            assert!(third.get(&name).is_none_or(|other| *other == schema), "{name} is not the same in both versions");
        }
    }
}
