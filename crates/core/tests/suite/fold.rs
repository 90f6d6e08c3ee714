//! The fold takes any log, and a shorter log that tells the same folds to the same.

use everturn_core::{context::normalise, *};
use proptest::{collection::vec, prelude::*};

use super::{
    arbitrary::{artifact, event},
    valid::complaint,
    world::{folded, world},
};

fn is_delta(event: &Event) -> bool {
    matches!(event, Event::TextDelta(_) | Event::ThinkingDelta(_) | Event::ArtifactDelta(_) | Event::StepUsed(_))
}

/// A log without these events, as retention leaves it: one event stands for each run of them.
fn without(log: &[Event], drops: impl Fn(&Event) -> bool) -> Vec<Event> {
    let mut short = Vec::new();
    for event in log {
        match (short.last_mut(), event) {
            (Some(Event::Dropped { count }), event) if drops(event) => *count += 1,
            (_, event) if drops(event) => short.push(Event::Dropped { count: 1 }),
            (_, Event::StepFinished(finished)) => {
                short.push(Event::StepFinished(StepFinished { deltas_dropped: true, ..finished.clone() }));
            }
            (_, event) => short.push(event.clone()),
        }
    }
    short
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_log_can_be_folded(log in vec(event(), 0..30)) {
        let mut state = TurnState::default();
        for event in &log {
            let seq = state.head + 1;
            state.apply(seq, event);
            let events = if let Event::Dropped { count } = event { u64::from(*count) } else { 1 };
            prop_assert_eq!(state.head + 1, seq + events, "a run that was dropped counts as its events");
            prop_assert_eq!(complaint(&normalise(&state.messages()).messages), None);
            // Whatever the log says, the plan has an answer.
            let _ = next(&state, 3);
        }
    }

    #[test]
    fn a_log_without_its_deltas_folds_to_the_same(mut world in world()) {
        world.run();
        let short = without(&world.log, is_delta);
        prop_assert!(!short.iter().any(is_delta));
        prop_assert_eq!(folded(&short), world.state.clone());
        // Shortening what was shortened before changes nothing.
        prop_assert_eq!(without(&short, is_delta), short);
    }

    #[test]
    fn a_log_without_its_middle_still_tells_how_it_ended(mut world in world()) {
        world.run();
        let is_middle = |event: &Event| !matches!(event, Event::TurnStarted(_) | Event::TurnEnded(_));
        let short = without(&world.log, is_middle);
        prop_assert!(short.len() <= 3, "{short:?}");
        let state = folded(&short);
        prop_assert_eq!((state.head, &state.phase), (world.state.head, &world.state.phase));
    }

    #[test]
    fn the_last_version_of_an_artifact_counts(artifacts in vec(artifact(), 0..12)) {
        let log: Vec<_> = artifacts.iter().cloned().map(Event::ArtifactFinished).collect();
        let told = folded(&log).ended(Outcome::Completed).artifacts;
        for artifact in &artifacts {
            let last = artifacts.iter().rfind(|other| other.id == artifact.id);
            prop_assert_eq!(told.iter().filter(|other| other.id == artifact.id).collect::<Vec<_>>(), [last.unwrap()]);
        }
    }
}
