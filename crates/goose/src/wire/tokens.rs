//! `token_state`: what the turn has used, and what its session has. The releases also tell what was used last, before the
//! turn has used anything.

use everturn_core::{Standing, Usage};
use serde::{Serialize, Serializer, ser::SerializeStruct as _};

use crate::Style;

/// Tokens used, in one style or the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    style: Style,
    turn: Usage,
    session: Usage,
}

impl Tokens {
    pub(crate) fn of(style: Style, standing: &Standing) -> Self {
        // The releases told what the session's last model call used: what a running turn uses is known when a call ends, and
        // their gauge must not fall to nothing until then.
        let turn = match style {
            Style::Released if standing.used.is_zero() => standing.last_used,
            Style::Released | Style::Described => standing.used,
        };
        Self { style, turn, session: standing.used_by_session() }
    }

    /// What a session has used, where no turn runs for the caller.
    pub(crate) fn of_session(style: Style, last: Usage, session: Usage) -> Self {
        let turn = match style {
            Style::Released => last,
            Style::Described => Usage::default(),
        };
        Self { style, turn, session }
    }
}

impl Serialize for Tokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { turn, session, .. } = self;
        let mut state = serializer.serialize_struct("TokenState", 7)?;
        match self.style {
            Style::Described => {
                state.serialize_field("input_tokens", &turn.input)?;
                state.serialize_field("output_tokens", &turn.output)?;
                state.serialize_field("total_tokens", &turn.total())?;
                state.serialize_field("accumulated_input_tokens", &session.input)?;
                state.serialize_field("accumulated_output_tokens", &session.output)?;
                state.serialize_field("accumulated_total_tokens", &session.total())?;
            }
            Style::Released => {
                state.serialize_field("inputTokens", &turn.input)?;
                state.serialize_field("outputTokens", &turn.output)?;
                state.serialize_field("totalTokens", &turn.total())?;
                state.serialize_field("accumulatedInputTokens", &session.input)?;
                state.serialize_field("accumulatedOutputTokens", &session.output)?;
                state.serialize_field("accumulatedTotalTokens", &session.total())?;
                // What tokens cost is the provider's business.
                state.serialize_field("accumulatedCost", &None::<f64>)?;
            }
        }
        state.end()
    }
}
