//! A model's answer as text, so that tests can show a whole answer at once.

use std::fmt::Write;

use everturn_models::{Model, ModelError, ModelEvent, ModelRequest};
use futures_util::StreamExt;

/// Everything that a call gives, pieces of one kind joined.
pub(crate) async fn answer(model: &dyn Model, request: ModelRequest) -> String {
    let mut transcript = String::new();
    let mut stream = match model.stream(request).await {
        Ok(stream) => stream,
        Err(error) => return show_error(&error),
    };
    let mut last = String::new();
    while let Some(item) = stream.next().await {
        let (label, text) = match item {
            Ok(ModelEvent::Alive) => continue,
            Ok(ModelEvent::Notice(notice)) => ("notice".to_owned(), notice),
            Ok(ModelEvent::Text(text)) => ("text".to_owned(), text),
            Ok(ModelEvent::Thinking(text)) => ("thinking".to_owned(), text),
            Ok(ModelEvent::ThinkingSignature(signature)) => ("signature".to_owned(), signature),
            Ok(ModelEvent::ToolCallStarted { part, name }) => (format!("call {part} started"), name),
            Ok(ModelEvent::ToolInputDelta { part, json }) => (format!("call {part} input"), json),
            Ok(ModelEvent::ToolCall { part, name, input }) => (format!("call {part}"), format!("{name} {input:?}")),
            Ok(ModelEvent::BadToolCall { part, name, problem }) => {
                (format!("bad call {part}"), format!("{name} {problem}"))
            }
            Ok(ModelEvent::Used(usage)) => ("used".to_owned(), format!("{}+{}", usage.input, usage.output)),
            Ok(ModelEvent::Finished { finish, usage }) => {
                let usage = usage.map_or_else(|| "?".to_owned(), |usage| format!("{}+{}", usage.input, usage.output));
                ("finished".to_owned(), format!("{finish:?} {usage}"))
            }
            Err(error) => ("error".to_owned(), show_error(&error)),
        };
        assert!(!text.is_empty(), "an empty piece after {transcript}");
        if label == last {
            transcript.push('|');
            transcript.push_str(&text);
        } else {
            let newline = if transcript.is_empty() { "" } else { "\n" };
            write!(transcript, "{newline}{label}: {text}").unwrap();
        }
        last = label;
    }
    transcript
}

fn show_error(error: &ModelError) -> String {
    let retry = error.retry_after.map(|after| format!(", retry after {after:?}")).unwrap_or_default();
    format!("{:?}: {}{retry}", error.kind, error.message)
}
