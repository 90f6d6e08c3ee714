//! Ids of tool calls in the shape that a provider takes.
//!
//! A call and its result must carry the same id, and the same call must carry the same id in every later request. So an
//! id that a provider would refuse is replaced by one that is computed from it.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use sha2::{Digest, Sha256};

const LETTERS_AND_DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Which ids a provider takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// At most so many letters, digits, `_` and `-`.
    AtMost(usize),
    /// Exactly nine letters and digits: Mistral.
    Nine,
}

impl Shape {
    fn takes(self, id: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric();
        match self {
            Self::AtMost(most) => {
                (1..=most).contains(&id.len()) && id.bytes().all(|byte| is_plain(byte) || b"_-".contains(&byte))
            }
            Self::Nine => id.len() == 9 && id.bytes().all(is_plain),
        }
    }

    /// An id of this shape; another one for each `attempt`.
    fn made_of(self, id: &str, attempt: u8) -> String {
        let digest: [u8; 32] = Sha256::new().chain_update(id).chain_update([attempt]).finalize().into();
        let letter = |byte: &u8| char::from(LETTERS_AND_DIGITS[usize::from(*byte) % LETTERS_AND_DIGITS.len()]);
        match self {
            Self::AtMost(_) => format!("call_{}", digest[..24].iter().map(letter).collect::<String>()),
            Self::Nine => digest[..9].iter().map(letter).collect(),
        }
    }
}

/// The ids of one request's calls.
pub(super) struct CallIds<'a> {
    shape: Shape,
    made: HashMap<&'a str, String>,
    used: HashSet<String>,
}

impl<'a> CallIds<'a> {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, made: HashMap::new(), used: HashSet::new() }
    }

    /// Whether some call has this id already.
    pub(super) fn has(&self, id: &str) -> bool {
        self.used.contains(id)
    }

    /// Has a call keep the id that its provider gave it, because something else in the request names it.
    pub(super) fn keep(&mut self, id: &'a str, given: String) {
        self.used.insert(given.clone());
        self.made.insert(id, given);
    }

    /// The id to send for one of ours. The same for the same id; an id that is in use already is made for no other.
    pub(super) fn of(&mut self, id: &'a str) -> Cow<'a, str> {
        if let Some(made) = self.made.get(id) {
            return Cow::Owned(made.clone());
        }
        if self.shape.takes(id) && self.used.insert(id.to_owned()) {
            self.made.insert(id, id.to_owned());
            return Cow::Borrowed(id);
        }
        let attempts = (0..=u8::MAX).map(|attempt| self.shape.made_of(id, attempt));
        let made = attempts.into_iter().find(|made| !self.used.contains(made));
        // All 256 being in use would take more calls than any request holds.
        let made = made.unwrap_or_else(|| self.shape.made_of(id, 0));
        self.used.insert(made.clone());
        self.made.insert(id, made.clone());
        Cow::Owned(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_fit_are_kept_and_others_are_computed() {
        let mut ids = CallIds::new(Shape::AtMost(40));
        assert_eq!(ids.of("call_1"), "call_1");
        let long = "x".repeat(41);
        for id in ["seed:3", "", long.as_str()] {
            let made = ids.of(id).into_owned();
            assert!(Shape::AtMost(40).takes(&made), "{made}");
            assert_eq!(ids.of(id), made);
            assert_eq!(CallIds::new(Shape::AtMost(40)).of(id), made, "in another request");
        }
        assert_ne!(ids.of("seed:3").into_owned(), ids.of("seed:4"));
    }

    #[test]
    fn two_calls_never_get_the_same_id() {
        let taken = Shape::Nine.made_of("call_2", 0);
        let mut ids = CallIds::new(Shape::Nine);
        ids.keep("call_1", taken.clone());
        assert_eq!(ids.of("call_1"), taken);
        let other = ids.of("call_2").into_owned();
        assert_ne!(other, taken);
        assert!(Shape::Nine.takes(&other), "{other}");
    }
}
