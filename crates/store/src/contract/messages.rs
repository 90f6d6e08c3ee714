//! What turns add to history, leg by leg.

use everturn_core::{Message, TurnId};

use super::{
    Harness,
    fixture::{Talk, accept, append_rest, ended, receipt, rest, segment, submit, waiting},
};
use crate::{Command, Refusal, Rest, TurnStatus};

fn said(numbers: impl IntoIterator<Item = u64>) -> Vec<Message> {
    numbers.into_iter().map(|number| Message::user(format!("message \"{number}\", [日本], {{}}"))).collect()
}

fn adds(status: TurnStatus, keeps: usize, numbers: impl IntoIterator<Item = u64>) -> Rest {
    Rest { keeps, messages: said(numbers), ..rest(status, 5) }
}

/// Each leg tells what is new, and takes back what it does not keep, wherever that is. Reads show all of it, in order; so
/// do forks and a store that was opened again.
pub async fn a_rest_adds_to_the_messages_of_its_turn(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (talk, before, turn) = (Talk::new("acme"), TurnId::mint(), TurnId::mint());
    accept(&store, talk.begin(&before, None, 1)).await;
    accept(&store, append_rest(&before, 1, segment(2, 1), adds(ended(), 0, 500..502))).await;
    accept(&store, talk.begin(&turn, Some(2), 1)).await;
    // What the legs keep, what they add, and what is there then.
    let legs: [(usize, Vec<u64>, Vec<u64>); 9] = [
        (1, vec![10, 11], vec![0, 10, 11]),
        (3, vec![12], vec![0, 10, 11, 12]),
        (4, vec![], vec![0, 10, 11, 12]),
        // Within the row of a leg, at its end, before it.
        (2, vec![20, 21, 22], vec![0, 10, 20, 21, 22]),
        (3, vec![30], vec![0, 10, 20, 30]),
        (3, vec![31], vec![0, 10, 20, 31]),
        (1, vec![], vec![0]),
        (0, vec![], vec![]),
        (0, vec![40, 41], vec![40, 41]),
    ];
    let (mut head, mut version) = (1, 3);
    for ((keeps, new, expected), epoch) in legs.into_iter().zip(1..) {
        let pause = append_rest(&turn, epoch, segment(head + 1, 1), adds(waiting(), keeps, new));
        for _ in 0..2 {
            assert_eq!(submit(&store, pause.clone()).await, receipt(epoch, version + 1));
        }
        let mut expected = said(expected);
        if let Some(first) = expected.first_mut().filter(|_| epoch < 8) {
            // What it began with.
            *first = Message::user("hello");
        }
        assert_eq!(talk.read_turn(&store, &turn).await.messages, expected, "after leg {epoch}");
        accept(&store, talk.resume(&turn, version + 1, segment(head + 2, 1))).await;
        (head, version) = (head + 2, version + 2);
        assert_eq!(talk.read_turn(&store, &turn).await.messages, expected, "as leg {} begins", epoch + 1);
    }
    accept(&store, append_rest(&turn, 10, segment(head + 1, 1), adds(ended(), 2, 42..1000))).await;
    let told = talk.told(&store).await;
    assert_eq!(told.turns[0].messages, said(500..502));
    assert_eq!(told.turns[1].messages, said(40..1000));
    let fork = talk.another();
    accept(&store, fork.fork(&talk, version + 1, 2)).await;
    drop(store);
    store = harness.open().await;
    assert_eq!(talk.told(&store).await, told);
    assert_eq!(fork.told(&store).await.turns, told.turns);
    // The fork has it still when the session it comes from is gone.
    accept(&store, talk.delete()).await;
    assert_eq!(fork.told(&store).await.turns, told.turns);
    accept(&store, fork.truncate(1, 1)).await;
    assert_eq!(fork.told(&store).await.turns, told.turns[..1]);
}

/// A rest that keeps more than there is was made for another turn than this; it changes nothing. Also one that ends a turn
/// that waits, or takes its place, says only what is new.
pub async fn a_rest_keeps_what_is_there(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next, queued) = (TurnId::mint(), TurnId::mint(), TurnId::mint());
    accept(&store, talk.begin(&turn, None, 1)).await;
    let too_much = append_rest(&turn, 1, segment(2, 1), adds(waiting(), 2, [9]));
    assert_eq!(submit(&store, too_much).await, Err(Refusal::Changed));
    accept(&store, append_rest(&turn, 1, segment(2, 1), adds(waiting(), 1, [1]))).await;

    let replace = |keeps| match talk.replace(&next, 2, &turn, segment(3, 1)) {
        Command::BeginTurn(mut begin) => {
            begin.supersedes.as_mut().expect("a superseded turn").rest = adds(ended(), keeps, [2]);
            Command::BeginTurn(begin)
        }
        other => other,
    };
    assert_eq!(submit(&store, replace(3)).await, Err(Refusal::Changed));
    let told = talk.told(&store).await;
    assert_eq!((told.turns.len(), told.turns[0].head), (1, 2));
    assert_eq!(submit(&store, replace(2)).await, receipt(1, 3));
    let hello = || Message::user("hello");
    assert_eq!(talk.read_turn(&store, &turn).await.messages, [vec![hello()], said([1, 2])].concat());

    let end = |turn: &TurnId, version, segment, keeps| match talk.end(turn, version, segment) {
        Command::EndTurn(mut end) => {
            end.rest = adds(ended(), keeps, [3]);
            Command::EndTurn(end)
        }
        other => other,
    };
    accept(&store, append_rest(&next, 1, segment(2, 1), adds(waiting(), 0, [4, 5]))).await;
    assert_eq!(submit(&store, end(&next, 4, segment(3, 1), 3)).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, end(&next, 4, segment(3, 1), 1)).await, receipt(1, 5));
    assert_eq!(talk.read_turn(&store, &next).await.messages, said([4, 3]));

    accept(&store, talk.begin(&TurnId::mint(), Some(5), 1)).await;
    accept(&store, talk.queue(&queued, 6)).await;
    assert_eq!(submit(&store, end(&queued, 7, segment(1, 1), 2)).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, end(&queued, 7, segment(1, 1), 1)).await, receipt(0, 8));
    assert_eq!(talk.read_turn(&store, &queued).await.messages, [vec![hello()], said([3])].concat());
}
