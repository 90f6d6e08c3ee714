//! An answer's own order and its provider's proofs, in the one string that history has room for.
//!
//! History shows an answer as thinking, text and calls. Providers give more than that: signed or encrypted reasoning, and
//! pieces in an order of their own. They want it back as it was, and refuse or forget it otherwise. So an answer with
//! anything beyond plain text and calls leaves a record, `anthropic:{…}`, which says piece by piece what the answer was;
//! text and calls are not repeated in it. The name in front keeps the records of the wires apart.
//!
//! A proof counts for the model that gave it. Where `prefix` is set, it also counts only after the very same
//! instructions, tools and messages; see [`Prefix`].

use everturn_core::ToolUse;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// The record of one answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Proof<T> {
    /// `provider/model` that gave the answer.
    pub(super) from: String,
    /// Digest of all that was sent before the answer, on wires whose proofs depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prefix: Option<String>,
    /// The answer, in order.
    pub(super) pieces: Vec<Piece<T>>,
}

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Piece<T> {
    /// Something of the wire's own: reasoning, a signature, a mark on the piece that follows.
    Own(T),
    /// So many bytes of the message's text.
    Text(usize),
    /// The message's next call.
    Call,
}

/// A piece with its content.
#[derive(Debug, PartialEq)]
pub(super) enum Placed<'a, T> {
    Own(T),
    Text(&'a str),
    Call(&'a ToolUse),
}

/// Writes the record of an answer. `None` where there is nothing in it that history does not show.
pub(super) fn write(wire: &str, proof: &Proof<Box<RawValue>>) -> Option<String> {
    let is_plain = match proof.pieces.as_slice() {
        [Piece::Text(_), rest @ ..] | rest => rest.iter().all(|piece| matches!(piece, Piece::Call)),
    };
    if is_plain {
        return None;
    }
    serde_json::to_string(proof).ok().map(|json| format!("{wire}:{json}"))
}

/// The record that a wire left, if it is that wire's and can be read.
pub(super) fn read<T: DeserializeOwned>(wire: &str, record: &str) -> Option<Proof<T>> {
    serde_json::from_str(record.strip_prefix(wire)?.strip_prefix(':')?).ok()
}

impl<T> Proof<T> {
    /// The pieces with their content. `None` if the message is not the one that was recorded.
    pub(super) fn place<'a>(self, text: &'a str, calls: &[&'a ToolUse]) -> Option<Vec<Placed<'a, T>>> {
        let (mut rest, mut calls) = (text, calls.iter());
        let mut placed = Vec::with_capacity(self.pieces.len());
        for piece in self.pieces {
            placed.push(match piece {
                Piece::Own(own) => Placed::Own(own),
                Piece::Text(length) => {
                    let (text, after) = rest.split_at_checked(length)?;
                    rest = after;
                    Placed::Text(text)
                }
                Piece::Call => Placed::Call(calls.next()?),
            });
        }
        (rest.is_empty() && calls.next().is_none()).then_some(placed)
    }
}

/// A digest of what a request says so far, for proofs that count only after the same beginning.
#[derive(Clone, Default)]
pub(super) struct Prefix(Sha256);

impl Prefix {
    /// Adds the next part of the request.
    pub(super) fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// The digest of the parts so far.
    pub(super) fn digest(&self) -> String {
        let bytes: [u8; 32] = self.0.clone().finalize().into();
        bytes[..12].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use everturn_core::{CallId, Json};

    use super::*;

    fn call(id: &str) -> ToolUse {
        ToolUse { id: CallId::new(id), name: "clock".into(), input: Json::empty_object() }
    }

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn record(pieces: Vec<Piece<Box<RawValue>>>) -> Option<String> {
        write("w", &Proof { from: "p/m".into(), prefix: None, pieces })
    }

    #[test]
    fn plain_answers_leave_no_record() {
        assert_eq!(record(vec![]), None);
        assert_eq!(record(vec![Piece::Text(3)]), None);
        assert_eq!(record(vec![Piece::Text(3), Piece::Call, Piece::Call]), None);
        assert_eq!(record(vec![Piece::Call]), None);
        assert!(record(vec![Piece::Call, Piece::Text(3)]).is_some());
        assert!(record(vec![Piece::Own(raw("1")), Piece::Text(3)]).is_some());
    }

    #[test]
    fn pieces_find_their_content_again() {
        let written = record(vec![
            Piece::Own(raw("\"a\"")),
            Piece::Text(3),
            Piece::Call,
            Piece::Own(raw("\"b\"")),
            Piece::Text(2),
            Piece::Call,
        ])
        .unwrap();
        let proof = || read::<String>("w", &written).unwrap();
        let (one, two) = (call("1"), call("2"));
        let placed = proof().place("onetw", &[&one, &two]).unwrap();
        assert_eq!(
            placed,
            [
                Placed::Own("a".to_owned()),
                Placed::Text("one"),
                Placed::Call(&one),
                Placed::Own("b".to_owned()),
                Placed::Text("tw"),
                Placed::Call(&two),
            ]
        );
        assert_eq!(proof().place("onet", &[&one, &two]), None);
        assert_eq!(proof().place("onetwo", &[&one, &two]), None);
        assert_eq!(proof().place("onétw", &[&one, &two]), None);
        assert_eq!(proof().place("onetw", &[&one]), None);
        assert!(read::<String>("v", &written).is_none());
        assert!(read::<String>("w", "w:nonsense").is_none());
    }

    #[test]
    fn a_prefix_knows_its_parts_apart() {
        let of = |parts: &[&str]| {
            let mut prefix = Prefix::default();
            parts.iter().for_each(|part| prefix.add(part.as_bytes()));
            prefix.digest()
        };
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ab", ""]));
    }
}
