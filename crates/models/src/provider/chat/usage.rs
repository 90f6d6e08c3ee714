//! What a call used, under the names that servers give it.

use everturn_core::Usage;
use serde_json::Value;

/// Reads a server's numbers. `None` where there are none.
pub(super) fn read(usage: &Value) -> Option<Usage> {
    let number = |paths: &[&str]| {
        paths.iter().find_map(|path| path.split('.').try_fold(usage, |value, field| value.get(field))?.as_u64())
    };
    let input = number(&["prompt_tokens"])?;
    let mut output = number(&["completion_tokens"]).unwrap_or(0);
    let reasoning = number(&["completion_tokens_details.reasoning_tokens", "reasoning_tokens"]).unwrap_or(0);
    // Some servers count reasoning beside the rest, as their total shows.
    if number(&["total_tokens"]) == Some(input.saturating_add(output).saturating_add(reasoning)) {
        output = output.saturating_add(reasoning);
    }
    Some(Usage {
        input,
        output,
        cached_input: number(&[
            "prompt_tokens_details.cached_tokens",
            "prompt_cache_hit_tokens",
            "cached_tokens",
            "cache_read_input_tokens",
        ])
        .unwrap_or(0),
        cache_write: number(&["prompt_tokens_details.cache_write_tokens", "cache_creation_input_tokens"]).unwrap_or(0),
        reasoning,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usage_under_many_names() {
        let all = |input, output, cached_input, cache_write, reasoning| {
            Some(Usage { input, output, cached_input, cache_write, reasoning })
        };
        for (usage, expected) in [
            (json!(null), None),
            (json!({"prompt_tokens": 9}), all(9, 0, 0, 0, 0)),
            (
                json!({"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
                    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
                    "completion_tokens_details": {"reasoning_tokens": 3}}),
                all(9, 5, 4, 2, 3),
            ),
            (
                json!({"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 17, "prompt_tokens_details": null,
                    "completion_tokens_details": {"reasoning_tokens": 3}}),
                all(9, 8, 0, 0, 3),
            ),
            (json!({"prompt_tokens": 9, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}), all(9, 5, 4, 0, 0)),
            (json!({"prompt_tokens": 9, "completion_tokens": 5, "cached_tokens": 4}), all(9, 5, 4, 0, 0)),
        ] {
            assert_eq!(read(&usage), expected, "{usage}");
        }
    }
}
