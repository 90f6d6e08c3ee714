//! Names of tools in history, in the shape that vendors take.
//!
//! Models call tools that do not exist, under names such as `multi_tool_use.parallel`. The call stays in history, and a
//! vendor that refuses its name would refuse every later request. So such a name is replaced by one that is computed from
//! it, the same in every request.

use std::borrow::Cow;

use everturn_core::{Block, Content, Message};
use sha2::{Digest as _, Sha256};

use crate::model::ModelRequest;

/// The longest name that all vendors take, in characters.
const LONGEST: usize = 64;

/// Replaces the names of calls in a request that its vendor would refuse.
pub(super) fn correct(request: &mut ModelRequest, wire: &str) {
    let may_begin_with_digit = wire != "gemini";
    let is_fine = |name: &str| matches!(plain(name, may_begin_with_digit), Cow::Borrowed(_));
    if request.messages.iter().flat_map(Message::tool_uses).all(|call| is_fine(&call.name)) {
        return;
    }
    let corrected = request.messages.iter().cloned().map(|mut message| {
        if let Message::Assistant { content: Content::Blocks(blocks) } = &mut message {
            for block in blocks {
                if let Block::ToolUse(call) = block {
                    call.name = plain(&call.name, may_begin_with_digit).into_owned();
                }
            }
        }
        message
    });
    request.messages = corrected.collect();
}

/// A name of 1 to 64 letters, digits, `_` and `-`, made of any other; the name itself where it is one.
fn plain(name: &str, may_begin_with_digit: bool) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let begins_well =
        |name: &str| may_begin_with_digit || name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if (1..=LONGEST).contains(&name.len()) && name.chars().all(is_plain) && begins_well(name) {
        return Cow::Borrowed(name);
    }
    if name.is_empty() {
        return Cow::Owned("unnamed_tool".to_owned());
    }
    let mut made: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if !begins_well(&made) {
        made.insert(0, '_');
    }
    if made.len() > LONGEST {
        // Two long names with the same beginning stay two.
        let digest: [u8; 32] = Sha256::digest(name.as_bytes()).into();
        let digest: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        made.truncate(LONGEST - digest.len() - 1);
        made = format!("{made}_{digest}");
    }
    Cow::Owned(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_others_and_stay_the_same() {
        for (name, expected) in [
            ("clock", "clock"),
            ("multi_tool_use.parallel", "multi_tool_use_parallel"),
            ("functions.calculator", "functions_calculator"),
            ("", "unnamed_tool"),
            ("größe 1", "gr__e_1"),
            ("3d", "3d"),
        ] {
            assert_eq!(plain(name, true), expected);
            assert_eq!(plain(expected, true), expected);
        }
        assert_eq!(plain("3d", false), "_3d");
        let (one, other) = ("x".repeat(80), "x".repeat(81));
        assert_eq!(plain(&one, true).len(), LONGEST);
        assert_ne!(plain(&one, true), plain(&other, true));
    }
}
