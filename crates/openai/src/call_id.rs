//! The ids of calls as applications are shown them: they say where the call waits.
//!
//! `call_` and 35 characters: the session's 16 bytes, then marks of the turn and of the call, in URL-safe base64. Forty
//! characters is the longest id that OpenAI's own API takes back, so that clients which pass a conversation on to it can.
//! Ids are no secrets and grant nothing: a caller is let in, or not, by their key.

use base64::{
    Engine as _, alphabet,
    engine::{GeneralPurpose, general_purpose::NO_PAD},
};
use everturn_core::{CallId, SessionId, TurnId};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "call_";

/// The last character has bits to spare, which say nothing.
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

const SESSION_BYTES: usize = 16;
const TURN_BYTES: usize = 3;
const CALL_BYTES: usize = 7;
const BYTES: usize = SESSION_BYTES + TURN_BYTES + CALL_BYTES;

/// Where a call waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallPlace {
    pub(crate) session: SessionId,
    turn: [u8; TURN_BYTES],
    call: [u8; CALL_BYTES],
}

impl CallPlace {
    /// Whether the call may be one of this turn. Few turns of a session have the same mark.
    pub(crate) fn may_be_of(&self, turn: &TurnId) -> bool {
        mark::<TURN_BYTES>(turn.as_str()) == self.turn
    }

    pub(crate) fn is(&self, call: &CallId) -> bool {
        mark::<CALL_BYTES>(call.as_str()) == self.call
    }
}

/// The id that an application is shown. A session that somebody has named does not fit in: its calls are found by
/// `session_id` only.
pub(crate) fn shown(session: &SessionId, turn: &TurnId, call: &CallId) -> String {
    let Some(session) = minted(session.as_str(), "sess_") else { return call.as_str().to_owned() };
    let mut bytes = [0; BYTES];
    bytes[..SESSION_BYTES].copy_from_slice(&session);
    bytes[SESSION_BYTES..][..TURN_BYTES].copy_from_slice(&mark::<TURN_BYTES>(turn.as_str()));
    bytes[SESSION_BYTES + TURN_BYTES..].copy_from_slice(&mark::<CALL_BYTES>(call.as_str()));
    let mut id = PREFIX.to_owned();
    BASE64.encode_string(bytes, &mut id);
    id
}

/// Takes an id back; `None` if it is none of ours.
pub(crate) fn place(id: &str) -> Option<CallPlace> {
    let mut bytes = [0; BYTES];
    let length = BASE64.decode_slice(id.strip_prefix(PREFIX)?, &mut bytes).ok()?;
    if length != BYTES {
        return None;
    }
    let (session, rest) = bytes.split_at(SESSION_BYTES);
    let (turn, call) = rest.split_at(TURN_BYTES);
    let session = id_of("sess_", session)?.parse().ok()?;
    Some(CallPlace { session, turn: turn.try_into().ok()?, call: call.try_into().ok()? })
}

/// The beginning of an id's digest.
fn mark<const N: usize>(id: &str) -> [u8; N] {
    let digest: [u8; 32] = Sha256::digest(id.as_bytes()).into();
    std::array::from_fn(|at| digest[at])
}

/// The bytes of an id that we have minted.
fn minted(id: &str, prefix: &str) -> Option<[u8; 16]> {
    let digits = id.strip_prefix(prefix)?;
    let number = u128::from_str_radix(digits, 16).ok()?;
    (id_of(prefix, &number.to_be_bytes()).as_deref() == Some(id)).then(|| number.to_be_bytes())
}

/// The id that these bytes stand for, if we mint such ones: they are UUIDs of version 7.
fn id_of(prefix: &str, bytes: &[u8]) -> Option<String> {
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    let is_ours = bytes[6] >> 4 == 7 && bytes[8] >> 6 == 2;
    is_ours.then(|| format!("{prefix}{:032x}", u128::from_be_bytes(bytes)))
}

/// When a turn began, in seconds since 1970: its id says so.
pub(crate) fn begun(turn: &TurnId) -> u64 {
    let bytes = minted(turn.as_str(), "turn_").unwrap_or_default();
    bytes[..6].iter().fold(0, |millis, byte| millis << 8 | u64::from(*byte)) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_say_where_the_call_waits() {
        let (session, turn, call) = (SessionId::mint(), TurnId::mint(), CallId::mint());
        let id = shown(&session, &turn, &call);
        assert_eq!(id.len(), 40, "{id}");
        let place = place(&id).unwrap();
        assert!(place.session == session && place.may_be_of(&turn) && place.is(&call), "{place:?}");
        assert!(!place.may_be_of(&TurnId::mint()) && !place.is(&CallId::mint()), "{place:?}");
    }

    #[test]
    fn other_peoples_ids_say_nothing() {
        let own = shown(&SessionId::mint(), &TurnId::mint(), &CallId::mint());
        let zeros = format!("call_{}", "A".repeat(35));
        let cut = &own[..own.len() - 1];
        for id in ["", "call_", "call_abc123", CallId::mint().as_str(), &zeros, cut, "toolu_01", "call_.x", "call_é"] {
            assert_eq!(place(id), None, "{id}");
        }
        // There is no room for a name.
        let named = "my.session-1".parse().unwrap();
        assert_eq!(shown(&named, &TurnId::mint(), &CallId::new("call_1")), "call_1");
    }

    #[test]
    fn a_turns_id_says_when_it_began() {
        assert_eq!(begun(&"turn_0197f2ab00007abc8def000000000001".parse().unwrap()), 0x0197_f2ab_0000 / 1000);
        assert_eq!(begun(&"turn_1".parse().unwrap()), 0);
    }
}
