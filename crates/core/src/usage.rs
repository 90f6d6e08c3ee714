//! Tokens.

use serde::{Deserialize, Serialize};

/// Tokens used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read by the model, from the provider's cache or not.
    pub input: u64,
    /// Tokens written by the model, reasoning included.
    pub output: u64,
    /// Of the input, the tokens that the provider had in its cache.
    #[serde(default, skip_serializing_if = "is_zero_tokens")]
    pub cached_input: u64,
    /// Of the input, the tokens that the provider wrote to its cache, where it charges for that.
    #[serde(default, skip_serializing_if = "is_zero_tokens")]
    pub cache_write: u64,
    /// Of the output, the tokens that the model spent on reasoning.
    #[serde(default, skip_serializing_if = "is_zero_tokens")]
    pub reasoning: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero_tokens(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// So many tokens read and written, of which nothing else is known.
    pub fn of(input: u64, output: u64) -> Self {
        Self { input, output, ..Self::default() }
    }

    /// Whether nothing was used.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// The larger number of each kind.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cached_input: self.cached_input.max(other.cached_input),
            cache_write: self.cache_write.max(other.cache_write),
            reasoning: self.reasoning.max(other.reasoning),
        }
    }

    /// What remains of each kind without those of `other`; never less than zero.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            cached_input: self.cached_input.saturating_sub(other.cached_input),
            cache_write: self.cache_write.saturating_sub(other.cache_write),
            reasoning: self.reasoning.saturating_sub(other.reasoning),
        }
    }

    /// At most so many of each kind.
    #[must_use]
    pub fn at_most(self, most: u64) -> Self {
        Self {
            input: self.input.min(most),
            output: self.output.min(most),
            cached_input: self.cached_input.min(most),
            cache_write: self.cache_write.min(most),
            reasoning: self.reasoning.min(most),
        }
    }

    /// Tokens read and written together.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cached_input = self.cached_input.saturating_add(other.cached_input);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}
