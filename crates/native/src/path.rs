//! Names in paths. A text that cannot be an id, or is no text at all, names nothing.

use axum::extract::{Path, rejection::PathRejection};
use everturn_core::{SessionId, TurnId};

use crate::error::{ApiError, Thing};

/// A path with one name in it.
pub(crate) type One = Result<Path<String>, PathRejection>;
/// A path with a session and a turn in it.
pub(crate) type Two = Result<Path<(String, String)>, PathRejection>;

/// The name in a path.
pub(crate) fn name(path: One, thing: Thing) -> Result<String, ApiError> {
    path.map(|Path(name)| name).map_err(|_| ApiError::no(thing, "\u{fffd}"))
}

/// The session in a path.
pub(crate) fn session(path: One) -> Result<SessionId, ApiError> {
    let name = name(path, Thing::Session)?;
    name.parse().map_err(|_| ApiError::no(Thing::Session, &name))
}

/// The session and the turn in a path.
pub(crate) fn turn(path: Two) -> Result<(SessionId, TurnId), ApiError> {
    let Path((session, turn)) = path.map_err(|_| ApiError::no(Thing::Message, "\u{fffd}"))?;
    let session = session.parse().map_err(|_| ApiError::no(Thing::Session, &session))?;
    let turn = turn.parse().map_err(|_| ApiError::no(Thing::Message, &turn))?;
    Ok((session, turn))
}
