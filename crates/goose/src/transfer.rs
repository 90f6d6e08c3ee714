//! Sessions as files: what one server gives out, another takes in.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_core::{Message, Timestamp};
use everturn_engine::{ImportedTurn, NewConversation, SessionUpdate};
use everturn_http::{
    BodyLimits, Caller, Object, Scope, document::IdempotencyKey, held, parse_json, read_body, submission_key,
};
use everturn_recipes::Recipe;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::{
    agent::note_folder,
    answers::{Always, NoSession, NotMade, Posted},
    describe::{HistoryMessage, SessionParam, described, of, said, values},
    error::ApiError,
    recipe::{Chosen, Dressing, put_on},
    reply::unwrapped,
    routes::{Api, One, session_of},
    scalar::Scalar,
    session_out::{SessionOut, session_example},
    sessions::{Detail, checked_name},
    wire::{MessageIn, Visible, history},
};

/// Give out a session as a file
///
/// A JSON string with the session's pretty JSON in it: what the releases send, and save as a file.
#[utoipa::path(
    get, path = "/sessions/{session}/export", operation_id = "goose_released_export_session",
    params(("session" = inline(SessionParam), Path, description = "The session")),
    responses(
        (status = 200, description = "The file", content_type = "application/json", body = String, example = json!("{\n  \"id\": \"20260304_1\"\n}")),
        Always, NoSession,
    ),
)]
pub(crate) async fn export(State(api): State<Api>, path: One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let record = api.record(&caller.tenant, &session_of(path)?).await?;
    let pretty = |session: &SessionOut<'_>| serde_json::to_string_pretty(session);
    let (text, memory) = api.show_session(&caller.tenant, &record, Detail::Conversation, pretty).await?;
    Ok(held(Json(text).into_response(), memory))
}

/// A session as some server gave it out, or a field with the text of such a file.
#[derive(Deserialize)]
struct SessionIn {
    json: Option<String>,
    name: Option<String>,
    /// What older releases called the name.
    description: Option<String>,
    working_dir: Option<String>,
    conversation: Option<Vec<Object<MessageIn>>>,
    messages: Option<Vec<Object<MessageIn>>>,
    recipe: Option<Box<RawValue>>,
    user_recipe_values: Option<BTreeMap<String, Scalar>>,
    agent: Option<String>,
}

described! {
    /// What can be imported.
    ImportIn = "goose.Import", [HistoryMessage], json!({
        "type": "object",
        "description": "A session as some server gave it out, or a field with the text of such a file",
        "properties": {
            "json": {
                "type": ["string", "null"], "description": "The text of a file; nothing else is looked at then",
                "contentMediaType": "application/json", "contentSchema": of("goose.Import"),
            },
            "name": { "type": ["string", "null"] },
            "description": { "type": ["string", "null"], "description": "What older releases called the name" },
            "working_dir": { "type": ["string", "null"], "maxLength": 4096 },
            "conversation": said(),
            "messages": said(),
            "recipe": { "description": "Left out if this server lacks what it needs" },
            "user_recipe_values": values(),
            "agent": { "type": ["string", "null"] },
        },
        "anyOf": [
            { "required": ["json"], "properties": { "json": { "type": "string" } } },
            { "required": ["conversation"], "properties": { "conversation": { "type": "array" } } },
            { "required": ["messages"], "properties": { "messages": { "type": "array" } } },
        ],
    });
}

impl SessionIn {
    fn read(body: &[u8], limits: BodyLimits) -> Result<Self, ApiError> {
        let Object(outer): Object<Self> = parse_json(body, limits)?;
        let Some(text) = &outer.json else { return Ok(outer) };
        let Object(inner) = parse_json(text.as_bytes(), limits).map_err(|error| {
            ApiError::new(StatusCode::BAD_REQUEST, format!("json: this is no exported session: {error}"))
        })?;
        Ok(inner)
    }
}

/// Take in a session from a file
///
/// Of this server or another one. It gets an id of its own.
#[utoipa::path(
    post, path = "/sessions/import", operation_id = "goose_released_import_session",
    params(IdempotencyKey),
    request_body(content = ImportIn, description = "The session", example = json!({
        "name": "Greetings",
        "conversation": [
            { "role": "user", "created": 1_772_618_400, "content": [{ "type": "text", "text": "Hello" }] },
            { "role": "assistant", "created": 1_772_618_401, "content": [{ "type": "text", "text": "Hello!" }] },
        ],
    })),
    responses(
        (status = 200, description = "The session", body = SessionOut<'_>, example = json!(session_example(true))),
        Always, Posted, NotMade,
    ),
)]
pub(crate) async fn import(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let limits = api.message_limits();
    let body = read_body(&headers, body, limits, &api.engine.memory_of(&caller.tenant)).await?;
    let session = SessionIn::read(&body, limits)?;
    let key = submission_key(&headers, "POST /goose/sessions/import", &body)?;
    let agent = session.agent.filter(|agent| api.engine.agents().get(agent).is_some());
    let agent = agent.map_or_else(|| api.default_agent(), Ok)?;
    let mut update = SessionUpdate { agent_tools: true, titled: true, ..SessionUpdate::default() };
    if let Some(folder) = session.working_dir {
        note_folder(&mut update, &folder)?;
    }
    if let Some(recipe) = session.recipe {
        api.import_recipe(&caller, &agent, &recipe, session.user_recipe_values.unwrap_or_default(), &mut update)
            .await?;
    }
    let said = session.conversation.or(session.messages);
    let said = said.ok_or_else(|| ApiError::invalid("conversation is missing: this is no exported session"))?;
    let said = history("conversation", unwrapped(said), Visible::ToUsers)?;
    // A name that is too long for us is no reason to refuse all the rest.
    let title = session.name.or(session.description).and_then(|name| checked_name(Some(&name)).ok());
    let new = NewConversation { agent, id: None, title, update, turns: turns(said, Timestamp::now()) };
    let record = api.engine.create_session(&caller.tenant, new, key).await;
    let record = record.map_err(|error| ApiError::submit(error, None))?;
    let (session, memory) = api.whole_session(&caller.tenant, &record).await?;
    Ok(held(Json(session).into_response(), memory))
}

