//! Any history becomes one that providers accept, and cutting never parts a call from its result.

use everturn_core::{context::*, *};
use proptest::{collection::vec, prelude::*};

use super::{
    arbitrary::{compaction, message},
    valid::complaint,
};

/// What a turn may leave: it begins with what the user said.
fn turn() -> impl Strategy<Value = Vec<Message>> {
    let system =
        proptest::option::of("[a-z]{0,4}").prop_map(|content| content.map(|content| Message::System { content }));
    let parts = (system, "[a-z]{1,4}".prop_map(Message::user), vec(message(), 0..7));
    parts.prop_map(|(system, user, rest)| system.into_iter().chain([user]).chain(rest).collect())
}

/// The system messages in front and the conversation, made of one piece after the other.
fn turn_by_turn(pieces: &[Vec<Message>]) -> (Vec<String>, Vec<Message>) {
    let (mut system, mut given) = (Vec::new(), Vec::<Message>::new());
    for piece in pieces {
        let calls = given.iter().flat_map(Message::tool_uses).map(|call| call.id.clone()).collect();
        match given.last().map(Message::role) {
            Some(last) => given.extend(normalise_next(piece, Before { last, calls: &calls })),
            None => {
                let begun = normalise(piece);
                system.extend(begun.system);
                given.extend(begun.messages);
            }
        }
    }
    (system, given)
}

/// The same with users' messages joined that stand next to each other, as they are when they are written for a provider.
fn joined(messages: Vec<Message>) -> Vec<Message> {
    let mut joined: Vec<Message> = Vec::new();
    for message in messages {
        match (joined.last_mut(), message) {
            (Some(Message::User { content: last }), Message::User { content }) => {
                *last = Content::Blocks([last.clone().into_blocks(), content.into_blocks()].concat());
            }
            (_, message) => joined.push(message),
        }
    }
    joined
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_history_becomes_valid(history in vec(message(), 0..14), compaction in compaction()) {
        for history in [history.clone(), compact(&history, Some(&compaction))] {
            let conversation = normalise(&history);
            prop_assert_eq!(complaint(&conversation.messages), None, "{:?}", conversation.messages);
            let again = normalise(&conversation.messages);
            prop_assert_eq!(again.messages, conversation.messages, "normalising twice changes nothing");
        }
    }

    #[test]
    fn turn_by_turn_is_the_same_as_all_at_once(turns in vec(turn(), 1..6)) {
        let whole = normalise(&turns.concat());
        let (system, given) = turn_by_turn(&turns);
        prop_assert_eq!(joined(given), whole.messages);
        prop_assert_eq!(system, whole.system);
    }

    #[test]
    fn any_pieces_become_valid(pieces in vec(vec(message(), 0..6), 1..5)) {
        let given = normalise(&turn_by_turn(&pieces).1).messages;
        prop_assert_eq!(complaint(&given), None, "{:?}", given);
        let assistants = |messages: &[Message]| messages.iter().filter(|m| m.role() == Role::Assistant).count();
        let (_, apart) = turn_by_turn(&pieces);
        prop_assert_eq!(assistants(&apart), assistants(&given), "only users' messages are joined: {:?}", apart);
    }

    #[test]
    fn a_cut_moves_on_and_leaves_something(history in vec(message(), 0..14), covered in 0..14_usize, keep in 0..60_u64) {
        if let Some(at) = cut(&history, covered, keep) {
            prop_assert!(at > covered && at < history.len());
            prop_assert!(matches!(history[at].role(), Role::User | Role::Assistant));
        }
    }
}

/// Looking back from each message would take hours.
#[test]
fn a_cut_in_a_long_history_takes_one_pass() {
    let call = |id: usize| ToolUse { id: CallId::new(id.to_string()), name: "t".into(), input: Json::empty_object() };
    let calls = (0..500_000).map(|id| Block::ToolUse(call(id))).collect();
    let mut history = vec![Message::user("go"), Message::Assistant { content: Content::Blocks(calls) }];
    history.extend((0..500_000).map(|id| Message::tool(CallId::new(id.to_string()), "r")));
    history.extend((0..500_000).map(|_| Message::user("next")));
    assert_eq!(cut(&history, 0, u64::MAX), Some(500_002), "not between the calls and their results");
}

#[test]
fn a_cut_is_made_where_the_user_speaks() {
    let call = |id: &str| {
        let call = ToolUse { id: CallId::new(id), name: "t".into(), input: Json::empty_object() };
        Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) }
    };
    let result = |id: &str| Message::tool(CallId::new(id), "r".repeat(40));
    let history = [
        Message::user("one"),
        call("a"),
        result("a"),
        Message::assistant("done"),
        Message::user("two"),
        call("b"),
        result("b"),
        call("c"),
        result("c"),
    ];
    assert_eq!(cut(&history, 0, 10_000), Some(4), "the last user's message and all after it fit");
    assert_eq!(cut(&history, 4, 30), Some(7), "within a turn, before a step");
    assert_eq!(cut(&history, 0, 0), Some(7), "nothing fits: as much as possible");
    assert_eq!(cut(&history, 7, 0), None);
    assert_eq!(cut(&history[..6], 4, 0), Some(5), "a call that waits stays whole");
    assert_eq!(cut(&history[..6], 5, 0), None);
}

#[test]
fn a_later_system_message_stays_where_it_came() {
    let later = Message::System { content: "now in French".into() };
    let history = [
        Message::System { content: "be brief".into() },
        Message::user("a"),
        Message::assistant("b"),
        later.clone(),
        Message::user("c"),
    ];
    let conversation = normalise(&history);
    assert_eq!(conversation.system, ["be brief"]);
    assert_eq!(conversation.messages, [Message::user("a"), Message::assistant("b"), later, Message::user("c")]);
}
