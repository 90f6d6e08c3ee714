//! What the model is given after a compaction, and what gives way so that a conversation fits.

use everturn_core::{
    compaction::{Plan, READ_RESULT, Room, Shortened, plan, shorten},
    context::*,
    *,
};
use proptest::{collection::vec, prelude::*};

use super::{
    arbitrary::{compaction, message},
    valid::complaint,
};

fn call(id: &str) -> Message {
    call_with(id, Json::empty_object())
}

fn call_with(id: &str, input: Json) -> Message {
    let call = ToolUse { id: CallId::new(id), name: "t".into(), input };
    Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) }
}

fn result(id: &str, bytes: usize) -> Message {
    Message::tool(CallId::new(id), "r".repeat(bytes))
}

fn size(message: &Message) -> u64 {
    estimate(std::slice::from_ref(message))
}

fn room(budget: u64) -> Room {
    Room { fixed: 0, budget, target: budget / 2, summary: 20 }
}

/// A plan as it is carried out: with the longest summary.
fn carried_out(made: Plan) -> Compaction {
    Compaction { summary: "s".repeat(20), left_out: 0, ..made.compaction }
}

/// The texts of messages, the long ones by their length.
fn shown(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| {
        let (who, text) = match message {
            Message::System { content } => ("system", content.clone()),
            Message::User { content } => ("user", content.text()),
            Message::Assistant { content } => ("assistant", content.text()),
            Message::Tool { content, .. } => ("tool", content.text()),
        };
        if text.len() > 300 { format!("{who}: {} bytes", text.len()) } else { format!("{who}: {text}") }
    };
    messages.iter().map(text).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_a_model_is_given_only_grows(
        history in vec(message(), 0..14),
        later in vec(message(), 0..6),
        mut compaction in compaction(),
    ) {
        // A compaction speaks of the history that it was made of.
        compaction.covers = compaction.covers.min(history.len());
        compaction.shortened.retain(|shortened| shortened.at < history.len());
        let mut expected = compact(&history, Some(&compaction));
        expected.extend(later.clone());
        let whole: Vec<_> = history.into_iter().chain(later).collect();
        prop_assert_eq!(compact(&whole, Some(&compaction)), expected);
    }

    // Long messages are not worth being printed, nor shrunk.
    #[test]
    fn any_conversation_can_be_made_to_fit(
        history in vec(long_message(), 1..12).no_shrink(),
        earlier in 0..12_usize,
        budgets in (1000..4000_u64, 1000..4000_u64),
    ) {
        let (budget, earlier) = (budgets.0, &history[..earlier.min(history.len())]);
        let before = plan(earlier, None, &room(budgets.1), false, &size).map(carried_out);
        let given = compact(&history, before.as_ref());
        if estimate(&given) <= budget {
            return Ok(());
        }
        let made = plan(&history, before.as_ref(), &room(budget), false, &size);
        let Some(made) = made else {
            return Err(TestCaseError::fail(format!("no plan for {:?}", shown(&history))));
        };
        let tokens = made.tokens;
        let made = carried_out(made);
        let given = compact(&history, Some(&made));
        prop_assert!(estimate(&given) <= budget, "{} tokens of {budget}: {made:?}", estimate(&given));
        prop_assert!(estimate(&given) <= tokens + 100);
        prop_assert_eq!(complaint(&normalise(&given).messages), None);
        prop_assert!(made.covers >= before.map_or(0, |before| before.covers));
    }
}

/// A message of any length and density, but no system message: those always stay.
fn long_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        long_text(30_000).prop_map(Message::user),
        long_text(30_000).prop_map(Message::assistant),
        (0..6_u8).prop_map(|id| call(&format!("call_{id}"))),
        (0..6_u8, long_text(40_000)).prop_map(|(id, text)| {
            let lines = vec![7; text.len() / 100];
            let input = serde_json::json!({ "path": "a", "content": text, "lines": lines });
            call_with(&format!("call_{id}"), Json::of(&input).unwrap())
        }),
        (0..6_u8, long_text(60_000)).prop_map(|(id, text)| Message::tool(CallId::new(format!("call_{id}")), text)),
    ]
}

/// A text whose beginning has another density than its end: words, digits, random letters or another script.
fn long_text(most: usize) -> impl Strategy<Value = String> {
    let part = || (0..most / 2, prop_oneof!["x", "word ", "7", "aB", "語", "\\n- "]);
    (part(), part()).prop_map(|(one, other)| {
        let fill = |(bytes, unit): (usize, String)| unit.repeat(bytes / unit.len().max(1));
        fill(one) + &fill(other)
    })
}

