//! Keeps a tool's output within what a model is given.

use everturn_core::{Block, Content};

/// The content with at most `cap` bytes of text. What is cut is cut at the end, between two characters, and a note says
/// so. Images and documents are no text: they pass as they are.
pub fn cap_output(content: Content, cap: usize) -> Content {
    let total = text_bytes(&content);
    if total <= cap {
        return content;
    }
    match content {
        Content::Text(mut text) => {
            text.truncate(text.floor_char_boundary(cap));
            let note = note(total, text.len());
            text.push_str(&note);
            Content::Text(text)
        }
        Content::Blocks(blocks) => {
            let mut left = cap;
            let mut shown = 0;
            let mut kept = Vec::with_capacity(blocks.len() + 1);
            for block in blocks {
                match block {
                    Block::Text(mut text) => {
                        let end = text.floor_char_boundary(left);
                        // Nothing may follow a cut: a later, shorter block would read as if it came right after.
                        left = if end < text.len() { 0 } else { left - end };
                        text.truncate(end);
                        shown += end;
                        if !text.is_empty() {
                            kept.push(Block::Text(text));
                        }
                    }
                    other @ (Block::Thinking { .. }
                    | Block::ToolUse(_)
                    | Block::Image { .. }
                    | Block::Document { .. }) => {
                        kept.push(other);
                    }
                }
            }
            kept.push(Block::Text(note(total, shown)));
            Content::Blocks(kept)
        }
    }
}

fn text_bytes(content: &Content) -> usize {
    match content {
        Content::Text(text) => text.len(),
        Content::Blocks(blocks) => blocks
            .iter()
            .map(|block| match block {
                Block::Text(text) => text.len(),
                Block::Thinking { .. } | Block::ToolUse(_) | Block::Image { .. } | Block::Document { .. } => 0,
            })
            .sum(),
    }
}

fn note(total: usize, shown: usize) -> String {
    format!("\n[cut: {total} bytes, the first {shown} are shown]")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Content {
        Content::Text(text.to_owned())
    }

    #[test]
    fn what_fits_is_not_touched() {
        assert_eq!(cap_output(text("12345"), 5), text("12345"));
        let blocks = Content::Blocks(vec![Block::Text("123".to_owned()), Block::Text("45".to_owned())]);
        assert_eq!(cap_output(blocks.clone(), 5), blocks);
    }

    #[test]
    fn a_cut_says_how_much_there_was() {
        assert_eq!(cap_output(text("1234567"), 5), text("12345\n[cut: 7 bytes, the first 5 are shown]"));
    }

    #[test]
    fn a_character_is_never_split() {
        assert_eq!(cap_output(text("aéé"), 4), text("aé\n[cut: 5 bytes, the first 3 are shown]"));
    }

    #[test]
    fn blocks_share_one_cap_and_images_stay() {
        let image = Block::Image { url: "https://example.org/a.png".into() };
        let blocks = vec![
            Block::Text("12345".to_owned()),
            Block::Text("éé".to_owned()),
            image.clone(),
            Block::Text("x".to_owned()),
        ];
        let expected = vec![
            Block::Text("12345".to_owned()),
            Block::Text("é".to_owned()),
            image,
            Block::Text("\n[cut: 10 bytes, the first 7 are shown]".to_owned()),
        ];
        assert_eq!(cap_output(Content::Blocks(blocks), 8), Content::Blocks(expected));
    }

    proptest! {
        #[test]
        fn the_text_before_the_note_is_the_longest_prefix_that_fits(s in "\\PC{0,80}", cap in 0usize..100) {
            let Content::Text(capped) = cap_output(text(&s), cap) else { panic!("text stays text") };
            if s.len() <= cap {
                prop_assert_eq!(capped, s);
            } else {
                let shown = capped.rfind("\n[cut: ").unwrap();
                prop_assert!(s.starts_with(&capped[..shown]));
                prop_assert!(shown <= cap && shown + 4 > cap);
            }
        }
    }
}
