//! `GET /recipes/list`: the recipes that can be used, newest first.

use std::sync::Arc;

use axum::{Json, extract::State};
use everturn_core::Timestamp;
use everturn_http::Scope;
use everturn_recipes::{Listed, Recipe};
use http::HeaderMap;
use serde::Serialize;

use crate::{answers::Always, describe::RecipeOut, error::ApiError, recipe::blocking, routes::Api, time::rfc3339};

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Recipes)]
pub(crate) struct Manifests {
    manifests: Vec<Manifest>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::RecipeManifest)]
struct Manifest {
    /// What `/agent/start` takes as `recipe_id`.
    id: String,
    #[serde(serialize_with = "recipe")]
    #[schema(value_type = RecipeOut)]
    recipe: Arc<Recipe>,
    /// The name of its file, without the folder, which is the server's business.
    file_path: String,
    #[schema(format = DateTime)]
    last_modified: String,
    #[schema(required)]
    schedule_cron: Option<String>,
    #[schema(required)]
    slash_command: Option<String>,
}

fn recipe<S: serde::Serializer>(recipe: &Arc<Recipe>, serializer: S) -> Result<S::Ok, S::Error> {
    recipe.as_ref().serialize(serializer)
}

/// List the recipes that can be used
///
/// Newest first.
#[utoipa::path(
    get, path = "/recipes/list", operation_id = "goose_released_list_recipes",
    responses(
        (status = 200, description = "The recipes of the server", body = Manifests, example = json!({ "manifests": [{
            "id": "code-helper@1.0.0",
            "recipe": {
                "version": "1.0.0", "title": "Code helper", "description": "Helps", "instructions": "You help with {{ lang }}.",
                "parameters": [{
                    "key": "lang", "input_type": "string", "requirement": "required", "description": "The language",
                }],
            },
            "file_path": "code-helper",
            "last_modified": "2026-03-04T10:00:00Z",
            "schedule_cron": null,
            "slash_command": null,
        }] })),
        Always,
    ),
)]
pub(crate) async fn list(State(api): State<Api>, headers: HeaderMap) -> Result<Json<Manifests>, ApiError> {
    api.caller(&headers, Scope::Read)?;
    let mut listed = match api.recipes.clone() {
        Some(recipes) => blocking(move || recipes.list()).await??,
        None => Vec::new(),
    };
    listed.sort_by_key(|listed| std::cmp::Reverse(listed.modified));
    Ok(Json(Manifests { manifests: listed.into_iter().filter_map(manifest).collect() }))
}

fn manifest(listed: Listed) -> Option<Manifest> {
    let Listed { name, recipe, modified, .. } = listed;
    let recipe = recipe?;
    let modified = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let millis = modified.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0);
    Some(Manifest {
        id: format!("{name}@{}", recipe.version),
        file_path: name,
        recipe,
        last_modified: rfc3339(Timestamp(millis)),
        schedule_cron: None,
        slash_command: None,
    })
}
