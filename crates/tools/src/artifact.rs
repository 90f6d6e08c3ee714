//! Documents that a model writes beside the conversation.

use everturn_core::{ArtifactId, EffectClass, Json, ToolSpec};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{Tool, ToolContext, ToolFailure, ToolKind, ToolOutput, input};

/// Longest title, in characters.
const MAX_TITLE: usize = 200;
/// Longest name of a language, in characters.
const MAX_LANGUAGE: usize = 40;

const CREATE_DESCRIPTION: &str = "Creates an artifact: a document that the person sees beside the conversation, while you write \
    it, and can keep, open and download. Use it for something that stands on its own and is longer than a few lines: a \
    report, a letter, a page, a program, a table, a drawing. Do not use it for short answers or for explanations, which \
    belong in the conversation. The content is the whole document, without remarks around it and without a code fence. \
    The result gives the artifact's id, which `update_artifact` takes.";

const UPDATE_DESCRIPTION: &str = "Replaces the content of an artifact that `create_artifact` made. Use it when the person asks for \
    a change to that document, instead of creating another one. The content is the whole new document, not only what \
    changes.";

// Title and type come before the content, so that readers know what they see while it is being written.
const CREATE_SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "title": {
      "type": "string",
      "description": "What the document is called.",
      "minLength": 1,
      "maxLength": 200
    },
    "type": {
      "type": "string",
      "enum": ["text", "markdown", "html", "code", "csv", "json", "svg"],
      "description": "What the content is: markdown for prose, html for a page that a browser shows, code for a program."
    },
    "language": {
      "type": "string",
      "description": "For code: the programming language, such as python.",
      "maxLength": 40
    },
    "content": {
      "type": "string",
      "description": "The whole document."
    }
  },
  "required": ["title", "type", "content"],
  "additionalProperties": false
}"#;

const UPDATE_SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "artifact_id": {
      "type": "string",
      "description": "The id that create_artifact gave.",
      "minLength": 1,
      "maxLength": 128
    },
    "title": {
      "type": "string",
      "description": "A new title, if it changes.",
      "minLength": 1,
      "maxLength": 200
    },
    "content": {
      "type": "string",
      "description": "The whole new document."
    }
  },
  "required": ["artifact_id", "content"],
  "additionalProperties": false
}"#;

/// What an artifact's content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactType {
    /// Plain text.
    Text,
    /// Markdown.
    Markdown,
    /// A page.
    Html,
    /// A program.
    Code,
    /// A table.
    Csv,
    /// Data.
    Json,
    /// A drawing.
    Svg,
}

impl ArtifactType {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Code => "code",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Svg => "svg",
        }
    }

    /// Its media type. A program is text: nothing may run it because of its type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text | Self::Code => "text/plain; charset=utf-8",
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Json => "application/json",
            Self::Svg => "image/svg+xml",
        }
    }

    /// The extension of a file with such content, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Text | Self::Code => "txt",
            Self::Markdown => "md",
            Self::Html => "html",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Svg => "svg",
        }
    }
}

/// Which artifact is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A new one.
    New {
        /// What it is called.
        title: String,
        /// What its content is.
        artifact_type: ArtifactType,
        /// For code: the programming language.
        language: Option<String>,
    },
    /// One that there is.
    Existing {
        /// Which.
        artifact_id: ArtifactId,
        /// Its new title, if it changes.
        title: Option<String>,
    },
}

