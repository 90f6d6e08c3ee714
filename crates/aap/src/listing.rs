//! Pages of sessions, behind the doors of every version.

use axum::extract::{Query, rejection::QueryRejection};
use everturn_core::{OptionValue, SessionConfig};
use everturn_engine::REDACTED;
use everturn_http::Caller;
use everturn_store::SessionRow;
use serde::Deserialize;

use crate::{cursor, error::ApiError, routes::Aap};

/// How many sessions a page has.
const PAGE: usize = 100;
/// How long all settings of a page's sessions may be, so that those with many tools make short pages.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// What a list may be asked for.
#[derive(Deserialize)]
pub(crate) struct ListQuery {
    after: Option<String>,
}

/// Sessions of a caller, newest first.
pub(crate) struct Page {
    pub(crate) rows: Vec<SessionRow>,
    more: bool,
}

impl Page {
    /// Takes away from its end what makes it too long. One session always stays.
    pub(crate) fn shorten(&mut self) {
        let mut bytes = 0;
        let fit = self.rows.iter().take_while(|row| {
            bytes += weight(&row.session.config);
            bytes <= PAGE_BYTES
        });
        let fit = fit.count().max(1);
        self.more |= self.rows.len() > fit;
        self.rows.truncate(fit);
    }

    /// Where the next page begins; `None` if this is the last.
    pub(crate) fn next(&self) -> Option<String> {
        self.rows.last().filter(|_| self.more).map(|last| cursor::encode(last.position))
    }
}

/// How much of a session's settings is shown, more or less.
fn weight(config: &SessionConfig) -> usize {
    let tools = config.client_tools.iter().map(|tool| tool.description.len() + tool.input_schema.as_str().len());
    let options = config.options.iter().map(|(name, value)| match value {
        OptionValue::Plain(value) => name.len() + value.len(),
        OptionValue::Sealed(_) => name.len() + REDACTED.len(),
    });
    tools.chain(options).sum()
}

impl Aap {
    /// The page that a caller asks for.
    pub(crate) async fn page(
        &self,
        caller: &Caller,
        query: Result<Query<ListQuery>, QueryRejection>,
    ) -> Result<Page, ApiError> {
        let Query(query) = query.map_err(|error| ApiError::bad_request(error.body_text()))?;
        let below = query.after.as_deref().filter(|after| !after.is_empty()).map(cursor::decode).transpose()?;
        let mut rows = self.engine.sessions(&caller.tenant, below, PAGE + 1).await?;
        let more = rows.len() > PAGE;
        rows.truncate(PAGE);
        Ok(Page { rows, more })
    }
}
