//! What a spawn asks for.

use std::{borrow::Cow, collections::BTreeMap};

use everturn_core::{FormId, Json, ModelOptions, SessionId, ToolRef, submission::OnBusy};
use everturn_http::{Object, document};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::{
    error::{ApiError, Thing},
    model_options,
};

/// How many documents one message may bring.
const MAX_DOCUMENTS: usize = 20;

/// The body of a spawn, as it is sent.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[schema(as = native::SpawnFields)]
pub(crate) struct SpawnIn {
    /// What is said.
    message: Option<String>,
    /// A session to go on with; a new one if there is none.
    session_id: Option<String>,
    /// Whom to speak with; the first of the configured agents if nothing is said.
    agent_id: Option<String>,
    /// Documents to read.
    #[schema(max_items = 20)]
    document_ids: Option<Vec<String>>,
    /// The form that is answered.
    form_id: Option<String>,
    /// The answer to a form.
    #[schema(value_type = Option<Object>)]
    form_answer: Option<Box<RawValue>>,
    /// What to do if the session is busy.
    #[schema(schema_with = ways)]
    on_busy: Option<String>,
    /// How hard the model thinks in this turn; as the agent says if nothing is said.
    #[schema(schema_with = model_options::effort_words)]
    effort: Option<String>,
    /// Whether the model thinks in this turn, and whether a summary of it is shown; as the agent says if nothing is said.
    #[schema(schema_with = model_options::thinking_words)]
    thinking: Option<String>,
    agent_options: Option<BTreeMap<String, String>>,
    /// The tools that the session has from now on.
    #[schema(value_type = Option<Vec<ToolIn>>)]
    tools: Option<Vec<Object<ToolIn>>>,
}

/// A tool of the agent that is switched on.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[schema(as = native::ToolChoice)]
struct ToolIn {
    name: String,
    /// Whether it runs without asking.
    #[serde(default)]
    trust: bool,
}

fn ways() -> document::AnySchema {
    let words = json!(["enqueue", "reject", "interrupt", null]);
    document::schema(json!({ "type": ["string", "null"], "enum": words, "default": "enqueue" }))
}

/// The body of a spawn, for the document: it says something. There is a message, or a document, or an answer to a form,
/// which then belongs to a session.
pub(crate) struct SpawnBody;

impl utoipa::PartialSchema for SpawnBody {
    fn schema() -> document::AnySchema {
        let some_text = json!({ "type": "string", "pattern": document::NOT_BLANK });
        let no_text = json!({ "not": {
            "required": ["message"], "properties": { "message": some_text },
        } });
        let no_answer = json!({ "properties": { "form_id": { "type": "null" }, "form_answer": { "type": "null" } } });
        let in_session = json!({
            "required": ["session_id"],
            "properties": { "session_id": { "type": "string" }, "document_ids": { "maxItems": 0 } },
        });
        document::schema(json!({
            "description": "What is said: a message, documents, or an answer to a form",
            "allOf": [{ "$ref": "#/components/schemas/native.SpawnFields" }],
            "anyOf": [
                {
                    "title": "A message",
                    "allOf": [no_answer],
                    "required": ["message"],
                    "properties": { "message": some_text },
                },
                {
                    "title": "Documents",
                    "allOf": [no_answer],
                    "required": ["document_ids"],
                    "properties": { "document_ids": { "type": "array", "minItems": 1 } },
                },
                {
                    "title": "An answer to a form",
                    "allOf": [in_session, no_text],
                    "required": ["form_answer"],
                    "properties": { "form_answer": { "type": "object" } },
                },
                {
                    "title": "An answer to a form, in words",
                    "allOf": [in_session],
                    "required": ["form_id", "message"],
                    "properties": {
                        "form_id": { "type": "string" }, "message": some_text, "form_answer": { "type": "null" },
                    },
                },
            ],
        }))
    }
}

