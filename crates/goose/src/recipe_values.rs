//! `PUT /sessions/{id}/user_recipe_values`: what a person put into the form of the session's recipe.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_http::Scope;
use everturn_recipes::RenderError;
use everturn_store::SessionRecord;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    answers::{Always, NotDressed, Posted},
    describe::{RecipeOut, RecipeValues, SessionParam},
    error::ApiError,
    recipe::{Dressing, blocking},
    routes::{Api, One, session_of},
    scalar::Scalar,
};

/// The note that keeps the values until the session's first message.
const VALUES: &str = "goose.values";

impl Api {
    /// The values that were given for a session's recipe before its first message.
    pub(crate) async fn given_values(&self, session: &SessionRecord) -> Result<Option<Values>, ApiError> {
        let note = self.engine.note(&session.tenant, &session.id, VALUES).await;
        let note = note.map_err(|error| ApiError::submit(error, Some(&session.id)))?;
        Ok(note.and_then(|note| serde_json::from_str(note.as_str()).ok()))
    }
}

/// Values by parameter.
type Values = BTreeMap<String, String>;

#[derive(Deserialize)]
pub(crate) struct ValuesIn {
    #[serde(rename = "userRecipeValues", alias = "user_recipe_values")]
    values: Option<BTreeMap<String, Scalar>>,
}

/// A recipe with values in it.
#[derive(utoipa::ToSchema)]
#[schema(as = goose::RenderedRecipe)]
#[expect(dead_code, reason = "what the answer looks like, for the document")]
struct Rendered {
    #[schema(value_type = RecipeOut)]
    recipe: Value,
}

/// Give the values of a session's recipe
///
/// Before its first message.
#[utoipa::path(
    put, path = "/sessions/{session}/user_recipe_values", operation_id = "goose_released_set_recipe_values",
    params(("session" = inline(SessionParam), Path, description = "The session")),
    request_body(content = RecipeValues, description = "The values", example = json!({
        "userRecipeValues": { "lang": "Rust" },
    })),
    responses(
        (status = 200, description = "The recipe with the values in it", body = Rendered, example = json!({ "recipe": {
            "version": "1.0.0", "title": "Code helper", "description": "Helps", "instructions": "You help with Rust.",
        } })),
        Always, Posted, NotDressed,
    ),
)]
pub(crate) async fn set(
    State(api): State<Api>,
    path: One,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let ValuesIn { values } = api.read(&caller, &headers, body).await?;
    let session = session_of(path)?;
    let record = api.record(&caller.tenant, &session).await?;
    let (chosen, _) = api.recipe_of(&record.config).ok_or_else(|| ApiError::not_found("Recipe not found"))?;
    let values = values.ok_or_else(|| ApiError::invalid("userRecipeValues is missing"))?;
    let values: BTreeMap<_, _> = values.into_iter().map(|(key, Scalar(value))| (key, value)).collect();
    if record.last_turn.is_some() {
        return Err(ApiError::conflict("this session has begun, and keeps the values that its recipe has"));
    }
    api.overlay(&caller, &record.config.agent, &chosen, &values).await.map_err(|error| match error {
        Dressing::Render(error @ RenderError::MissingParameters { .. }) => {
            ApiError::new(StatusCode::BAD_REQUEST, format!("Missing required parameters: {error}"))
        }
        other => other.told(),
    })?;
    let note = everturn_core::Json::of(&values).map_err(|error| ApiError::invalid(error.to_string()))?;
    let kept = api.engine.keep_note(&caller.tenant, &session, VALUES, note).await;
    kept.map_err(|error| ApiError::submit(error, Some(&session)))?;
    let recipe = Arc::clone(&chosen.recipe);
    let rendered = blocking(move || recipe.render(&values)).await??;
    let mut shown = json!(&*chosen.recipe);
    shown["title"] = json!(rendered.title);
    shown["description"] = json!(rendered.description);
    for (field, text) in [("instructions", rendered.instructions), ("prompt", rendered.prompt)] {
        if let Some(text) = text {
            shown[field] = json!(text);
        }
    }
    if !rendered.activities.is_empty() {
        shown["activities"] = json!(rendered.activities);
    }
    Ok(Json(json!({ "recipe": shown })).into_response())
}
