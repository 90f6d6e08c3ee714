//! Looks through a message that is not read, piece by piece: whose answer it is, and how much there is to read.

/// Most values in one message. A tree of them takes many times the memory of their text.
pub(crate) const MAX_VALUES: usize = 1_000_000;

/// What is known of a JSON-RPC message so far. Takes valid JSON; of anything else, it may know nothing.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    depth: usize,
    /// Whether the outermost value is an object.
    object: bool,
    in_string: bool,
    escaped: bool,
    /// Whether a member of the outermost object begins with what comes, not its value.
    at_key: bool,
    /// The key that was read last, as far as it matters.
    key: Short,
    /// The outermost member `id`, as text.
    id: Short,
    has_method: bool,
    values: usize,
}

/// A few bytes. What is longer is cut and is none of those that we look for.
#[derive(Debug, Default)]
struct Short {
    bytes: [u8; 24],
    length: usize,
}

impl Short {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
        }
        self.length += 1;
    }

    fn is(&self, text: &[u8]) -> bool {
        self.bytes.get(..self.length) == Some(text)
    }

    fn text(&self) -> Option<&str> {
        self.bytes.get(..self.length).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }
}

impl Scan {
    /// What a whole message is.
    pub(crate) fn of(message: &[u8]) -> Self {
        let mut scan = Self::default();
        scan.feed(message);
        scan
    }

    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.take(*byte));
    }

    /// The number of the request that this answers, if it is an answer.
    pub(crate) fn answers(&self) -> Option<i64> {
        if self.has_method {
            return None;
        }
        self.id.text()?.parse().ok()
    }

    /// Whether it asks or tells something, and so answers nothing.
    pub(crate) fn has_method(&self) -> bool {
        self.has_method
    }

    /// How many values there are, about.
    pub(crate) fn values(&self) -> usize {
        self.values
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {
                    if let Some(text) = self.wanted() {
                        text.push(byte);
                    }
                }
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => {
                if self.depth == 0 {
                    self.object = byte == b'{';
                    self.at_key = self.object;
                }
                self.depth += 1;
                self.values += 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.is_outermost() => {
                self.at_key = false;
                self.has_method |= self.key.is(b"method");
                if self.key.is(b"id") {
                    self.id = Short::default();
                }
            }
            b',' => {
                self.values += 1;
                if self.is_outermost() {
                    self.at_key = true;
                    self.key = Short::default();
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            byte => {
                if !self.at_key
                    && let Some(text) = self.wanted()
                {
                    text.push(byte);
                }
            }
        }
    }

    fn is_outermost(&self) -> bool {
        self.depth == 1 && self.object
    }

    /// Where a character goes that is part of an outermost key or of the id.
    fn wanted(&mut self) -> Option<&mut Short> {
        if !self.is_outermost() {
            None
        } else if self.at_key {
            Some(&mut self.key)
        } else if self.key.is(b"id") {
            Some(&mut self.id)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn answers(text: &str) -> Option<i64> {
        Scan::of(text.as_bytes()).answers()
    }

    #[test]
    fn the_request_is_found_wherever_it_stands() {
        assert_eq!(answers(r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"content":["\"id\":9"]}}"#), Some(7));
        assert_eq!(answers(r#"{"result":{"id":8,"a":[{"id":1}]},"jsonrpc":"2.0","id":7}"#), Some(7));
        assert_eq!(answers(r#" { "result" : {} , "id" : 7 } "#), Some(7));
        assert_eq!(answers(r#"{"id":"7","result":{}}"#), Some(7));
        assert_eq!(answers(r#"{"id":-3,"error":{}}"#), Some(-3));
    }

    #[test]
    fn what_is_no_answer_is_none() {
        assert_eq!(answers(r#"{"id":7,"method":"sampling/createMessage"}"#), None);
        assert_eq!(answers(r#"{"method":"notifications/progress","params":{"id":7}}"#), None);
        assert_eq!(answers(r#"{"id":null,"result":{}}"#), None);
        assert_eq!(answers(r#"{"id":"server-error-with-a-long-name","error":{}}"#), None);
        assert_eq!(answers(r#"[{"id":7,"result":{}}]"#), None);
        assert_eq!(answers(r#""id":7"#), None);
        assert_eq!(answers(""), None);
    }

    #[test]
    fn values_are_counted_outside_of_texts() {
        assert_eq!(Scan::of(b"[1,2,[3,{\"a\":\"x,y,[z\"}]]").values(), 6);
        assert!(Scan::of(format!("[{}]", "0,".repeat(MAX_VALUES)).as_bytes()).values() > MAX_VALUES);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[\\PC\"\\\\{}\\[\\],:]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("id|method|[a-z\"\\\\]{0,4}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_split_of_any_answer_is_understood(result in any_json(), id in any::<i64>(), first in any::<bool>(), cut in 0usize..200) {
            let text = if first {
                format!(r#"{{"id":{id},"result":{result},"jsonrpc":"2.0"}}"#)
            } else {
                format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}}}"#)
            };
            let (before, after) = text.as_bytes().split_at(cut.min(text.len()));
            let mut scan = Scan::default();
            scan.feed(before);
            scan.feed(after);
            prop_assert_eq!(scan.answers(), Some(id));
            prop_assert_eq!(answers(&json!({"method": "x", "params": result, "id": id}).to_string()), None);
        }

        #[test]
        fn bytes_of_any_kind_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Scan::of(&bytes).answers();
        }
    }
}
