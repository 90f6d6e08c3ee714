//! What makes a set of tools, and what does not; and tools of servers, which come and go.

use std::{pin::pin, sync::Arc, time::Duration};

use everturn_core::{EffectClass, Json, ToolSpec};
use everturn_tools::{Origin, Tool, ToolContext, ToolFailure, ToolOutput, ToolSet, ToolSetError};
use futures_util::future::{BoxFuture, FutureExt};

#[derive(Debug)]
struct Nothing {
    spec: ToolSpec,
    origin: Option<(String, String)>,
}

impl Tool for Nothing {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> EffectClass {
        EffectClass::ReadOnly
    }

    fn origin(&self) -> Option<Origin<'_>> {
        self.origin.as_ref().map(|(server, tool)| Origin { server, tool })
    }

    fn call(&self, _: ToolContext, _: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        std::future::ready(Ok(ToolOutput::text(""))).boxed()
    }
}

fn spec(name: &str, schema: &str) -> ToolSpec {
    let input_schema = Json::parse(schema).unwrap();
    ToolSpec { name: name.to_owned(), title: None, description: String::new(), input_schema }
}

fn tool(name: &str, schema: &str) -> Arc<dyn Tool> {
    Arc::new(Nothing { spec: spec(name, schema), origin: None })
}

