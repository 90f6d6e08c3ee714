//! A turn driven by its plan through random answers, crashes and submissions: at every point of its log, history is
//! one that providers accept, and a crash changes nothing but what it must.

use everturn_core::*;
use proptest::prelude::*;

use super::world::world;

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn every_turn_ends_with_a_valid_history(mut world in world()) {
        world.run();
        let ended = world.log.iter().filter(|event| matches!(event, Event::TurnEnded(_))).count();
        prop_assert_eq!(ended, 1, "exactly one end: {:#?}", world.log);
        prop_assert!(matches!(world.log.last(), Some(Event::TurnEnded(_))), "and it is last");
        for (call, (effect, runs)) in &world.effects {
            prop_assert!(effect.may_repeat() || *runs == 1, "{call} ran {runs} times");
        }
        let messages = world.state.messages();
        let answered = |id: &CallId| {
            messages.iter().filter(|m| matches!(m, Message::Tool { call_id, .. } if call_id == id)).count()
        };
        for call in messages.iter().flat_map(Message::tool_uses) {
            prop_assert_eq!(answered(&call.id), 1, "call {} is answered once", call.id);
        }
    }

    /// The end says what the log says: tokens, the last words, and each artifact once.
    #[test]
    fn the_end_tells_how_it_went(mut world in world()) {
        world.run();
        let Some(Event::TurnEnded(ended)) = world.log.last() else { panic!("no end") };
        let finished = |event: &Event| match event {
            Event::StepFinished(finished) => Some(finished.content.text()),
            _ => None,
        };
        prop_assert_eq!(&ended.response, &world.log.iter().rev().find_map(finished).unwrap_or_default());
        let mut kept: Vec<_> = world.log.iter().filter_map(|event| match event {
            Event::ArtifactFinished(artifact) => Some(artifact.clone()),
            _ => None,
        }).collect();
        kept.sort_by(|a, b| a.id.cmp(&b.id));
        let mut told = ended.artifacts.clone();
        told.sort_by(|a, b| a.id.cmp(&b.id));
        prop_assert_eq!(told, kept, "each artifact is written once, and told");
        let used = world.log.iter().fold(Usage::default(), |mut used, event| {
            match event {
                Event::StepFinished(finished) => used += finished.usage,
                Event::StepRestarted { usage, .. } => used += *usage,
                _ => {}
            }
            used
        });
        prop_assert_eq!(ended.usage, used);
    }

    /// Nobody is asked twice, and what was answered stays answered.
    #[test]
    fn every_call_is_asked_about_once(mut world in world()) {
        world.run();
        let mut asked = std::collections::HashSet::new();
        for event in &world.log {
            if let Event::FormOpened(form) = event {
                prop_assert!(asked.insert(form.form_id.clone()), "{} was opened twice", form.form_id);
            }
        }
    }
}