impl utoipa::ToSchema for SpawnBody {
    fn name() -> Cow<'static, str> {
        "native.Spawn".into()
    }

    fn schemas(schemas: &mut Vec<(String, document::AnySchema)>) {
        schemas
            .push((<SpawnIn as utoipa::ToSchema>::name().into_owned(), <SpawnIn as utoipa::PartialSchema>::schema()));
        <SpawnIn as utoipa::ToSchema>::schemas(schemas);
    }
}

/// A spawn that makes sense by itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spawn {
    /// `None` for a new session.
    pub(crate) session: Option<SessionId>,
    /// `None` for the default, or the session's own.
    pub(crate) agent: Option<String>,
    pub(crate) said: Said,
    pub(crate) on_busy: OnBusy,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) tools: Option<Vec<ToolRef>>,
    /// How the model thinks in this turn.
    pub(crate) model_options: ModelOptions,
}

/// What is said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A message: a text, documents, or both.
    Message { text: Option<String>, documents: Vec<String> },
    /// An answer to a form, and nothing else.
    Answer { form: Option<FormId>, value: Json },
}

impl TryFrom<SpawnIn> for Spawn {
    type Error = ApiError;

    fn try_from(request: SpawnIn) -> Result<Self, ApiError> {
        let SpawnIn {
            message,
            session_id,
            agent_id,
            document_ids,
            form_id,
            form_answer,
            on_busy,
            effort,
            thinking,
            agent_options,
            tools,
        } = request;
        let session = match session_id {
            Some(id) => Some(id.parse().map_err(|_| ApiError::no(Thing::Session, &id))?),
            None => None,
        };
        let text = message.filter(|text| !text.trim().is_empty());
        let said = match (form_id, form_answer) {
            (None, None) => said(text, document_ids.unwrap_or_default())?,
            (form_id, answer) => {
                if session.is_none() {
                    return Err(ApiError::invalid("session_id is missing: a form belongs to a session")
                        .hint("GET /api/v1/forms tells a form's session_id"));
                }
                if document_ids.is_some_and(|ids| !ids.is_empty()) {
                    return Err(ApiError::invalid("document_ids cannot be part of an answer to a form"));
                }
                answer_to(form_id, answer, text)?
            }
        };
        let tool = |Object(ToolIn { name, trust })| ToolRef { name, trust };
        Ok(Self {
            session,
            agent: agent_id,
            said,
            on_busy: on_busy.as_deref().map_or(Ok(OnBusy::Enqueue), busy)?,
            options: agent_options.unwrap_or_default(),
            tools: tools.map(|tools| tools.into_iter().map(tool).collect()),
            model_options: ModelOptions {
                effort: said_as("effort", effort, model_options::effort)?,
                thinking: said_as("thinking", thinking, model_options::thinking)?,
                ..ModelOptions::default()
            },
        })
    }
}

/// What a field's word stands for, if there is one.
fn said_as<T>(field: &str, word: Option<String>, read: fn(&str) -> Result<T, String>) -> Result<Option<T>, ApiError> {
    let value = word.map(|word| read(&word)).transpose();
    value.map_err(|what| ApiError::invalid(format!("{field}: {what}")))
}

fn said(text: Option<String>, ids: Vec<String>) -> Result<Said, ApiError> {
    if ids.len() > MAX_DOCUMENTS {
        let message = format!("document_ids names {} documents, the limit is {MAX_DOCUMENTS}", ids.len());
        return Err(ApiError::invalid(message));
    }
    if text.is_none() && ids.is_empty() {
        return Err(ApiError::invalid("message is missing or blank")
            .hint("send a message, document_ids, or a form_answer to a form that waits"));
    }
    // A document that is named twice is read once.
    let mut documents: Vec<String> = Vec::with_capacity(ids.len());
    for id in ids {
        if !documents.contains(&id) {
            documents.push(id);
        }
    }
    Ok(Said::Message { text, documents })
}

