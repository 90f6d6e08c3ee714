//! Lists, in pages, newest first.

use everturn_core::SessionId;
use everturn_http::document;
use serde::Deserialize;
use serde_json::json;

use crate::{code::Code, error::ApiError};

/// How many entries a page has, unless the client says so.
const DEFAULT_LIMIT: usize = 50;
/// How many it may have.
const MAX_LIMIT: usize = 200;

/// What a list can be asked; each list takes what it knows.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ListQuery {
    pub(crate) limit: Option<String>,
    pub(crate) cursor: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) status: Option<String>,
}

/// What every list can be asked, for the document; cursors begin with the list's letter.
pub(crate) struct Paged<const LETTER: char>;

impl<const LETTER: char> utoipa::IntoParams for Paged<LETTER> {
    fn into_params(
        _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
    ) -> Vec<utoipa::openapi::path::Parameter> {
        let limit = json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT });
        let cursor = json!({ "type": "string", "pattern": format!("^({LETTER}[0-9a-f]{{1,16}})?$") });
        let parameter = |name: &str, description: &str, keywords| {
            utoipa::openapi::path::ParameterBuilder::new()
                .name(name)
                .parameter_in(utoipa::openapi::path::ParameterIn::Query)
                .required(utoipa::openapi::Required::False)
                .description(Some(description))
                .schema(Some(document::schema(keywords)))
                .build()
        };
        vec![
            parameter("limit", "How many entries a page has", limit),
            parameter("cursor", "`next_cursor` of the page before", cursor),
        ]
    }
}

impl ListQuery {
    /// The session whose entries are wanted, if it is one session's. `None` for a text that is no session's name, which
    /// has no entries then.
    pub(crate) fn session(&self) -> Option<Option<SessionId>> {
        match self.session_id.as_deref() {
            Some(id) => id.parse().ok().map(Some),
            None => Some(None),
        }
    }
}

/// The lists. A cursor of one means nothing in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Sessions,
    Messages,
    Forms,
    Artifacts,
    Documents,
    Agents,
    Permissions,
    Keys,
}

impl List {
    /// What its cursors begin with.
    pub(crate) const fn letter(self) -> char {
        match self {
            Self::Sessions => 's',
            Self::Messages => 'm',
            Self::Forms => 'f',
            Self::Artifacts => 'a',
            Self::Documents => 'd',
            Self::Agents => 'g',
            Self::Permissions => 'p',
            Self::Keys => 'k',
        }
    }
}

/// A page that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    list: List,
    limit: usize,
    /// Its entries lie below this position.
    pub(crate) below: Option<u64>,
}

impl Page {
    pub(crate) fn new(list: List, query: &ListQuery) -> Result<Self, ApiError> {
        let limit = limit_of(query.limit.as_deref())?;
        // Clients that have no cursor yet may send an empty one.
        let cursor = query.cursor.as_deref().filter(|cursor| !cursor.is_empty());
        let below = cursor.map(|cursor| position(list, cursor)).transpose()?;
        Ok(Self { list, limit, below })
    }

    /// How many entries to look for: one more than are shown, to know whether there is another page.
    pub(crate) fn wanted(&self) -> usize {
        self.limit + 1
    }

    /// Leaves what is shown of the entries found, and gives the cursor of the next page if there is one.
    pub(crate) fn cut<T>(&self, entries: &mut Vec<T>, position: impl Fn(&T) -> u64) -> Option<String> {
        let more = entries.len() > self.limit;
        entries.truncate(self.limit);
        let last = entries.last().filter(|_| more)?;
        Some(format!("{}{:x}", self.list.letter(), position(last)))
    }
}

/// How many entries a page has.
pub(crate) fn limit_of(text: Option<&str>) -> Result<usize, ApiError> {
    text.map_or(Ok(DEFAULT_LIMIT), limit)
}

fn limit(text: &str) -> Result<usize, ApiError> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        ApiError::invalid(format!("limit={shown:?} is not a number from 1 to {MAX_LIMIT}"))
    })
}

/// The position in a cursor that we gave out.
fn position(list: List, cursor: &str) -> Result<u64, ApiError> {
    let digits = cursor.strip_prefix(list.letter()).filter(|digits| !digits.starts_with('+'));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(|| {
        let shown: String = cursor.chars().take(64).collect();
        ApiError::new(Code::CursorInvalid, format!("cursor={shown:?} is not a cursor of this list"))
            .hint("use next_cursor of the page before, as it is")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: Option<&str>, cursor: Option<&str>) -> Result<Page, ApiError> {
        let (limit, cursor) = (limit.map(str::to_owned), cursor.map(str::to_owned));
        Page::new(List::Sessions, &ListQuery { limit, cursor, ..ListQuery::default() })
    }

    #[test]
    fn a_page_goes_on_where_the_one_before_ended() {
        let first = page(Some("2"), None).unwrap();
        assert_eq!((first.wanted(), first.below), (3, None));
        let mut entries = vec![31, 30, 29];
        let cursor = first.cut(&mut entries, |entry| *entry);
        assert_eq!(entries, [31, 30]);
        let next = page(Some("2"), cursor.as_deref()).unwrap();
        assert_eq!(next.below, Some(30));
        assert_eq!(next.cut(&mut vec![29, 28], |entry| *entry), None);
        assert_eq!(next.cut(&mut Vec::<u64>::new(), |entry| *entry), None);
    }

    #[test]
    fn limits_and_cursors_from_outside_are_checked() {
        assert_eq!(page(None, None).unwrap().wanted(), DEFAULT_LIMIT + 1);
        for limit in ["0", "201", "-1", "", "ten", "1.5", "99999999999999999999"] {
            assert!(page(Some(limit), None).is_err(), "{limit}");
        }
        for cursor in ["s", "m1", "1", "s+1", "s-1", "sg", "s1 ", "s11111111111111111"] {
            let error = page(None, Some(cursor)).unwrap_err();
            assert!(format!("{error:?}").contains("CursorInvalid"), "{cursor}");
        }
    }
}
