//! Random values of the domain's types.

use bytes::Bytes;
use everturn_core::{compaction::Shortened, *};
use proptest::{collection::vec, option, prelude::*};

pub(super) fn json() -> impl Strategy<Value = Json> {
    prop_oneof![Just("{}"), Just(r#"{"a":1}"#), Just(r#"{"text":"é\n\"","deep":[[{"x":null}]]}"#)]
        .prop_map(|text| Json::parse(text).unwrap())
}

pub(super) fn call_id() -> impl Strategy<Value = CallId> {
    (0..6_u8).prop_map(|n| CallId::new(format!("call_{n}")))
}

pub(super) fn tool_use() -> impl Strategy<Value = ToolUse> {
    (call_id(), "[a-z]{1,6}", json()).prop_map(|(id, name, input)| ToolUse { id, name, input })
}

pub(super) fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        ".{0,12}".prop_map(Block::Text),
        (".{0,12}", option::of("[a-z]{4}")).prop_map(|(text, signature)| Block::Thinking { text, signature }),
        tool_use().prop_map(Block::ToolUse),
        Just(Block::Image { url: "https://example.org/x.png".into() }),
        ".{0,6}".prop_map(|name| Block::Document { id: "doc_1".parse().unwrap(), name }),
    ]
}

pub(super) fn content() -> impl Strategy<Value = Content> {
    prop_oneof![".{0,20}".prop_map(Content::Text), vec(block(), 0..5).prop_map(Content::Blocks)]
}

pub(super) fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        ".{0,12}".prop_map(|content| Message::System { content }),
        content().prop_map(|content| Message::User { content }),
        content().prop_map(|content| Message::Assistant { content }),
        (call_id(), content(), any::<bool>()).prop_map(|(call_id, content, is_error)| Message::Tool {
            call_id,
            content,
            is_error
        }),
    ]
}

fn usage() -> impl Strategy<Value = Usage> {
    proptest::array::uniform5(0..9999_u64).prop_map(|[input, output, cached_input, cache_write, reasoning]| Usage {
        input,
        output,
        cached_input,
        cache_write,
        reasoning,
    })
}

fn route() -> impl Strategy<Value = CallRoute> {
    prop_oneof![
        Just(CallRoute::Inline),
        Just(CallRoute::Permission),
        Just(CallRoute::Client),
        Just(CallRoute::Form),
        ".{0,8}".prop_map(|reason| CallRoute::Refused { reason }),
    ]
}

fn effect() -> impl Strategy<Value = EffectClass> {
    prop_oneof![Just(EffectClass::ReadOnly), Just(EffectClass::Idempotent), Just(EffectClass::Effectful)]
}

fn finish() -> impl Strategy<Value = Finish> {
    prop_oneof![
        Just(Finish::Stop),
        Just(Finish::ToolUse),
        Just(Finish::MaxTokens),
        Just(Finish::Refusal),
        Just(Finish::Aborted)
    ]
}

pub(super) fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        (call_id(), content()).prop_map(|(call_id, content)| Answer::Result { call_id, content }),
        (call_id(), any::<bool>(), option::of(".{0,8}")).prop_map(|(call_id, granted, reason)| Answer::Permission {
            call_id,
            granted,
            reason
        }),
        (call_id(), json()).prop_map(|(call_id, value)| Answer::Form { call_id, value }),
        call_id().prop_map(|call_id| Answer::Expired { call_id }),
        call_id().prop_map(|call_id| Answer::Elapsed { call_id }),
    ]
}

pub(super) fn timestamp() -> impl Strategy<Value = Timestamp> {
    (0..5000_i64).prop_map(Timestamp)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Completed),
        Just(Outcome::MaxTokens),
        Just(Outcome::Refused),
        Just(Outcome::Cancelled { reason: CancelReason::UserStop }),
        ".{0,12}".prop_map(|message| Outcome::Failed { code: FailureCode::LlmRateLimited, message, retryable: true }),
    ]
}

fn waiting_for() -> impl Strategy<Value = WaitingFor> {
    prop_oneof![Just(WaitingFor::Result), Just(WaitingFor::Permission), Just(WaitingFor::Form), Just(WaitingFor::Timer)]
}

pub(super) fn waiting() -> impl Strategy<Value = WaitingCall> {
    (call_id(), "[a-z]{1,6}", waiting_for(), option::of(timestamp()))
        .prop_map(|(id, name, waiting_for, until)| WaitingCall { id, name, waiting_for, until })
}

fn wait() -> impl Strategy<Value = Wait> {
    (vec(waiting(), 0..4), option::of(timestamp())).prop_map(|(calls, wake_at)| Wait { calls, wake_at })
}

fn form_kind() -> impl Strategy<Value = FormKind> {
    prop_oneof![
        Just(FormKind::Clarify),
        Just(FormKind::Integration),
        Just(FormKind::Signature),
        Just(FormKind::Approval)
    ]
}

fn form() -> impl Strategy<Value = FormOpened> {
    let texts = (".{0,8}", option::of(".{0,8}"));
    (call_id(), form_kind(), texts, json(), option::of(tool_use()), option::of(timestamp())).prop_map(
        |(call_id, kind, (title, description), schema, asks_for, expires_at)| {
            let form_id = FormId::of_call(&call_id);
            FormOpened { form_id, call_id, kind, title, description, schema, asks_for, expires_at }
        },
    )
}

fn artifact_id() -> impl Strategy<Value = ArtifactId> {
    call_id().prop_map(|call| ArtifactId::of_call(&call))
}

pub(super) fn artifact() -> impl Strategy<Value = ArtifactRef> {
    (artifact_id(), 1..5_u32, ".{0,8}", "[a-z/]{1,8}").prop_map(|(id, version, title, content_type)| ArtifactRef {
        id,
        version,
        title,
        content_type,
    })
}

