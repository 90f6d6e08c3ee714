//! `POST /recipes/decode`: the recipe in a link.

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use everturn_http::Scope;
use everturn_recipes::Recipe;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use crate::{
    answers::{Always, Posted},
    describe::RecipeOut,
    error::ApiError,
    recipe::blocking,
    routes::Api,
};

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::DecodeRequest)]
pub(crate) struct LinkIn {
    /// What follows `config=` in the link, or the link itself.
    #[schema(required, nullable = false)]
    deeplink: Option<String>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Decoded)]
struct Decoded {
    #[schema(value_type = RecipeOut)]
    recipe: Recipe,
}

/// Read the recipe in a link
///
/// It is read and checked, not kept. `/agent/start` takes it as `recipe`.
#[utoipa::path(
    post, path = "/recipes/decode", operation_id = "goose_released_decode_recipe",
    request_body(content = LinkIn, description = "The link", example = json!({
        "deeplink": "eyJ0aXRsZSI6Ik1pbmUiLCJkZXNjcmlwdGlvbiI6Ik1pbmUiLCJwcm9tcHQiOiJTYXkgaGVsbG8uIn0",
    })),
    responses(
        (status = 200, description = "The recipe", body = Decoded, example = json!({ "recipe": {
            "version": "1.0.0", "title": "Mine", "description": "Mine", "prompt": "Say hello.",
        } })),
        Always, Posted,
    ),
)]
pub(crate) async fn decode(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let LinkIn { deeplink } = api.read(&caller, &headers, body).await?;
    let link = deeplink.ok_or_else(|| ApiError::invalid("deeplink is missing"))?;
    let json = recipe_in(&link).ok_or_else(|| unreadable("it is not base64 of a recipe's JSON"))?;
    let recipe = blocking(move || Recipe::from_json(&json)).await?;
    let recipe = recipe.map_err(|error| unreadable(&error.to_string()))?;
    Ok(Json(Decoded { recipe }).into_response())
}

fn unreadable(why: &str) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, format!("deeplink: it has no recipe that can be read: {why}"))
}

/// The JSON in a link: base64 for URLs, or plain base64, which may be escaped for URLs.
fn recipe_in(link: &str) -> Option<String> {
    let link = link.trim();
    let coded = link.split_once("config=").map_or(link, |(_, rest)| rest.split('&').next().unwrap_or(rest));
    let bytes = URL_SAFE_NO_PAD.decode(coded.trim_end_matches('='));
    let bytes = bytes.or_else(|_| STANDARD.decode(unescaped(coded))).ok()?;
    String::from_utf8(bytes).ok()
}

/// A text without the escapes that signs of base64 have in URLs.
fn unescaped(text: &str) -> String {
    [("%2B", "+"), ("%2b", "+"), ("%2F", "/"), ("%2f", "/"), ("%3D", "="), ("%3d", "=")]
        .iter()
        .fold(text.to_owned(), |text, (escape, sign)| text.replace(escape, sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_all_releases_are_read() {
        let json = r#"{"title":"Grüße?>","description":"d","prompt":"p"}"#;
        let (new, old) = (URL_SAFE_NO_PAD.encode(json), STANDARD.encode(json));
        let escaped = old.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        assert!(old.contains('/') || old.contains('+'), "the test needs a sign that is escaped");
        for link in [new.clone(), old, escaped, format!("goose://recipe?config={new}&lang=Rust"), format!(" {new}\n")] {
            assert_eq!(recipe_in(&link).as_deref(), Some(json), "{link}");
        }
        for wrong in ["", "no base64!", "goose://recipe?config=%%%"] {
            assert!(recipe_in(wrong).is_none_or(|json| json.is_empty()), "{wrong}");
        }
    }
}
