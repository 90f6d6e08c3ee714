//! What makes a set of tools, and what does not.

use std::sync::Arc;

use everturn_core::{EffectClass, Json, ToolSpec};
use everturn_tools::{Tool, ToolContext, ToolFailure, ToolOutput, ToolSet};
use futures_util::future::{BoxFuture, FutureExt};

#[derive(Debug)]
struct Nothing(ToolSpec);

impl Tool for Nothing {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effect(&self) -> EffectClass {
        EffectClass::ReadOnly
    }

    fn call(&self, _: ToolContext, _: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        std::future::ready(Ok(ToolOutput::text(""))).boxed()
    }
}

fn tool(name: &str, schema: &str) -> Arc<dyn Tool> {
    Arc::new(Nothing(ToolSpec {
        name: name.to_owned(),
        title: None,
        description: String::new(),
        input_schema: Json::parse(schema).unwrap(),
    }))
}

#[track_caller]
fn refused(tools: Vec<Arc<dyn Tool>>, expected: &str) {
    assert_eq!(ToolSet::new(tools).unwrap_err().to_string(), expected);
}

#[test]
fn names_are_unique_and_ones_that_providers_take() {
    refused(vec![tool("a", "{}"), tool("a", "{}")], "there are two tools called \"a\"");
    refused(
        vec![tool("files/read", "{}")],
        "\"files/read\" cannot be a tool's name: it must have 1 to 64 characters of A-Z a-z 0-9 _ -",
    );
    refused(vec![tool("", "{}")], "\"\" cannot be a tool's name: it must have 1 to 64 characters of A-Z a-z 0-9 _ -");
}

#[test]
fn schemas_compile_when_the_set_is_made() {
    refused(
        vec![tool("a", r#"{"$ref":"https://example.org/schema.json"}"#)],
        "tool \"a\": the schema refers to \"https://example.org/schema.json\"; only references into the schema itself, \
         such as \"#/$defs/name\", are followed",
    );
}