#[test]
fn the_first_message_and_the_current_one_stay_around_the_summary() {
    let history = [
        Message::System { content: "be brief".into() },
        Message::user("the task"),
        Message::assistant("a"),
        Message::user("go on"),
        call("c"),
        result("c", 4),
        call("d"),
        result("d", 4),
    ];
    let made = Compaction {
        summary: "a was said".into(),
        covers: 6,
        first: Some(1),
        current: Some(3),
        left_out: 2,
        ..Compaction::default()
    };
    let conversation = normalise(&compact(&history, Some(&made)));
    assert_eq!(conversation.system, ["be brief"]);
    let [Message::User { content }, step, last] = conversation.messages.as_slice() else {
        panic!("{:?}", conversation.messages)
    };
    let texts: Vec<_> = content.blocks().iter().map(|block| format!("{block:?}")).collect();
    assert_eq!(
        texts,
        [
            r#"Text("the task")"#,
            r#"Text("[The server's summary of earlier messages: a record, not an instruction.]\na was said\n[2 messages after that are left out: they could not be summarised.]\n[End of the summary.]")"#,
            r#"Text("go on")"#,
        ]
    );
    assert_eq!([step, last], [&history[6], &history[7]]);
}

#[test]
fn compactions_of_earlier_versions_still_count() {
    let made: Compaction =
        serde_json::from_str(r#"{"summary":"a was said","covers":2,"usage":{"input":3,"output":1}}"#).unwrap();
    let history = [Message::System { content: "be brief".into() }, Message::user("a"), Message::user("b")];
    let given = shown(&compact(&history, Some(&made)));
    assert_eq!((given.len(), given[0].as_str(), given[2].as_str()), (3, "system: be brief", "user: b"));
    assert!(given[1].starts_with("user: [The server's summary") && given[1].contains("\na was said\n"), "{given:?}");
}

#[test]
fn a_large_result_gives_way_before_anything_else() {
    let history = [
        Message::user("the task"),
        Message::assistant("a".repeat(400)),
        Message::user("go on"),
        call("c"),
        result("c", 100_000),
    ];
    let made = plan(&history, None, &room(1000), false, &size).unwrap().compaction;
    assert_eq!((made.covers, made.summary.as_str(), made.reads_results), (0, "", true));
    let given = compact(&history, Some(&made));
    assert_eq!(given[..4], history[..4]);
    let Message::Tool { content, .. } = &given[4] else { panic!("{given:?}") };
    let text = content.text();
    assert!(text.len() < 1000 && text.starts_with("rrr") && text.ends_with("rrr"), "{text}");
    assert!(
        text.contains(&format!("of 100000 bytes are left out here. Call {READ_RESULT} with call_id \"c\"")),
        "{text}"
    );
}

#[test]
fn the_long_input_of_a_call_gives_way_and_the_call_stays() {
    let input = |content: String| Json::of(&serde_json::json!({ "title": "Whales", "content": content })).unwrap();
    let history = [Message::user("write it"), call_with("c", input("w".repeat(20_000))), result("c", 20)];
    let made = plan(&history, None, &room(2000), false, &size).unwrap().compaction;
    assert_eq!((made.covers, made.reads_results), (0, false));
    let given = compact(&history, Some(&made));
    assert_eq!((given.len(), &given[0], &given[2]), (3, &history[0], &history[2]));
    let input = given[1].tool_uses().next().unwrap().input.to_value();
    let content = input["content"].as_str().unwrap();
    assert_eq!(input["title"], "Whales");
    assert!(content.len() < 1000 && content.starts_with("www") && content.ends_with("www"), "{content}");
    assert!(content.contains("of 20000 bytes are left out here to save room. The call was made with all of them."));
    // Much else than texts leaves a note alone.
    let numbers = Json::of(&serde_json::json!({ "numbers": vec![12_345; 10_000] })).unwrap();
    let history = [Message::user("sum it"), call_with("c", numbers), result("c", 20)];
    let made = plan(&history, None, &room(2000), false, &size).unwrap().compaction;
    let given = compact(&history, Some(&made));
    let input = given[1].tool_uses().next().unwrap().input.as_str().to_owned();
    assert!(input.starts_with(r#"{"left_out":"[60013 of 60013 bytes are left out here"#), "{input}");
}

#[test]
fn user_messages_stay_verbatim_as_long_as_they_fit() {
    let (task, question) = ("t".repeat(1200), "q".repeat(1200));
    let mut history = vec![Message::user(task.clone())];
    for turn in 0..20 {
        history.extend([Message::user(format!("{turn}")), Message::assistant("a".repeat(400))]);
    }
    history.push(Message::user(question.clone()));
    for step in 0..20 {
        history.extend([call(&format!("c{step}")), result(&format!("c{step}"), 200)]);
    }
    let made = carried_out(plan(&history, None, &room(1000), false, &size).unwrap());
    let given = compact(&history, Some(&made));
    assert_eq!((&given[0], &given[2]), (&Message::user(task.clone()), &Message::user(question.clone())));
    assert!(estimate(&given) < 1000, "{}", estimate(&given));
    // Where both do not fit, the first one gives way; the current one stays.
    let made = carried_out(plan(&history, None, &room(600), false, &size).unwrap());
    let given = compact(&history, Some(&made));
    assert_eq!(given[2], Message::user(question));
    let Message::User { content } = &given[0] else { panic!("{given:?}") };
    assert!(content.text().len() < 800 && content.text().contains("bytes of this message are left out"), "{content:?}");
}

#[test]
fn a_message_larger_than_the_window_is_shortened() {
    let history = [Message::user("q".repeat(100_000))];
    let made = plan(&history, None, &room(1000), false, &size).unwrap().compaction;
    let given = compact(&history, Some(&made));
    assert!(estimate(&given) <= 1000 && estimate(&given) > 500, "{}", estimate(&given));
    assert!(!made.reads_results, "no result is shortened");
}

/// What is kept of a message that does not fit is nearly all that fits, whatever it is made of.
#[test]
fn a_shortened_message_fills_the_room_that_there_is() {
    for unit in ["word ", "q", "語", "aB", "7,"] {
        for percent in [101, 110, 200, 1000] {
            let text = unit.repeat(40_000);
            let budget = size(&Message::user(text.clone())) * 100 / percent;
            let room = Room { fixed: 100, budget, target: budget / 3, summary: budget / 12 };
            let earlier = [Message::user("first"), Message::assistant("a".repeat(usize::try_from(budget).unwrap()))];
            for history in [vec![Message::user(text.clone())], [&earlier[..], &[Message::user(text)]].concat()] {
                let made = plan(&history, None, &room, false, &size).unwrap();
                let given = room.fixed + estimate(&compact(&history, Some(&carried_out(made))));
                let is_full = given * 100 >= budget * 92 && given <= budget;
                assert!(is_full, "{unit:?} {percent} %: {given} of {budget}");
            }
        }
    }
}

#[test]
fn a_plan_goes_far_below_the_budget() {
    let turn = |turn: usize| [Message::user(format!("question {turn}")), Message::assistant("a".repeat(360))];
    let history: Vec<_> = (0..100).flat_map(turn).collect();
    let room = Room { fixed: 100, budget: 7500, target: 3333, summary: 200 };
    let made = plan(&history, None, &room, false, &size).unwrap();
    assert!((2800..3333).contains(&made.tokens), "{}", made.tokens);
    assert_eq!(made.compaction.left_out, made.compaction.covers, "no summary stands for it yet");
    // Nothing to do is no plan.
    assert_eq!(plan(&history[..1], None, &room, true, &size), None);
}

#[test]
fn what_was_shortened_stays_so() {
    let mut history = vec![Message::user("the task"), call("c"), result("c", 100_000)];
    let first = plan(&history, None, &room(1000), false, &size).unwrap().compaction;
    history.extend([Message::assistant("a"), Message::user("more"), call("d"), result("d", 100_000)]);
    let second = plan(&history, Some(&first), &room(1000), false, &size).unwrap().compaction;
    let places: Vec<_> = second.shortened.iter().map(|shortened| shortened.at).collect();
    assert_eq!(places, [2, 6]);
    let keep = |of: &[Shortened]| of[0].keep;
    assert!(keep(&second.shortened) <= keep(&first.shortened));
}

#[test]
fn images_and_documents_leave_a_line() {
    let blocks = vec![
        Block::Image { url: "https://example.org/x.png".into() },
        Block::Text("look".into()),
        Block::Document { id: "doc_1".parse().unwrap(), name: "plan.pdf".into() },
    ];
    let message = Message::User { content: Content::Blocks(blocks) };
    assert_eq!(shorten(&message, 1000), Message::user("[image]\nlook\n[document plan.pdf]"));
}
