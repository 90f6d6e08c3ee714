//! Notices of model calls: what was asked for and the provider does not do.
//!
//! They are kept as log messages in MCP's shape, so that views which pass such messages on need no word for them.

use serde::{Deserialize, Serialize};

use crate::{Event, Json};

/// MCP's name for a log message.
const METHOD: &str = "notifications/message";
/// Tells these notices apart from the messages of tool servers.
const LOGGER: &str = "model";

#[derive(Deserialize, Serialize)]
struct Params {
    data: String,
    level: String,
    logger: String,
}

impl Event {
    /// The notice of a model call, in words for people.
    pub fn model_notice(notice: &str) -> Self {
        let params = Params { data: notice.to_owned(), level: "warning".to_owned(), logger: LOGGER.to_owned() };
        let params = Json::of(&params).unwrap_or_else(|_| Json::empty_object());
        Self::Notified { call_id: None, method: METHOD.to_owned(), params }
    }

    /// The words of a model call's notice; `None` for every other event.
    pub fn as_model_notice(&self) -> Option<String> {
        let Self::Notified { call_id: None, method, params } = self else { return None };
        if method != METHOD {
            return None;
        }
        let params: Params = serde_json::from_str(params.as_str()).ok()?;
        (params.logger == LOGGER).then_some(params.data)
    }
}
