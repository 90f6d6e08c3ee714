//! Stands between a transport and the SDK: sees requests before they leave and notifications before anybody else does.
//!
//! Notifications stop here. So they keep their order, cost no task each, and a flood of them fills nothing.
#![expect(deprecated, reason = "what newer versions of MCP do without is what the servers of today have")]

use std::borrow::Cow;

use everturn_core::Json;
use everturn_tools::Schemas;
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage, ServerNotification},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};

use crate::{calls::Calls, chatter::Chatter, link::Link, peek::Peeked, words::shortened};

/// Longest text of a message about progress, in bytes.
const PROGRESS_BYTES: usize = 4 * 1024;
/// Longest data of a logged message that calls are told, in bytes.
const LOG_BYTES: usize = 16 * 1024;
/// Longest URI or name.
const NAME_BYTES: usize = 2 * 1024;

/// A transport that is listened to.
pub(crate) struct Tap<T> {
    pub(crate) inner: T,
    pub(crate) ears: Ears,
}

/// Who hears what comes.
#[derive(Clone, Debug)]
pub(crate) struct Ears {
    pub(crate) calls: Calls,
    pub(crate) link: Link,
    pub(crate) chatter: Chatter,
    pub(crate) peeked: Peeked,
    /// Where the schemas of its questions are compiled.
    pub(crate) schemas: Schemas,
    /// The name under which it waits for that.
    pub(crate) server: String,
    /// Whether all calls share one channel, so that nothing says which of them a question is of.
    pub(crate) one_channel: bool,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        "mcp".into()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &message {
            self.ears.calls.sent(&request.request, &request.id);
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            // A server that never stops talking must not keep the SDK from everything else.
            tokio::task::consume_budget().await;
            let Some(message) = self.inner.receive().await else {
                self.ears.link.cut("it closed the connection");
                return None;
            };
            match self.ears.hear(message) {
                Some(message) => return Some(message),
                None => continue,
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

impl Ears {
    /// Gives back what is not for us.
    fn hear(&self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let notification = match message {
            JsonRpcMessage::Notification(notification) => notification,
            JsonRpcMessage::Response(ref response) => {
                self.calls.answered(&response.id);
                return Some(message);
            }
            JsonRpcMessage::Error(ref error) => {
                error.id.iter().for_each(|id| self.calls.answered(id));
                return Some(message);
            }
            JsonRpcMessage::Request(_) => return Some(message),
        };
        match notification.notification {
            // It withdraws a question; the SDK knows which.
            ServerNotification::CancelledNotification(_) => return Some(JsonRpcMessage::Notification(notification)),
            ServerNotification::ProgressNotification(progress) => {
                let params = progress.params;
                self.calls.tell_progress(&params.progress_token, "notifications/progress", || {
                    let mut told =
                        json!({ "progressToken": params.progress_token, "progress": number(params.progress) });
                    if let Some(total) = params.total {
                        told["total"] = number(total);
                    }
                    if let Some(message) = &params.message {
                        told["message"] = shortened(message, PROGRESS_BYTES).into();
                    }
                    self.chatter.news(&told)
                });
            }
            ServerNotification::LoggingMessageNotification(message) => {
                let params = message.params;
                self.chatter.log(params.level, params.logger.as_deref(), &params.data);
                self.calls.tell_own("notifications/message", || {
                    let mut told = json!({ "level": params.level, "data": bounded(&params.data) });
                    if let Some(logger) = &params.logger {
                        told["logger"] = shortened(logger, NAME_BYTES).into();
                    }
                    self.chatter.news(&told)
                });
            }
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.calls.tell_own("notifications/resources/updated", || {
                    self.chatter.news(&json!({ "uri": shortened(&updated.params.uri, NAME_BYTES) }))
                });
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                self.calls.tell_all("notifications/resources/list_changed", || Some(Json::empty_object()));
            }
            ServerNotification::ToolListChangedNotification(_) => self.link.tools_have_changed(),
            _ => {}
        }
        None
    }
}

/// Whole numbers without a fraction, as servers write them.
fn number(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT { (number as i64).into() } else { number.into() }
}

/// Data for people; what is too long is told as a text that is cut.
fn bounded(data: &Value) -> Cow<'_, Value> {
    match data {
        Value::String(text) if text.len() <= LOG_BYTES => Cow::Borrowed(data),
        Value::String(text) => Cow::Owned(shortened(text, LOG_BYTES).into()),
        data => {
            let text = data.to_string();
            if text.len() <= LOG_BYTES { Cow::Borrowed(data) } else { Cow::Owned(shortened(&text, LOG_BYTES).into()) }
        }
    }
}
