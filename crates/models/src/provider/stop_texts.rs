//! Texts at which an answer stops, for providers that have no such option, take fewer texts, or ignore them.
//!
//! The text of an answer goes through here piece by piece. What may be the beginning of a stop text is held back until the
//! next piece shows whether it is.

/// Looks for stop texts in the text of one answer.
#[derive(Debug, Default)]
pub(super) struct StopTexts {
    stops: Vec<String>,
    /// The end of the text so far, which may be the beginning of a stop text.
    held: String,
}

/// What is known after a piece of text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Checked {
    /// Text that is certain: no part of it belongs to a stop text.
    pub(super) text: String,
    /// Set where the answer stops here: the bytes that came after `text`, the stop text included.
    pub(super) beyond: Option<usize>,
}

impl StopTexts {
    /// Looks for these texts. Empty ones are none.
    pub(super) fn new(stops: &[String]) -> Self {
        Self { stops: stops.iter().filter(|stop| !stop.is_empty()).cloned().collect(), held: String::new() }
    }

    /// Takes the next piece of text.
    ///
    /// The stop text that is complete first counts, however the text is cut into pieces.
    pub(super) fn check(&mut self, piece: &str) -> Checked {
        self.held.push_str(piece);
        let found = self.stops.iter().filter_map(|stop| self.held.find(stop).map(|at| (at + stop.len(), at)));
        if let Some((_, at)) = found.min() {
            let beyond = self.held.len() - at;
            self.held.truncate(at);
            return Checked { text: self.release(), beyond: Some(beyond) };
        }
        let held = self.stops.iter().map(|stop| begun(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - held);
        Checked { text: std::mem::replace(&mut self.held, rest), beyond: None }
    }

    /// No more text follows the text so far: what was held back is certain now.
    pub(super) fn release(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// How many bytes at the end of a text are the beginning of a stop text.
fn begun(text: &str, stop: &str) -> usize {
    let most = text.len().min(stop.len() - 1);
    let is_begun = |length: &usize| stop.is_char_boundary(*length) && text.ends_with(&stop[..*length]);
    (1..=most).rev().find(is_begun).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text that is given, and whether a stop text ended it.
    fn read(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut texts = StopTexts::new(&stops);
        let mut given = String::new();
        for piece in pieces {
            let Checked { text, beyond } = texts.check(piece);
            given.push_str(&text);
            if beyond.is_some() {
                return (given, true);
            }
        }
        given.push_str(&texts.release());
        (given, false)
    }

    #[test]
    fn an_answer_ends_before_the_first_stop_text() {
        for (stops, text, expected) in [
            (vec!["END"], "one END two", ("one ", true)),
            (vec!["END", "two"], "one two END", ("one ", true)),
            (vec!["END"], "one EN two", ("one EN two", false)),
            (vec!["END"], "one EEND", ("one E", true)),
            (vec!["aab"], "aaab", ("a", true)),
            (vec!["END"], "one EN", ("one EN", false)),
            (vec!["END"], "END", ("", true)),
            (vec!["\n\n"], "one\ntwo\n\nthree", ("one\ntwo", true)),
            (vec!["é…"], "caf\u{e9} caf\u{e9}… no", ("caf\u{e9} caf", true)),
            (vec!["abc", "b"], "abc", ("a", true)),
            (vec!["bc", "abc"], "abc", ("", true)),
            (vec![""], "one", ("one", false)),
            (vec![], "one", ("one", false)),
        ] {
            let expected = (expected.0.to_owned(), expected.1);
            assert_eq!(read(&stops, &[text]), expected, "{text}");
            for (at, _) in text.char_indices() {
                assert_eq!(read(&stops, &[&text[..at], &text[at..]]), expected, "{text} at {at}");
            }
        }
    }

    #[test]
    fn only_what_may_be_a_stop_text_is_held_back() {
        let mut texts = StopTexts::new(&["END".to_owned()]);
        let certain = |text: &str| Checked { text: text.to_owned(), beyond: None };
        assert_eq!(texts.check("one E"), certain("one "));
        assert_eq!(texts.check("N"), certain(""));
        assert_eq!(texts.check("e two"), certain("ENe two"));
        assert_eq!(texts.check("EN"), certain(""));
        assert_eq!(texts.check("Dx"), Checked { text: String::new(), beyond: Some(4) });
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same_text(
            text in "[abé]{0,16}",
            stops in proptest::collection::vec("[abé]{0,4}", 0..4),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let mut places: Vec<usize> =
                cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let pieces: Vec<&str> = places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let (given, has_stopped) = read(&stops, &[&text]);
            prop_assert_eq!(read(&stops, &pieces), (given.clone(), has_stopped));
            let is_stop = |stop: &&&str| !stop.is_empty();
            prop_assert!(stops.iter().filter(is_stop).all(|stop| !given.contains(stop)));
            prop_assert_eq!(has_stopped, stops.iter().filter(is_stop).any(|stop| text.contains(stop)));
        }
    }
}
