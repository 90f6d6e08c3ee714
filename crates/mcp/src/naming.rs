//! What the tools of servers are called towards models and clients.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Longest name that model providers take.
const LONGEST: usize = 64;
/// Bytes of the hash that ends a name which was cut.
const HASH_BYTES: usize = 4;

/// `server__tool`, of characters that model providers take. A name that is too long is cut and ends in a hash of the whole,
/// so that it is the same at every start and two of them differ.
pub(crate) fn tool_name(server: &str, tool: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let mut name: String = server.chars().chain("__".chars()).chain(tool.chars()).map(fit).collect();
    if name.len() > LONGEST {
        let hash = Sha256::digest(format!("{server}/{tool}"));
        name.truncate(LONGEST - 2 * HASH_BYTES - 1);
        name.push('_');
        for byte in hash.iter().take(HASH_BYTES) {
            let _ = write!(name, "{byte:02x}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use everturn_tools::is_tool_name;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names() {
        assert_eq!(tool_name("files", "read_file"), "files__read_file");
        assert_eq!(tool_name("files", "read.file/é x"), "files__read_file___x");
        let long = "a".repeat(100);
        assert_eq!(tool_name("files", &long), format!("files__{}_6754777b", "a".repeat(48)));
        assert_ne!(tool_name("files", &long), tool_name("files", &format!("{long}a")));
        assert_eq!(tool_name("files", &"a".repeat(57)).len(), 64);
    }

    proptest! {
        #[test]
        fn every_tool_has_a_name(server in "[a-z0-9_-]{1,32}", tool in "\\PC{0,100}") {
            prop_assert!(is_tool_name(&tool_name(&server, &tool)));
        }
    }
}