/// A tool that is called `name` here and `tool` on its server.
fn tool_of(server: &str, tool: &str, name: &str) -> Arc<dyn Tool> {
    Arc::new(Nothing { spec: spec(name, "{}"), origin: Some((server.to_owned(), tool.to_owned())) })
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

/// A set with two servers whose tools are called other things here than there.
fn two_servers() -> ToolSet {
    let set = ToolSet::new([tool("look", "{}"), tool("wait", "{}")]).unwrap();
    let files = vec![tool_of("files", "read", "files__read"), tool_of("files", "write", "files__write")];
    assert_eq!(set.set_server("files", Ok(files)), []);
    let mail = vec![tool_of("mail", "read", "mail__read"), tool_of("mail", "look", "mail__look")];
    assert_eq!(set.set_server("mail", Ok(mail)), []);
    set
}

#[track_caller]
fn named(set: &ToolSet, patterns: &[&str], expected: &[&str]) {
    let patterns: Vec<_> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    let names: Vec<_> = set.named(&patterns).iter().map(|tool| tool.spec().name.clone()).collect();
    assert_eq!(names, expected, "{patterns:?}");
}

#[test]
fn patterns_name_tools() {
    let set = two_servers();
    named(&set, &["look"], &["look"]);
    named(&set, &["files/*"], &["files__read", "files__write"]);
    named(&set, &["mail/read"], &["mail__read"]);
    // In the order of the patterns, each once.
    named(&set, &["wait", "mail/look", "mail/*", "look", "wait"], &["wait", "mail__look", "mail__read", "look"]);
    // By its name here, whoever it comes from.
    named(&set, &["files__read", "files/read"], &["files__read"]);
    named(&set, &[], &[]);
    for nothing in ["read", "files", "files/", "files/files__read", "/read", "*", "*/*", "*/read", "nosuch/*", "look/*"]
    {
        named(&set, &[nothing], &[]);
    }
    // A server's tool is not mistaken for one of ours that is called the same.
    named(&set, &["mail/look"], &["mail__look"]);
}

#[tokio::test]
async fn a_servers_list_is_replaced_whole() {
    let set = two_servers();
    assert_eq!(set.servers()["files"].tools, ["files__read", "files__write"]);
    assert_eq!(set.set_server("files", Ok(vec![tool_of("files", "list", "files__list")])), []);
    named(&set, &["files/*"], &["files__list"]);
    assert!(set.get("files__read").is_none() && set.get("mail__read").is_some() && set.get("look").is_some());
    assert_eq!(set.names(), ["files__list", "look", "mail__look", "mail__read", "wait"]);
    let server = &set.servers()["files"];
    assert_eq!((server.trouble.as_deref(), server.tools.as_slice()), (None, ["files__list".to_owned()].as_slice()));
    // Its schema went with it.
    let input = Json::empty_object();
    assert!(set.validate("acme", "files__list", &input).await.is_ok());
    let missing = set.validate("acme", "files__read", &input).await.unwrap_err();
    assert_eq!(missing, "there is no tool called \"files__read\"");
}

#[test]
fn a_new_list_has_a_new_revision() {
    let set = ToolSet::default();
    assert!(set.servers().is_empty(), "nothing is known before it is said");
    set.set_server("files", Err("it does not answer".to_owned()));
    assert_eq!(set.servers()["files"].revision, 0);
    set.set_server("files", Ok(vec![tool_of("files", "read", "files__read")]));
    let first = set.servers()["files"].revision;
    set.set_server("files", Ok(vec![tool_of("files", "write", "files__write")]));
    let second = set.servers()["files"].revision;
    assert!(first > 0 && second > first);
    // A server that was started again and has what it had is no news.
    set.set_server("files", Err("it ended".to_owned()));
    set.set_server("files", Ok(vec![tool_of("files", "write", "files__write")]));
    assert_eq!((set.servers()["files"].revision, set.servers()["files"].trouble.clone()), (second, None));
}

/// A server that is in trouble has the tools that were known before, until it says otherwise.
#[test]
fn trouble_leaves_the_list_as_it_was() {
    let set = two_servers();
    let before = set.servers()["files"].clone();
    set.set_server("files", Err("it does not answer".to_owned()));
    let server = set.servers()["files"].clone();
    assert_eq!(server.trouble.as_deref(), Some("it does not answer"));
    assert_eq!((&server.tools, server.revision), (&before.tools, before.revision));
    named(&set, &["files/*"], &["files__read", "files__write"]);
    set.set_server("files", Ok(Vec::new()));
    assert_eq!(set.servers()["files"].trouble, None);
    named(&set, &["files/*"], &[]);
}

/// What cannot be taken is told and left out; the others are there.
#[test]
fn a_tool_that_cannot_be_taken_is_left_out() {
    let set = two_servers();
    let bad_schema: Arc<dyn Tool> = Arc::new(Nothing {
        spec: spec("web__bad", r#"{"type":"nonsense"}"#),
        origin: Some(("web".to_owned(), "bad".to_owned())),
    });
    let tools = vec![
        tool_of("web", "look", "look"),
        tool_of("web", "read", "mail__read"),
        tool_of("web", "a/b", "web__a/b"),
        bad_schema,
        tool_of("web", "get", "web__get"),
        tool_of("web", "get2", "web__get"),
    ];
    let refused = set.set_server("web", Ok(tools));
    let kinds: Vec<_> = refused
        .iter()
        .map(|error| match error {
            ToolSetError::Duplicate { name } => format!("twice {name}"),
            ToolSetError::Name { name } => format!("name {name}"),
            ToolSetError::Schema { name, .. } => format!("schema {name}"),
        })
        .collect();
    assert_eq!(kinds, ["twice look", "twice mail__read", "name web__a/b", "schema web__bad", "twice web__get"]);
    assert_eq!(set.servers()["web"].tools, ["web__get"]);
    // Those of the others stay theirs, also when this server goes.
    set.set_server("web", Ok(Vec::new()));
    assert!(set.get("look").is_some_and(|tool| tool.origin().is_none()));
    named(&set, &["mail/*"], &["mail__look", "mail__read"]);
}

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn whoever_needs_a_tool_waits_for_its_server() {
    let set = ToolSet::new([tool("look", "{}")]).unwrap();
    assert_eq!(set.awaited("files__read"), None, "nobody has heard of such a server");
    set.start_server("files");
    assert_eq!(set.awaited("files__read").as_deref(), Some("it is being started"));
    assert!(set.servers()["files"].starts.is_some());
    for other in ["look", "filesread", "file__read", "mail__read"] {
        assert_eq!(set.awaited(other), None, "{other}");
    }
    let mut arrives = pin!(set.arrival("files__read"));
    let mut starts = pin!(set.started(&["files", "nosuch"], LONG));
    assert_eq!((arrives.as_mut().now_or_never(), starts.as_mut().now_or_never()), (None, None));
    assert_eq!(set.started(&["files"], Duration::ZERO).now_or_never(), Some(()), "it has had its time");
    // It cannot be started for now: whoever waits for all servers goes on, whoever needs the tool waits.
    set.set_server("files", Err("it does not answer".to_owned()));
    assert_eq!((arrives.as_mut().now_or_never(), starts.as_mut().now_or_never()), (None, Some(())));
    assert_eq!(set.awaited("files__read").as_deref(), Some("it does not answer"));
    set.set_server("files", Ok(vec![tool_of("files", "read", "files__read")]));
    assert_eq!(arrives.now_or_never(), Some(()));
    // From now on what it has is known, also while it is started again.
    assert_eq!(set.awaited("files__write"), None);
    set.start_server("files");
    assert_eq!((set.awaited("files__read"), set.awaited("files__write")), (None, None));
    assert_eq!(set.arrival("files__write").now_or_never(), Some(()));
    assert_eq!(set.started(&["files"], LONG).now_or_never(), Some(()));
    named(&set, &["files/*"], &["files__read"]);
}
