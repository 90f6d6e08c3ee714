//! The ids of calls as applications are shown them: they say where the call waits.
//!
//! `call_` and 64 characters: session, turn and call, 16 bytes each, in URL-safe base64. A session that was named by
//! somebody is written out: `call_`, 43 characters for turn and call, a full stop, the name. They are no secrets and grant
//! nothing: whoever sends one back is let in, or not, by their key.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use everturn_core::{CallId, SessionId, TurnId};

const PREFIX: &str = "call_";

/// Where a call waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallPlace {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) call: CallId,
}

/// The id that an application is shown.
pub(crate) fn shown(session: &SessionId, turn: &TurnId, call: &CallId) -> String {
    let (Some(turn), Some(minted)) = (minted(turn.as_str(), "turn_"), minted(call.as_str(), PREFIX)) else {
        // Not one of ours; it cannot be found by itself.
        return call.as_str().to_owned();
    };
    let mut bytes = Vec::with_capacity(48);
    let named = match self::minted(session.as_str(), "sess_") {
        Some(session) => {
            bytes.extend_from_slice(&session);
            None
        }
        None => Some(session.as_str()),
    };
    bytes.extend_from_slice(&turn);
    bytes.extend_from_slice(&minted);
    let mut id = PREFIX.to_owned();
    URL_SAFE_NO_PAD.encode_string(&bytes, &mut id);
    if let Some(name) = named {
        id.push('.');
        id.push_str(name);
    }
    id
}

/// Takes an id back; `None` if it is none of ours.
pub(crate) fn place(id: &str) -> Option<CallPlace> {
    let text = id.strip_prefix(PREFIX)?;
    let (text, session) = match text.split_once('.') {
        Some((text, name)) => (text, Some(name.parse::<SessionId>().ok()?)),
        None => (text, None),
    };
    let mut bytes = [0; 48];
    let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
    let (session, rest) = match (session, length) {
        (None, 48) => (id_of("sess_", &bytes[..16])?.parse().ok()?, &bytes[16..]),
        (Some(session), 32) => (session, &bytes[..32]),
        (None | Some(_), _) => return None,
    };
    let (turn, call) = rest.split_at(16);
    Some(CallPlace { session, turn: id_of("turn_", turn)?.parse().ok()?, call: CallId::new(id_of(PREFIX, call)?) })
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
        let (turn, call) = (TurnId::mint(), CallId::mint());
        for (session, length) in [(SessionId::mint(), 69), ("my.session-1".parse().unwrap(), 61)] {
            let id = shown(&session, &turn, &call);
            assert_eq!(id.len(), length, "{id}");
            let found = CallPlace { session, turn: turn.clone(), call: call.clone() };
            assert_eq!(place(&id), Some(found));
        }
    }

    #[test]
    fn other_peoples_ids_say_nothing() {
        let own = shown(&SessionId::mint(), &TurnId::mint(), &CallId::mint());
        let zeros = format!("call_{}", "A".repeat(64));
        let cut = &own[..own.len() - 1];
        for id in ["", "call_", "call_abc123", CallId::mint().as_str(), &zeros, cut, "toolu_01", "call_.x", "call_é"] {
            assert_eq!(place(id), None, "{id}");
        }
        // What was not minted here is shown as it is.
        assert_eq!(shown(&SessionId::mint(), &TurnId::mint(), &CallId::new("call_1")), "call_1");
    }

    #[test]
    fn a_turns_id_says_when_it_began() {
        assert_eq!(begun(&"turn_0197f2ab00007abc8def000000000001".parse().unwrap()), 0x0197_f2ab_0000 / 1000);
        assert_eq!(begun(&"turn_1".parse().unwrap()), 0);
    }
}