/// An event that says something about an artifact, a form or a timer.
fn beside() -> impl Strategy<Value = Event> {
    prop_oneof![
        form().prop_map(Event::FormOpened),
        (call_id(), timestamp(), timestamp()).prop_map(|(call_id, from, wake_at)| Event::TimerSet {
            call_id,
            from,
            wake_at
        }),
        (artifact_id(), 1..5_u32, "[a-z]{1,8}", ".{0,8}").prop_map(|(id, version, artifact_type, title)| {
            Event::ArtifactStarted(ArtifactStarted { id, version, artifact_type, title })
        }),
        (artifact_id(), 0..9_u32, ".{0,12}").prop_map(|(id, index, text)| Event::ArtifactDelta(ArtifactDelta {
            id,
            index,
            text
        })),
        artifact().prop_map(Event::ArtifactFinished),
        (call_id(), 1..9_u32, option::of(json())).prop_map(|(call_id, number, answer)| Event::FormClosed {
            form_id: FormId::of_question(&call_id, number),
            call_id,
            answer
        }),
        (option::of(call_id()), "[a-z/]{1,12}", json()).prop_map(|(call_id, method, params)| Event::Notified {
            call_id,
            method,
            params
        }),
    ]
}

/// How a step or a turn ended.
fn end() -> impl Strategy<Value = Event> {
    prop_oneof![
        (content(), finish(), usage(), any::<bool>(), 0..9_u32, vec(call_id(), 0..3)).prop_map(
            |(content, finish, usage, deltas_dropped, step, withheld)| {
                Event::StepFinished(StepFinished { content, finish, usage, deltas_dropped, step, withheld })
            }
        ),
        (outcome(), usage(), ".{0,8}", vec(artifact(), 0..3)).prop_map(|(outcome, usage, response, artifacts)| {
            Event::TurnEnded(TurnEnded { outcome, usage, response, artifacts })
        }),
    ]
}

/// An event of any kind, unknown ones included.
pub(super) fn event() -> impl Strategy<Value = Event> {
    let started = (
        "[a-z]{1,6}",
        any::<bool>(),
        vec(message(), 0..3),
        any::<bool>(),
        option::of("[a-z]{1,6}"),
        (usage(), usage()),
        option::of("key_[a-z]{1,6}"),
    );
    prop_oneof![
        started.prop_map(|(agent, opens_session, input, begins_history, request, (used_before, last_used), by)| {
            Event::TurnStarted({
                let by = by.map(|by| by.parse().unwrap());
                TurnStarted {
                    agent,
                    opens_session,
                    input,
                    begins_history,
                    request,
                    compacts: false,
                    used_before,
                    last_used,
                    by,
                    options: ModelOptions::default(),
                }
            })
        }),
        (1..50_u32, "[a-z/]{1,8}").prop_map(|(step, model)| Event::StepStarted { step, model }),
        ".{0,20}".prop_map(Event::TextDelta),
        ".{0,20}".prop_map(Event::ThinkingDelta),
        (tool_use(), route()).prop_map(|(call, route)| Event::ToolCalled { call, route }),
        end(),
        beside(),
        (".{0,8}", 0..9_u32, usage()).prop_map(|(reason, attempt, usage)| Event::StepRestarted {
            reason,
            attempt,
            usage
        }),
        ("[a-z/]{1,8}", ".{0,8}").prop_map(|(model, reason)| Event::ModelChanged { model, reason }),
        (call_id(), effect(), "[a-z]{1,6}", ".{0,6}", 1..9_u32).prop_map(|(call_id, effect, tool, label, step)| {
            Event::ToolIntended { call_id, effect_id: EffectId::mint(), effect, tool, label, step }
        }),
        (call_id(), "[a-z]{1,6}", content(), any::<bool>(), 0..9999_u64, option::of(0..9_u32), any::<bool>()).prop_map(
            |(call_id, tool, content, is_error, duration_ms, never_began, application)| Event::ToolFinished {
                call_id,
                tool,
                content,
                is_error,
                duration_ms,
                never_began,
                application
            }
        ),
        wait().prop_map(Event::Waiting),
        (vec(answer(), 1..4), option::of(any::<i64>())).prop_map(|(answers, seed)| Event::Resumed {
            answers,
            options: seed.map(|seed| Box::new(ModelOptions { seed: Some(seed), ..ModelOptions::default() })),
        }),
        (compaction(), usage()).prop_map(|(made, usage)| Event::HistoryCompacted(Compaction { usage, ..made })),
        usage().prop_map(Event::StepUsed),
        (1..9_u32).prop_map(|count| Event::Dropped { count }),
        (1000..=u16::MAX, vec(any::<u8>(), 0..20))
            .prop_map(|(kind, payload)| Event::Unknown { kind, payload: Bytes::from(payload) }),
    ]
}

/// A compaction of any history, however long.
pub(super) fn compaction() -> impl Strategy<Value = Compaction> {
    let place = || option::of(0..9_usize);
    let shortened = vec((0..14_usize, 0..40_usize), 0..4).prop_map(|mut places| {
        places.sort_unstable();
        places.dedup_by_key(|(at, _)| *at);
        places.into_iter().map(|(at, keep)| Shortened { at, keep }).collect::<Vec<_>>()
    });
    (".{0,12}", 0..14_usize, place(), place(), shortened, 0..3_usize, any::<bool>()).prop_map(
        |(summary, covers, first, current, shortened, left_out, reads_results)| Compaction {
            summary,
            covers,
            first,
            current,
            shortened,
            left_out,
            reads_results,
            ..Compaction::default()
        },
    )
}
