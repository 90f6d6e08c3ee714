//! The API document: what all dialects say of their doors, in one, at `/openapi.json`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    middleware::from_fn_with_state,
    response::{IntoResponse as _, Response},
};
use everturn_http::{
    Keys, RefusedOpenly,
    document::{self, BEARER_KEY, SECRET_KEY, STREAM_TOKEN},
    own_host,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use utoipa_axum::{router::OpenApiRouter, routes};

/// The tags, in the order in which readers show them.
const TAGS: [(&str, &str); 7] = [
    ("Durable streaming", "A client sends a message, then reads its stream from any point and as often as it likes."),
    ("OpenAI", "What OpenAI's clients speak: chat completions and models."),
    ("Agent Application Protocol v1", "The protocol's first version, at the root and under `/aap/v1`."),
    ("Agent Application Protocol v3", "The protocol's third version, under `/aap/v3`."),
    ("Goose", "Goose's `/reply`, as its protocol's text describes it."),
    ("Goose (as released)", "What released Goose clients speak, under `/goose`."),
    ("Operations", "What operators look at. Open without a key."),
];

const DESCRIPTION: &str = "\
A durable agent server: every turn runs to its end, whatever happens to the client, the network or the server. It speaks \
several protocols, each with its own shapes and errors; what is begun in one can be read in another.

Every answer has the header `X-Request-Id`, by which the server's log knows it: the client's own, if it sent a sound one. \
Where keys are needed, pages of any origin can read every answer, unless the configuration names origins; without \
keys only pages of this machine call. A path of ours that is called with a method that it does not take answers 405.";

/// Joins what dialects give. Two schemas of one name must be one schema.
pub(crate) fn join(parts: impl IntoIterator<Item = OpenApiRouter>) -> OpenApiRouter {
    parts.into_iter().fold(OpenApiRouter::default(), |all, part| {
        debug_assert_eq!(clash(&all, &part), None, "a schema's name stands for two schemas");
        all.merge(part)
    })
}

fn clash(one: &OpenApiRouter, other: &OpenApiRouter) -> Option<String> {
    let schemas = &one.get_openapi().components.as_ref()?.schemas;
    let others = &other.get_openapi().components.as_ref()?.schemas;
    let differs = |(name, schema): &(&String, _)| others.get(*name).is_some_and(|other| other != *schema);
    schemas.iter().find(differs).map(|(name, _)| name.clone())
}

/// The routes, and the document of them as one more.
pub(crate) fn served(routes: OpenApiRouter, keys: Arc<Keys>) -> Router {
    let own = OpenApiRouter::default().routes(routes!(show));
    let own = document::behind(own, |router| router.layer(from_fn_with_state(keys, own_host)));
    let own = document::tagged(own, "Operations", &[]);
    let (own, own_document) = own.split_for_parts();
    let (routes, mut document) = routes.split_for_parts();
    document.merge(own_document);
    // A document of texts cannot fail to be written.
    let document = whole(serde_json::to_value(&document).unwrap_or_default());
    let text = Bytes::from(document.to_string());
    let digest = Sha256::digest(&text);
    let tag: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    routes.merge(own.with_state(Arc::new(Served { text, tag: format!("\"{tag}\"") })))
}

/// The document with what belongs to no dialect.
fn whole(mut document: Value) -> Value {
    document["info"] = json!({
        "title": "Everturn",
        "version": env!("CARGO_PKG_VERSION"),
        "description": DESCRIPTION,
        "license": { "name": "Apache License 2.0", "identifier": "Apache-2.0" },
    });
    document["servers"] = json!([{ "url": "/", "description": "This server" }]);
    document["tags"] = TAGS.map(|(name, description)| json!({ "name": name, "description": description })).into();
    document["components"]["securitySchemes"] = json!({
        BEARER_KEY: { "type": "http", "scheme": "bearer", "description": "A key of this server" },
        SECRET_KEY: {
            "type": "apiKey", "in": "header", "name": "X-Secret-Key",
            "description": "A key of this server, where Goose's clients send it",
        },
        STREAM_TOKEN: {
            "type": "apiKey", "in": "query", "name": "token",
            "description": "A token that opens the stream of one message, for readers that cannot send a key",
        },
    });
    share_refusals(&mut document);
    document
}

/// Answers that say no are the same for many operations: they stand in the document once.
fn share_refusals(document: &mut Value) {
    let mut known: BTreeMap<String, Vec<&mut Value>> = BTreeMap::new();
    let items = document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    let operations = items.filter_map(Value::as_object_mut).flat_map(|item| item.values_mut());
    let responses = operations.filter_map(|operation| operation.get_mut("responses")?.as_object_mut());
    for (status, response) in responses.flatten().filter(|(status, _)| status.starts_with(['4', '5'])) {
        known.entry(format!("{status} {response}")).or_default().push(response);
    }
    let mut shared = Map::new();
    for (text, same) in known.into_iter().filter(|(_, same)| same.len() > 1) {
        let status = text.split(' ').next().unwrap_or_default();
        let taken = shared.keys().filter(|name: &&String| name.starts_with(status)).count();
        let name = format!("{status}-{}", taken + 1);
        for place in same {
            let response = std::mem::replace(place, json!({ "$ref": format!("#/components/responses/{name}") }));
            shared.insert(name.clone(), response);
        }
    }
    document["components"]["responses"] = shared.into();
}

/// The document as it is sent.
struct Served {
    text: Bytes,
    tag: String,
}

/// Show this document
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "ops_document",
    params(("If-None-Match" = Option<String>, Header, description = "The ETag of what the client has", nullable = false)),
    responses(
        (
            status = 200, description = "The document",
            headers(("ETag" = String, description = "The same for the same document only")),
            content_type = "application/json", body = Object,
            example = json!({ "openapi": "3.1.0" }),
        ),
        (status = 304, description = "The client has it"),
        RefusedOpenly,
    ),
    security(()),
)]
async fn show(State(served): State<Arc<Served>>, headers: HeaderMap) -> Response {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    let known = known.flat_map(|tags| tags.split(',')).any(|tag| tag.trim().trim_start_matches("W/") == served.tag);
    let mut response = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, "application/json")], served.text.clone()).into_response(),
    };
    let headers = response.headers_mut();
    // Kept, but asked about each time: the next version of the server has another one.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.extend(HeaderValue::from_str(&served.tag).map(|tag| (header::ETAG, tag)));
    response
}
