//! `GET /recipes/list`: the recipes that can be used, newest first.

use std::sync::Arc;

use axum::{Json, extract::State};
use everturn_core::Timestamp;
use everturn_http::Scope;
use everturn_recipes::{Listed, Recipe};
use http::HeaderMap;
use serde::Serialize;

use crate::{error::ApiError, recipe::blocking, routes::Api, time::rfc3339};

#[derive(Serialize)]
pub(crate) struct Manifests {
    manifests: Vec<Manifest>,
}

#[derive(Serialize)]
struct Manifest {
    /// What `/agent/start` takes as `recipe_id`.
    id: String,
    #[serde(serialize_with = "recipe")]
    recipe: Arc<Recipe>,
    /// The name of its file, without the folder, which is the server's business.
    file_path: String,
    last_modified: String,
    schedule_cron: Option<String>,
    slash_command: Option<String>,
}

fn recipe<S: serde::Serializer>(recipe: &Arc<Recipe>, serializer: S) -> Result<S::Ok, S::Error> {
    recipe.as_ref().serialize(serializer)
}

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
