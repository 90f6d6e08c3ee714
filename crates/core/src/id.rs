//! Identifiers. Ids that we mint are a prefix and a UUIDv7, so that rows made together lie together.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Empty, or longer than ids may be.
    #[error("an id has 1 to {max} characters, this one has {length}")]
    Length {
        /// How long it was.
        length: usize,
        /// How long it may be.
        max: usize,
    },
    /// A character that ids do not have.
    #[error("an id is made of A-Z a-z 0-9 . _ - only, this one has {character:?}")]
    Character {
        /// The first such character.
        character: char,
    },
}

/// How long ids from outside may be.
const MAX_ID: usize = 128;

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() || text.len() > MAX_ID {
        return Err(IdError::Length { length: text.len(), max: MAX_ID });
    }
    let bad = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    match text.chars().find(bad) {
        Some(character) => Err(IdError::Character { character }),
        None => Ok(()),
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// A new id that no other has.
            pub fn mint() -> Self {
                Self(format!(concat!($prefix, "{}"), uuid::Uuid::now_v7().simple()).into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                check(text)?;
                Ok(Self(text.into()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                check(&text)?;
                Ok(Self(text.into()))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A conversation with one agent. URL-safe.
    SessionId,
    "sess_"
);
id!(
    /// One turn, called message id in the dialects.
    TurnId,
    "turn_"
);
id!(
    /// One command to the store. The same when the command is submitted again, and no other's.
    CommandId,
    "cmd_"
);
id!(
    /// Who owns a session. Given by the key that a caller presents.
    TenantId,
    "tenant_"
);
id!(
    /// A key by which callers are known. Not the secret itself.
    KeyId,
    "key_"
);
id!(
    /// Names one effect of one tool call, the same on every attempt, so that the tool can recognise a repetition.
    EffectId,
    "eff_"
);

id!(
    /// A form that a person is asked to answer.
    FormId,
    "form_"
);
id!(
    /// Something that an agent has written for people to keep.
    ArtifactId,
    "art_"
);
id!(
    /// Something that a person has given the agent to read.
    DocumentId,
    "doc_"
);

impl FormId {
    /// The form that a call opens: a call opens one at most, so the one name gives the other.
    pub fn of_call(call: &CallId) -> Self {
        Self(format!("form_{}", call.suffix()).into())
    }

    /// A form that a tool opens while it runs: its `number`-th, from 1.
    pub fn of_question(call: &CallId, number: u32) -> Self {
        Self(format!("form_{}.{number}", call.suffix()).into())
    }
}

impl ArtifactId {
    /// The artifact that a call creates: one at most.
    pub fn of_call(call: &CallId) -> Self {
        Self(format!("art_{}", call.suffix()).into())
    }
}

impl TenantId {
    /// The tenant of a server that runs without keys.
    pub fn local() -> Self {
        Self("local".into())
    }
}

/// One tool call, as models, clients and history know it.
///
/// The engine mints the ids of the calls that models make (providers repeat theirs, or have none); ids in seed history
/// come from the client and may be any text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(String);

impl CallId {
    /// A new id. Forty characters at most, which is what providers accept.
    pub fn mint() -> Self {
        Self(format!("call_{}", uuid::Uuid::now_v7().simple()))
    }

    /// An id that came from outside.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// What tells a minted id from others.
    fn suffix(&self) -> &str {
        self.0.strip_prefix("call_").unwrap_or(&self.0)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minted_ids_are_valid_and_ordered() {
        let a = SessionId::mint();
        assert_eq!(a.as_str().parse::<SessionId>(), Ok(a.clone()));
        assert!(a.as_str().starts_with("sess_"));
        assert!(CallId::mint().as_str().len() <= 40);
    }

    #[test]
    fn ids_from_outside_are_checked() {
        assert!("session-abc123".parse::<SessionId>().is_ok());
        assert_eq!("".parse::<SessionId>(), Err(IdError::Length { length: 0, max: 128 }));
        assert_eq!("a/b".parse::<SessionId>(), Err(IdError::Character { character: '/' }));
        assert!("x".repeat(129).parse::<SessionId>().is_err());
        assert!(serde_json::from_str::<SessionId>("\"a b\"").is_err());
    }
}
