//! Messages of a conversation, each with a name that stays the same wherever it is shown.

use std::{fmt, str::FromStr};

use crate::{CallId, Message, Timestamp, TurnId};

/// Names one message of a session: `<turn>.u1` for the first message of a turn's input, `<turn>.a2` for the answer of its
/// second step, `<turn>.<call>` for the result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MessageRef {
    /// The turn.
    pub turn: TurnId,
    /// Where in it.
    pub place: MessagePlace,
}

/// Where in a turn a message is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MessagePlace {
    /// In its input, counted from 1.
    Input(u32),
    /// The answer of a step, counted from 1.
    Answer(u32),
    /// The result of a call.
    Result(CallId),
}

/// How the ids of calls begin that were made here.
const OWN_CALL: &str = "call_";
/// What stands before the ids of other calls, which may look like anything.
const FOREIGN_CALL: &str = "r_";

/// A text that names no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message's id is a turn's id and a place in it, such as turn_1.u1, turn_1.a2 or turn_1.call_3")]
pub struct MessageRefError;

impl fmt::Display for MessageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            MessagePlace::Input(number) => write!(f, "{}.u{number}", self.turn),
            MessagePlace::Answer(number) => write!(f, "{}.a{number}", self.turn),
            MessagePlace::Result(call) if call.as_str().starts_with(OWN_CALL) => write!(f, "{}.{call}", self.turn),
            MessagePlace::Result(call) => write!(f, "{}.{FOREIGN_CALL}{call}", self.turn),
        }
    }
}

impl FromStr for MessageRef {
    type Err = MessageRefError;

    fn from_str(text: &str) -> Result<Self, MessageRefError> {
        let (turn, place) = text.split_once('.').ok_or(MessageRefError)?;
        let turn = turn.parse().map_err(|_| MessageRefError)?;
        let number = |prefix| place.strip_prefix(prefix).and_then(|number: &str| number.parse::<u32>().ok());
        let place = match (number('u'), number('a')) {
            (Some(number), _) => MessagePlace::Input(number),
            (None, Some(number)) => MessagePlace::Answer(number),
            (None, None) if place.starts_with(OWN_CALL) => MessagePlace::Result(CallId::new(place)),
            (None, None) => MessagePlace::Result(CallId::new(place.strip_prefix(FOREIGN_CALL).ok_or(MessageRefError)?)),
        };
        Ok(Self { turn, place })
    }
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its name.
    pub id: MessageRef,
    /// When it was said, as far as that is known: a turn that is over remembers when it began and when it ended.
    pub at: Timestamp,
    /// The message.
    pub message: Message,
}

impl Said {
    /// The messages of a turn by name: its input up to the last of the user's, then its steps.
    pub fn of_turn(turn: &TurnId, began: Timestamp, rested: Timestamp, messages: Vec<Message>) -> Vec<Self> {
        let input = messages.iter().rposition(|message| matches!(message, Message::User { .. })).map_or(0, |at| at + 1);
        let (mut inputs, mut answers) = (0, 0);
        let said = |(at, message): (usize, Message)| {
            let place = if at < input {
                inputs += 1;
                MessagePlace::Input(inputs)
            } else if let Message::Tool { call_id, .. } = &message {
                MessagePlace::Result(call_id.clone())
            } else {
                answers += 1;
                MessagePlace::Answer(answers)
            };
            let at = if at < input { began } else { rested };
            Self { id: MessageRef { turn: turn.clone(), place }, at, message }
        };
        messages.into_iter().enumerate().map(said).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_taken_back() {
        for text in ["turn_1.u1", "turn_1.a12", "turn_1.call_0a", "turn_1.r_toolu_01", "turn_1.r_a1", "turn_1.r_x.y"] {
            assert_eq!(text.parse::<MessageRef>().map(|id| id.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "turn_1", "turn_1.", "turn_1.x", "turn_1.u", "turn_1.u-1", "a/b.u1", ".u1"] {
            assert_eq!(text.parse::<MessageRef>(), Err(MessageRefError), "{text}");
        }
    }

    #[test]
    fn steps_are_counted_after_the_input() {
        let turn: TurnId = "turn_1".parse().unwrap();
        let messages = vec![
            Message::user("earlier"),
            Message::assistant("was said"),
            Message::user("now"),
            Message::assistant("I look"),
            Message::tool(CallId::new("call_1"), "seen"),
            Message::assistant("done"),
        ];
        let said = Said::of_turn(&turn, Timestamp(1), Timestamp(2), messages);
        let shown: Vec<_> = said.iter().map(|said| format!("{} {}", said.id, said.at.millis())).collect();
        let expected = ["turn_1.u1 1", "turn_1.u2 1", "turn_1.u3 1", "turn_1.a1 2", "turn_1.call_1 2", "turn_1.a2 2"];
        assert_eq!(shown, expected);
    }
}
