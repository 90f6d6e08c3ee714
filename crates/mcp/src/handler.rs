//! What we answer when a server asks us something.
#![expect(deprecated, reason = "what newer versions of MCP do without is what the servers of today have")]

use std::sync::Arc;

use everturn_core::Json;
use everturn_tools::{Question, Reply};
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest, CustomResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode,
        FormElicitationCapability, Implementation, ProtocolVersion,
    },
    service::{InboundStreamOrigin, RequestContext},
};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::{tap::Ears, words::shortened};

/// Questions of one server that are open at once; more are declined.
const OPEN_QUESTIONS: usize = 16;
/// Longest title of a question, in bytes.
const TITLE_BYTES: usize = 200;
/// Longest description of a question, in bytes.
const DESCRIPTION_BYTES: usize = 4000;
const ELICITATION: &str = "elicitation/create";

/// Answers one connection's requests.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    ears: Ears,
    room: Arc<Semaphore>,
}

impl Handler {
    pub(crate) fn new(ears: Ears) -> Self {
        Self { ears, room: Arc::new(Semaphore::new(OPEN_QUESTIONS)) }
    }

    /// Asks the person on whose behalf the server works.
    async fn ask(
        &self,
        message: &str,
        schema: Value,
        context: &RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let (withdrawn, written) = (&context.ct, self.ears.peeked.take_schema(&context.id));
        let request = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
            Some(InboundStreamOrigin::Unassociated) | None => None,
        };
        let declined = || Ok(ElicitResult::new(ElicitationAction::Decline));
        let Ok(_room) = self.room.try_acquire() else { return declined() };
        let asker = tokio::select! {
            biased;
            () = withdrawn.cancelled() => return Ok(ElicitResult::new(ElicitationAction::Cancel)),
            () = self.ears.link.broken() => return Ok(ElicitResult::new(ElicitationAction::Cancel)),
            asker = self.ears.calls.asker(request) => asker,
        };
        let Some(asker) = asker else { return declined() };
        let invalid = |reason: String| ErrorData::invalid_params(reason, None);
        let schema = match written {
            // People are asked in the order in which the server wrote the fields.
            Some(written) => written,
            None => Json::of(&schema).map_err(|error| invalid(error.to_string()))?,
        };
        let compiled = self.ears.schemas.compile(&self.ears.server, &schema).await;
        compiled.map_err(|error| invalid(error.to_string()))?;
        let (title, description) = title_and_rest(message);
        let question = Question { title, description, schema };
        let reply = tokio::select! {
            biased;
            () = withdrawn.cancelled() => Reply::Cancelled,
            () = asker.over.cancelled() => Reply::Cancelled,
            () = self.ears.link.broken() => Reply::Cancelled,
            reply = asker.reporter.ask(question) => reply,
        };
        Ok(match reply {
            Reply::Accepted(answer) => ElicitResult::new(ElicitationAction::Accept).with_content(answer.to_value()),
            Reply::Declined => ElicitResult::new(ElicitationAction::Decline),
            Reply::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
        })
    }
}

/// The first line of a message, and all of it if there is more.
fn title_and_rest(message: &str) -> (String, Option<String>) {
    let message = message.trim();
    let first = message.lines().next().unwrap_or_default();
    let title = if first.is_empty() { "A tool asks".to_owned() } else { shortened(first, TITLE_BYTES) };
    let description = (title != message && !message.is_empty()).then(|| shortened(message, DESCRIPTION_BYTES));
    (title, description)
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let form = ElicitationCapability::new().with_form(FormElicitationCapability::default());
        capabilities.elicitation = Some(form);
        let software = Implementation::new("everturn", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, software).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let message = "sampling is not offered: this client does not lend its models to servers";
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                let schema = serde_json::to_value(requested_schema).unwrap_or_default();
                self.ask(&message, schema, &context).await
            }
            _ => Ok(ElicitResult::new(ElicitationAction::Decline)),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let params = request.params.unwrap_or_default();
        // One whose schema says more than MCP foresees; people can still answer it.
        if request.method == ELICITATION
            && let (Some(message), Some(schema)) =
                (params.get("message").and_then(Value::as_str), params.get("requestedSchema"))
            && params.get("mode").is_none_or(|mode| mode == "form")
        {
            let result = self.ask(message, schema.clone(), &context).await?;
            return Ok(CustomResult::new(serde_json::to_value(result).unwrap_or_default()));
        }
        if request.method == ELICITATION {
            return Err(ErrorData::invalid_params("only forms with a message and a requestedSchema are offered", None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, shortened(&request.method, TITLE_BYTES), None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles() {
        assert_eq!(title_and_rest("Which city?"), ("Which city?".to_owned(), None));
        assert_eq!(title_and_rest("One\ntwo"), ("One".to_owned(), Some("One\ntwo".to_owned())));
        assert_eq!(title_and_rest(""), ("A tool asks".to_owned(), None));
        let (title, description) = title_and_rest(&"x".repeat(10_000));
        assert!(title.len() <= TITLE_BYTES + 3 && description.unwrap().len() <= DESCRIPTION_BYTES + 3);
    }
}