/// What a model writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactInput {
    /// Where to.
    pub target: Target,
    /// The whole document.
    pub content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateInput {
    title: String,
    r#type: ArtifactType,
    language: Option<String>,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateInput {
    artifact_id: ArtifactId,
    title: Option<String>,
    content: String,
}

impl ArtifactInput {
    /// What an input of the tool of this name describes. The message is for the model that made the input.
    pub fn parse(tool: &str, input: &Json) -> Result<Self, String> {
        match tool {
            ArtifactTool::CREATE => {
                let CreateInput { title, r#type, language, content } = input::read(tool, input)?;
                input::check_length("title", &title, 1..=MAX_TITLE)?;
                if let Some(language) = &language {
                    input::check_length("language", language, 0..=MAX_LANGUAGE)?;
                }
                Ok(Self { target: Target::New { title, artifact_type: r#type, language }, content })
            }
            ArtifactTool::UPDATE => {
                let UpdateInput { artifact_id, title, content } = input::read(tool, input)?;
                if let Some(title) = &title {
                    input::check_length("title", title, 1..=MAX_TITLE)?;
                }
                Ok(Self { target: Target::Existing { artifact_id, title }, content })
            }
            other => {
                Err(format!("{other:?} writes no artifacts; {} and {} do", ArtifactTool::CREATE, ArtifactTool::UPDATE))
            }
        }
    }
}

/// The tools `create_artifact` and `update_artifact`.
#[derive(Debug)]
pub struct ArtifactTool {
    spec: ToolSpec,
}

impl ArtifactTool {
    /// The name of the tool that creates.
    pub const CREATE: &str = "create_artifact";
    /// The name of the tool that updates.
    pub const UPDATE: &str = "update_artifact";

    /// The tool that creates.
    pub fn create() -> Self {
        Self { spec: input::spec(Self::CREATE, "Create artifact", CREATE_DESCRIPTION, CREATE_SCHEMA) }
    }

    /// The tool that updates.
    pub fn update() -> Self {
        Self { spec: input::spec(Self::UPDATE, "Update artifact", UPDATE_DESCRIPTION, UPDATE_SCHEMA) }
    }
}

impl Tool for ArtifactTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn effect(&self) -> EffectClass {
        EffectClass::Idempotent
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Artifact
    }

    fn call(&self, _: ToolContext, _: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        input::performed_by_the_engine(&self.spec.name)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const TYPES: [ArtifactType; 7] = [
        ArtifactType::Text,
        ArtifactType::Markdown,
        ArtifactType::Html,
        ArtifactType::Code,
        ArtifactType::Csv,
        ArtifactType::Json,
        ArtifactType::Svg,
    ];

    fn parse(tool: &str, input: &str) -> Result<ArtifactInput, String> {
        ArtifactInput::parse(tool, &Json::parse(input).unwrap())
    }

    #[track_caller]
    fn refused(tool: &str, input: &str, expected: Expect) {
        expected.assert_eq(&parse(tool, input).unwrap_err());
    }

    #[test]
    fn types_are_named_alike_everywhere() {
        for kind in TYPES {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert!(CREATE_SCHEMA.contains(&format!("\"{}\"", kind.as_str())));
        }
    }

    #[test]
    fn files_say_what_they_are() {
        let shown: Vec<String> =
            TYPES.iter().map(|kind| format!(".{} {}", kind.extension(), kind.content_type())).collect();
        expect![[r#"
            .txt text/plain; charset=utf-8
            .md text/markdown; charset=utf-8
            .html text/html; charset=utf-8
            .txt text/plain; charset=utf-8
            .csv text/csv; charset=utf-8
            .json application/json
            .svg image/svg+xml"#]]
        .assert_eq(&shown.join("\n"));
    }

    #[test]
    fn inputs_are_read() {
        let target = Target::New {
            title: "Primes".to_owned(),
            artifact_type: ArtifactType::Code,
            language: Some("python".to_owned()),
        };
        assert_eq!(
            parse("create_artifact", r#"{"title":"Primes","type":"code","language":"python","content":"print(2)\n"}"#),
            Ok(ArtifactInput { target, content: "print(2)\n".to_owned() })
        );
        let target = Target::Existing { artifact_id: "art_1".parse().unwrap(), title: None };
        assert_eq!(
            parse("update_artifact", r#"{"artifact_id":"art_1","content":""}"#),
            Ok(ArtifactInput { target, content: String::new() })
        );
    }

    #[test]
    fn inputs_that_are_refused() {
        refused("clock", "{}", expect![[r#""clock" writes no artifacts; create_artifact and update_artifact do"#]]);
        refused(
            "create_artifact",
            "{}",
            expect!["the input is not what create_artifact takes: missing field `title` at line 1 column 2"],
        );
        refused(
            "create_artifact",
            r#"{"title":"","type":"text","content":""}"#,
            expect!["title has 0 characters, it must have 1 to 200"],
        );
        refused(
            "create_artifact",
            r#"{"title":"x","type":"exe","content":""}"#,
            expect![
                "the input is not what create_artifact takes: unknown variant `exe`, expected one of `text`, `markdown`, `html`, `code`, `csv`, `json`, `svg` at line 1 column 25"
            ],
        );
        let long = format!(r#"{{"title":"x","type":"code","language":"{}","content":""}}"#, "x".repeat(41));
        refused("create_artifact", &long, expect!["language has 41 characters, it must have 0 to 40"]);
        refused(
            "update_artifact",
            r#"{"artifact_id":"","content":""}"#,
            expect![
                "the input is not what update_artifact takes: an id has 1 to 128 characters, this one has 0 at line 1 column 17"
            ],
        );
        let long = format!(r#"{{"artifact_id":"a","title":"{}","content":""}}"#, "é".repeat(201));
        refused("update_artifact", &long, expect!["title has 201 characters, it must have 1 to 200"]);
        refused(
            "update_artifact",
            r#"{"artifact_id":"a"}"#,
            expect!["the input is not what update_artifact takes: missing field `content` at line 1 column 19"],
        );
    }
}