fn answer_to(form_id: Option<String>, answer: Option<Box<RawValue>>, text: Option<String>) -> Result<Said, ApiError> {
    let form = match form_id {
        Some(id) => Some(id.parse().map_err(|_| ApiError::no(Thing::Form, &id))?),
        None => None,
    };
    let value = match (answer.map(Json::from), text) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("message and form_answer are both there; send one of them"));
        }
        (Some(value), None) if value.is_object() => value,
        (Some(_), None) => return Err(ApiError::invalid("form_answer must be an object")),
        (None, Some(text)) => in_words(&text)?,
        (None, None) => {
            return Err(ApiError::invalid("the answer to form_id is missing: send a form_answer, or a message"));
        }
    };
    Ok(Said::Answer { form, value })
}

/// A plain text as an answer to a form.
pub(crate) fn in_words(text: &str) -> Result<Json, ApiError> {
    Json::of(&text).map_err(|error| ApiError::internal(&error))
}

fn busy(word: &str) -> Result<OnBusy, ApiError> {
    match word {
        "enqueue" => Ok(OnBusy::Enqueue),
        "reject" => Ok(OnBusy::Reject),
        "interrupt" => Ok(OnBusy::Interrupt),
        other => {
            let shown: String = other.chars().take(64).collect();
            let message = format!("on_busy cannot be {shown:?}; use \"enqueue\", \"reject\" or \"interrupt\"");
            Err(ApiError::invalid(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use everturn_core::{Effort, Thinking};
    use everturn_http::{BodyLimits, Object, parse_json};
    use expect_test::{Expect, expect};

    use super::*;

    fn read(body: &str) -> Result<Spawn, ApiError> {
        let Object(request): Object<SpawnIn> = parse_json(body.as_bytes(), BodyLimits { bytes: 1000, depth: 20 })?;
        request.try_into()
    }

    #[track_caller]
    fn check(body: &str, expected: Expect) {
        let shown = match read(body) {
            Ok(Spawn { session, agent, said, on_busy, options, tools, model_options }) => {
                let model_options =
                    if model_options.is_empty() { String::new() } else { format!(" {model_options:?}") };
                format!("{session:?} {agent:?} {said:?} {on_busy:?} {options:?} {tools:?}{model_options}")
            }
            Err(error) => serde_json::to_string(&error).unwrap(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn what_makes_sense() {
        check(
            r#"{"message":" hi ","unknown":[1],"session_id":null,"tools":null}"#,
            expect![[r#"None None Message { text: Some(" hi "), documents: [] } Enqueue {} None"#]],
        );
        check(
            r#"{"document_ids":["doc_1","doc_2","doc_1"],"message":"","agent_id":"demo"}"#,
            expect![[r#"None Some("demo") Message { text: None, documents: ["doc_1", "doc_2"] } Enqueue {} None"#]],
        );
        check(
            r#"{"message":"hi","session_id":"sess_1","on_busy":"interrupt","agent_options":{"language":"English"},
                "tools":[{"name":"clock","trust":true}]}"#,
            expect![[
                r#"Some(sess_1) None Message { text: Some("hi"), documents: [] } Interrupt {"language": "English"} Some([ToolRef { name: "clock", trust: true }])"#
            ]],
        );
        check(
            r#"{"message":"","session_id":"sess_1","form_answer":{"n": 1.0}}"#,
            expect![[r#"Some(sess_1) None Answer { form: None, value: {"n": 1.0} } Enqueue {} None"#]],
        );
        check(
            r#"{"message":"\"yes\"","session_id":"sess_1","form_id":"form_1"}"#,
            expect![[r#"Some(sess_1) None Answer { form: Some(form_1), value: "\"yes\"" } Enqueue {} None"#]],
        );
    }

    #[test]
    fn how_the_model_thinks() {
        let read = |fields: &str| read(&format!(r#"{{"message":"hi",{fields}}}"#));
        let options = read(r#""effort":"xhigh","thinking":"summary""#).unwrap().model_options;
        assert_eq!((options.effort, options.thinking), (Some(Effort::Xhigh), Some(Thinking::Summary)));
        assert!(read(r#""effort":null,"thinking":null"#).unwrap().model_options.is_empty());
        check(
            r#"{"message":"hi","effort":"High"}"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"effort: it cannot be \"High\"; use one of \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\", \"max\""}"#
            ]],
        );
        check(
            r#"{"message":"hi","thinking":"auto"}"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"thinking: it cannot be \"auto\"; use one of \"off\", \"on\", \"summary\""}"#
            ]],
        );
    }

    #[test]
    fn what_is_missing() {
        let missing = expect![[
            r#"{"code":"VALIDATION_FAILED","message":"message is missing or blank","hint":"send a message, document_ids, or a form_answer to a form that waits"}"#
        ]];
        for body in ["{}", r#"{"message":null}"#, r#"{"message":" \n"}"#, r#"{"document_ids":[]}"#] {
            missing.assert_eq(&serde_json::to_string(&read(body).unwrap_err()).unwrap());
        }
        check(
            r#"{"session_id":"sess_1","form_id":"form_1","message":" "}"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"the answer to form_id is missing: send a form_answer, or a message"}"#
            ]],
        );
        check(
            r#"{"form_answer":{}}"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"session_id is missing: a form belongs to a session","hint":"GET /api/v1/forms tells a form's session_id"}"#
            ]],
        );
    }

    #[test]
    fn what_is_of_the_wrong_kind() {
        check(
            r#"["hi"]"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"the body is not valid: invalid type: sequence, expected an object at line 1 column 0"}"#
            ]],
        );
        check(
            r#"{"message":1}"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"the body is not valid at message: invalid type: integer `1`, expected a string at line 1 column 12"}"#
            ]],
        );
        check(
            r#"{"message":"hi","tools":[{"name":"clock","trust":"yes"}]}"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"the body is not valid at tools[0].trust: invalid type: string \"yes\", expected a boolean at line 1 column 54"}"#
            ]],
        );
        check(
            r#"{"message":"hi","tools":[["clock",true]]}"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"the body is not valid at tools[0]: invalid type: sequence, expected an object at line 1 column 25"}"#
            ]],
        );
        check(
            r#"{"message":"hi","agent_options":{"size":3}}"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"the body is not valid at agent_options.size: invalid type: integer `3`, expected a string at line 1 column 41"}"#
            ]],
        );
        check(
            r#"{"session_id":"sess_1","form_answer":"yes"}"#,
            expect![[r#"{"code":"VALIDATION_FAILED","message":"form_answer must be an object"}"#]],
        );
        check(
            r#"{"message":"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"the body is not valid at message: EOF while parsing a value at line 1 column 11"}"#
            ]],
        );
    }

    #[test]
    fn what_cannot_be() {
        check(
            r#"{"message":"hi","on_busy":"supersede"}"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"on_busy cannot be \"supersede\"; use \"enqueue\", \"reject\" or \"interrupt\""}"#
            ]],
        );
        check(
            r#"{"message":"hi","session_id":"a/b"}"#,
            expect![[
                r#"{"code":"SESSION_NOT_FOUND","message":"there is no session \"a/b\"","hint":"GET /api/v1/sessions lists yours"}"#
            ]],
        );
        check(
            r#"{"message":"hi","session_id":"sess_1","form_id":""}"#,
            expect![[
                r#"{"code":"FORM_NOT_FOUND","message":"there is no form \"\"","hint":"GET /api/v1/forms lists yours"}"#
            ]],
        );
        check(
            r#"{"message":"hi","session_id":"sess_1","form_answer":{}}"#,
            expect![[
                r#"{"code":"VALIDATION_FAILED","message":"message and form_answer are both there; send one of them"}"#
            ]],
        );
        check(
            r#"{"session_id":"sess_1","form_answer":{},"document_ids":["doc_1"]}"#,
            expect![[r#"{"code":"VALIDATION_FAILED","message":"document_ids cannot be part of an answer to a form"}"#]],
        );
        let ids: Vec<_> = (0..21).map(|n| format!("doc_{n}")).collect();
        check(
            &serde_json::json!({ "document_ids": ids }).to_string(),
            expect![[r#"{"code":"VALIDATION_FAILED","message":"document_ids names 21 documents, the limit is 20"}"#]],
        );
    }
}
