//! Thinking that is bound to the beginning of its request.
//!
//! Claude's signature of a thinking block counts only after the very same instructions, tools and messages, and after the
//! same thinking block as when it was made: the blocks that are sent must be an unbroken run of those that were given. So a
//! record's prefix is `<digest>.<count>`: the digest of the request without its thinking, and the number of answers whose
//! thinking was in it.

use super::proof::Proof;

/// The prefix of a request, as records keep it.
pub(super) fn prefix(digest: &str, count: usize) -> String {
    format!("{digest}.{count}")
}

/// How many answers had their thinking in the request that was answered, if that request was the beginning of this one.
pub(super) fn count_after<T>(proof: &Proof<T>, digest: &str) -> Option<usize> {
    count(proof.prefix.as_deref()?, digest)
}

/// The same of a prefix.
pub(super) fn count(prefix: &str, digest: &str) -> Option<usize> {
    prefix.strip_prefix(digest)?.strip_prefix('.')?.parse().ok()
}

/// How many of the last answers keep their thinking. `counts` has an entry for each answer with thinking that is valid where
/// it stands.
///
/// The last one tells how many answers before it had theirs when it was made; they and it are the unbroken run.
pub(super) fn run(counts: &[usize]) -> usize {
    counts.last().map_or(0, |count| (count + 1).min(counts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_valid_answer_says_how_far_back_thinking_goes() {
        assert_eq!(run(&[]), 0);
        assert_eq!(run(&[0, 1, 2]), 3);
        // Thinking was left out before the third answer, and stays out.
        assert_eq!(run(&[0, 1, 0, 1]), 2);
        assert_eq!(run(&[7]), 1);
    }

    #[test]
    fn a_record_counts_after_its_own_prefix_only() {
        let proof = |prefix: Option<&str>| Proof::<()> {
            from: "p/m".into(),
            prefix: prefix.map(str::to_owned),
            pieces: Vec::new(),
        };
        assert_eq!(count_after(&proof(Some("ab.2")), "ab"), Some(2));
        for prefix in [Some("ab"), Some("abc.2"), Some("ab.x"), Some("."), None] {
            assert_eq!(count_after(&proof(prefix), "ab"), None, "{prefix:?}");
        }
    }
}