impl Api {
    /// The recipe of a session from elsewhere. Where this server lacks what it needs, the session is without it; where the
    /// caller may not use what it names, it is refused.
    async fn import_recipe(
        &self,
        caller: &Caller,
        agent: &str,
        recipe: &RawValue,
        values: BTreeMap<String, Scalar>,
        update: &mut SessionUpdate,
    ) -> Result<(), ApiError> {
        let recipe: Arc<Recipe> = match Recipe::from_json(recipe.get()) {
            Ok(recipe) => Arc::new(recipe),
            Err(error) => {
                tracing::info!(%error, "a session is imported without its recipe");
                return Ok(());
            }
        };
        let values = values.into_iter().map(|(key, Scalar(value))| (key, value)).collect();
        let chosen = Chosen { recipe, name: None };
        match self.overlay(caller, agent, &chosen, &values).await {
            Ok(overlay) => put_on(update, &chosen, &values, Some(overlay)),
            Err(Dressing::Beyond(error)) => Err(error),
            Err(error) => {
                tracing::info!(error = %error.told(), "a session is imported without its recipe");
                Ok(())
            }
        }
    }
}

/// A conversation in turns: each begins with something that the user said.
fn turns(said: Vec<(Option<Timestamp>, Message)>, now: Timestamp) -> Vec<ImportedTurn> {
    let mut turns: Vec<ImportedTurn> = Vec::new();
    let mut latest = None;
    for (at, message) in said {
        latest = at.or(latest);
        let begins = matches!(message, Message::User { .. });
        match turns.last_mut() {
            Some(turn) if !begins => turn.messages.push(message),
            _ => turns.push(ImportedTurn { messages: vec![message], at: latest.unwrap_or(now) }),
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use everturn_core::CallId;
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn files_of_the_releases_are_read() {
        let limits = BodyLimits { bytes: 1 << 20, depth: 64 };
        let file = include_str!("../tests/fixtures/released-session.json");
        let wrapped = json!({ "json": file }).to_string();
        let [bare, session] = [file, &wrapped].map(|body| SessionIn::read(body.as_bytes(), limits).unwrap());
        assert_eq!(bare.name, session.name);
        assert_eq!(session.name.as_deref(), Some("Tidy the notes"));
        assert_eq!(session.working_dir.as_deref(), Some("/srv/ann/project"));
        assert!(Recipe::from_json(session.recipe.unwrap().get()).is_ok());
        assert_eq!(session.user_recipe_values.unwrap()["lang"], Scalar("English".to_owned()));
        let said = history("conversation", unwrapped(session.conversation.unwrap()), Visible::ToUsers).unwrap();
        let shown = turns(said, Timestamp(0)).into_iter().map(|turn| {
            let messages = turn.messages.iter().map(|message| format!("  {message:?}\n"));
            format!("{}\n{}", turn.at.millis(), messages.collect::<String>())
        });
        expect![[r#"
            1772618400000
              User { content: Blocks([Text("What is in notes.txt? Here is a picture of it."), Image { url: "data:image/png;base64,iVBORw0KGgo=" }]) }
              Assistant { content: Blocks([Thinking { text: "I should look.", signature: None }, Text("I look at both files."), ToolUse(ToolUse { id: toolu_01, name: "developer__shell", input: {"command": "cat notes.txt"} }), ToolUse(ToolUse { id: toolu_02, name: "unreadable_call", input: {"error":"-32602: Could not interpret tool use parameters"} })]) }
              Tool { call_id: toolu_01, content: Blocks([Text("milk\n"), Text("milk")]), is_error: false }
              Tool { call_id: toolu_02, content: Text("-32602: Could not interpret tool use parameters"), is_error: true }
              Assistant { content: Text("You need milk from the corner shop.") }
            1772618700000
              User { content: Text("Thanks") }
              Assistant { content: Text("You are welcome.") }
        "#]].assert_eq(&shown.collect::<String>());
    }

    #[test]
    fn what_is_no_session_is_refused() {
        let limits = BodyLimits { bytes: 1 << 20, depth: 64 };
        for wrong in ["[]", "7", r#"{"json":"[]"}"#, r#"{"json":"{"}"#, r#"{"json":7}"#, r#"{"conversation":7}"#] {
            assert!(SessionIn::read(wrong.as_bytes(), limits).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_turn_begins_with_the_user() {
        let said = vec![
            (None, Message::assistant("Welcome")),
            (Some(Timestamp(1)), Message::user("a")),
            (Some(Timestamp(2)), Message::assistant("b")),
            (Some(Timestamp(3)), Message::tool(CallId::new("c"), "d")),
            (None, Message::user("e")),
        ];
        let turns = turns(said, Timestamp(9));
        let shown: Vec<_> = turns.iter().map(|turn| (turn.at.millis(), turn.messages.len())).collect();
        assert_eq!(shown, [(9, 1), (1, 3), (3, 1)]);
    }
}
