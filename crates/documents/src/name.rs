//! Names of documents come from outside, and are shown to people and models.

/// The longest name, in characters.
const MAX_CHARACTERS: usize = 200;

/// A name that is safe to show and to put into a prompt: no path, no control or invisible characters, at most 200
/// characters, never empty.
pub fn clean_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or_default();
    let visible = name.chars().map(|character| if character.is_whitespace() { ' ' } else { character });
    let visible: String = visible.filter(|character| !is_invisible(*character)).take(MAX_CHARACTERS).collect();
    match visible.trim() {
        "" | "." | ".." => "document".to_owned(),
        name => name.to_owned(),
    }
}

/// Characters that show nothing themselves but can change how the rest is shown or read.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_its_last_part_and_visible() {
        for (name, clean) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Users\\me\\Résumé 1.pdf", "Résumé 1.pdf"),
            ("folder/", "folder"),
            ("a\r\nb\tc\0.txt", "a  b c.txt"),
            ("invoice\u{202e}fdp.exe", "invoicefdp.exe"),
            ("  spaced  ", "spaced"),
            ("", "document"),
            ("..", "document"),
            ("/", "document"),
            ("\u{200b}", "document"),
        ] {
            assert_eq!(clean_name(name), clean, "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn any_name_becomes_a_safe_one(name in any::<String>()) {
            let clean = clean_name(&name);
            prop_assert!(!clean.is_empty() && clean.chars().count() <= MAX_CHARACTERS);
            prop_assert!(!clean.contains(['/', '\\', '\n', '\r', '\0']));
            prop_assert_eq!(clean_name(&clean), clean);
        }
    }
}
