//! Lines of bounded length out of a stream. What is longer is not kept, only looked through.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use crate::scan::Scan;

/// A line, without its end.
#[derive(Debug)]
pub(crate) enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// Too long: what a look at it has shown, and how long it was.
    TooLong(Box<Scan>, usize),
}

/// Reads lines. Dropping [`Lines::next`] loses nothing.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    from: R,
    most: usize,
    kept: Vec<u8>,
    /// What is known of a line that was too long to be kept.
    passed: Option<(Box<Scan>, usize)>,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Lines of at most so many bytes.
    pub(crate) fn new(from: R, most: usize) -> Self {
        Self { from, most, kept: Vec::new(), passed: None }
    }

    /// The next line; none at the end. A last line without an end is one too.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            let bytes = self.from.fill_buf().await?;
            if bytes.is_empty() {
                let is_over = self.kept.is_empty() && self.passed.is_none();
                return Ok((!is_over).then(|| self.finish()));
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if let Some((scan, length)) = &mut self.passed {
                scan.feed(piece);
                *length += piece.len();
            } else if self.kept.len() + piece.len() > self.most {
                let kept = std::mem::take(&mut self.kept);
                let mut scan = Box::new(Scan::of(&kept));
                scan.feed(piece);
                self.passed = Some((scan, kept.len() + piece.len()));
            } else {
                self.kept.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            self.from.consume(used);
            if end.is_some() {
                return Ok(Some(self.finish()));
            }
        }
    }

    fn finish(&mut self) -> Line {
        match self.passed.take() {
            Some((scan, length)) => Line::TooLong(scan, length),
            None => {
                let mut line = std::mem::take(&mut self.kept);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                Line::Whole(line)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn all(text: &str, most: usize, buffer: usize) -> Vec<String> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, text.as_bytes()), most);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(match line {
                Line::Whole(bytes) => String::from_utf8(bytes).unwrap(),
                Line::TooLong(scan, length) => format!("{length} bytes, answers {:?}", scan.answers()),
            });
        }
        found
    }

    #[tokio::test]
    async fn lines_in_pieces_of_any_size() {
        for buffer in [1, 2, 7, 100] {
            assert_eq!(all("a\nbc\r\n\nlast", 10, buffer).await, ["a", "bc", "", "last"], "{buffer}");
            assert_eq!(all("", 10, buffer).await, [""; 0]);
            assert_eq!(all("\n", 10, buffer).await, [""]);
        }
    }

    #[tokio::test]
    async fn long_lines_are_passed_over() {
        let long = format!(r#"{{"id":5,"result":"{}"}}"#, "x".repeat(1000));
        for buffer in [1, 7, 2000] {
            let found = all(&format!("1234567890\n{long}\nnext\n{long}"), 10, buffer).await;
            let passed = format!("{} bytes, answers Some(5)", long.len());
            assert_eq!(found, ["1234567890", passed.as_str(), "next", passed.as_str()]);
        }
        assert_eq!(all("12345678901", 10, 4).await, ["11 bytes, answers None"]);
    }
}
