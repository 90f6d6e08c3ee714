//! Cuts a provider's byte stream into frames: server-sent events, lines of JSON, or one whole document.
//!
//! Of an event it keeps the data alone, for every provider says the rest inside it. It refuses events beyond
//! [`MAX_FRAME`], so that a provider cannot make us hold any amount.

/// The largest frame, in bytes. Providers send kilobytes; images in answers would be the largest.
pub(super) const MAX_FRAME: usize = 16 * 1024 * 1024;

/// How a stream is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// `text/event-stream`.
    Events,
    /// One JSON value a line.
    Lines,
    /// One JSON document: the answer of a provider that does not stream.
    Whole,
}

/// A frame was larger than [`MAX_FRAME`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FrameTooLarge;

/// Takes bytes as they arrive and gives whole frames.
#[derive(Debug)]
pub(super) struct Frames {
    framing: Framing,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The data lines of the event that has not ended yet.
    data: Option<String>,
    /// The last byte was a carriage return, so that a line feed now belongs to it.
    after_return: bool,
    at_start: bool,
    /// Whether anything but white space came.
    has_begun: bool,
    max: usize,
}

impl Frames {
    pub(super) fn new(framing: Framing) -> Self {
        Self::with_max(framing, MAX_FRAME)
    }

    fn with_max(framing: Framing, max: usize) -> Self {
        Self { framing, line: Vec::new(), data: None, after_return: false, at_start: true, has_begun: false, max }
    }

    /// Whether the body is one document.
    pub(super) fn is_whole(&self) -> bool {
        self.framing == Framing::Whole
    }

    /// Takes bytes and adds the frames that they complete to `out`.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<String>) -> Result<(), FrameTooLarge> {
        if !self.has_begun
            && let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            self.has_begun = true;
            // No event begins so: the provider does not stream.
            if self.framing == Framing::Events && matches!(first, b'{' | b'[') {
                self.framing = Framing::Whole;
            }
        }
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let returns_end_lines = self.framing == Framing::Events;
            let end = match self.framing {
                Framing::Whole => None,
                Framing::Events | Framing::Lines => {
                    bytes.iter().position(|byte| *byte == b'\n' || (*byte == b'\r' && returns_end_lines))
                }
            };
            let line = &bytes[..end.unwrap_or(bytes.len())];
            let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
            if held + line.len() > self.max {
                return Err(FrameTooLarge);
            }
            self.line.extend_from_slice(line);
            let Some(end) = end else { return Ok(()) };
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            out.extend(self.end_line());
        }
        Ok(())
    }

    /// What is left when the stream ends: a last frame whose end was not sent, or a piece of one.
    pub(super) fn finish(mut self) -> Option<String> {
        let frame = self.end_line();
        frame.or(self.data)
    }

    fn end_line(&mut self) -> Option<String> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let line = if std::mem::take(&mut self.at_start) { text.trim_start_matches('\u{feff}') } else { &text };
        match self.framing {
            Framing::Lines | Framing::Whole => Some(line.trim()).filter(|line| !line.is_empty()).map(str::to_owned),
            Framing::Events if line.is_empty() => self.data.take(),
            Framing::Events => {
                let value = line.strip_prefix("data").and_then(|rest| match rest {
                    "" => Some(""),
                    rest => rest.strip_prefix(':').map(|value| value.strip_prefix(' ').unwrap_or(value)),
                });
                if let Some(value) = value {
                    match &mut self.data {
                        None => self.data = Some(value.to_owned()),
                        Some(data) => {
                            data.push('\n');
                            data.push_str(value);
                        }
                    }
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames<'a>(framing: Framing, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, Option<String>) {
        let mut decoder = Frames::new(framing);
        let mut out = Vec::new();
        for chunk in chunks {
            decoder.push(chunk, &mut out).unwrap();
        }
        (out, decoder.finish())
    }

    #[test]
    fn events_follow_the_standard() {
        for (stream, expected, rest) in [
            ("data: a\n\ndata:b\n\n", vec!["a", "b"], None),
            ("\u{feff}data: a\r\n\r\ndata: b\r\r", vec!["a", "b"], None),
            ("event: x\nid: 1\n: comment\ndata: a\ndata:  b\ndata\n\n", vec!["a\n b\n"], None),
            ("\n\n\nevent: nothing\n\n", vec![], None),
            ("data: cut", vec![], Some("cut")),
            ("data: line\n", vec![], Some("line")),
            ("database: no\n\n", vec![], None),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(frames(Framing::Events, [stream.as_bytes()]), (expected, rest.map(str::to_owned)), "{stream:?}");
        }
    }

    #[test]
    fn lines_need_no_last_newline() {
        let lines = frames(Framing::Lines, [&b"{\"a\":1}\r\n\n{}\n[]"[..]]);
        assert_eq!(lines, (vec!["{\"a\":1}".into(), "{}".into()], Some("[]".into())));
    }

    #[test]
    fn a_document_instead_of_events_is_one_frame() {
        let document = "\n {\"a\":\r\n\n 1}\n";
        assert_eq!(frames(Framing::Events, document.as_bytes().chunks(1)), (vec![], Some("{\"a\":\r\n\n 1}".into())));
        assert_eq!(frames(Framing::Events, [&b"data: a\n\n{\"a\":1}\n\n"[..]]), (vec!["a".into()], None));
    }

    #[test]
    fn frames_have_a_largest_size() {
        for framing in [Framing::Events, Framing::Lines] {
            let mut decoder = Frames::with_max(framing, 10);
            let mut out = Vec::new();
            assert_eq!(decoder.push(b"data: 4567", &mut out), Ok(()));
            assert_eq!(decoder.push(b"8", &mut out), Err(FrameTooLarge));
        }
        // Many short lines of one event count together.
        let mut decoder = Frames::with_max(Framing::Events, 10);
        let result = (0..10).try_for_each(|_| decoder.push(b"data: 1\n", &mut Vec::new()));
        assert_eq!(result, Err(FrameTooLarge));
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same_frames(
            stream in "(data: |data:|é|\\{|\r\n|\n|\r|\u{feff}|: c|event: e){0,24}",
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let bytes = stream.as_bytes();
            for framing in [Framing::Events, Framing::Lines] {
                let whole = frames(framing, [bytes]);
                prop_assert_eq!(&frames(framing, bytes.chunks(1)), &whole);
                let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
                places.extend([0, bytes.len()]);
                places.sort_unstable();
                let pieces = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
                prop_assert_eq!(&frames(framing, pieces), &whole);
            }
        }

        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            frames(Framing::Events, [&bytes[..]]);
            frames(Framing::Lines, [&bytes[..]]);
        }
    }
}
