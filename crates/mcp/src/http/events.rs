//! Server-sent events of bounded size.

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use rmcp::{model::RequestId, transport::streamable_http_client::SseError};
use sse_stream::{Sse, SseStream};

use crate::{
    link::Link,
    stdio::{failed_answer, has_too_many_values, too_large, too_many_values},
};

/// Why a stream of events ends early.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("an event is larger than the limit")]
    TooLarge,
    #[error("the connection broke: {0}")]
    Source(reqwest::Error),
}

/// Counts the bytes of each event.
#[derive(Debug)]
struct Meter {
    most: usize,
    event: usize,
    line: usize,
    after_return: bool,
}

impl Meter {
    fn new(most: usize) -> Self {
        Self { most, event: 0, line: 0, after_return: false }
    }

    /// Whether all events are small enough so far.
    fn fits(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            let second_of_two = std::mem::replace(&mut self.after_return, *byte == b'\r') && *byte == b'\n';
            match byte {
                b'\n' if second_of_two => {}
                b'\r' | b'\n' => {
                    // An empty line ends an event.
                    self.event = if self.line == 0 { 0 } else { self.event + 1 };
                    self.line = 0;
                }
                _ => {
                    self.line += 1;
                    self.event += 1;
                }
            }
            if self.event > self.most {
                return false;
            }
        }
        true
    }
}

/// The events in these bytes. In place of one that is too large comes a failed answer to the request that the stream
/// answers, and then nothing more; a stream that answers none breaks the connection.
pub(super) fn events(
    bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    most: usize,
    request: Option<RequestId>,
    link: Link,
) -> stream::BoxStream<'static, Result<Sse, SseError>> {
    let bounded = stream::unfold(Some((Box::pin(bytes), Meter::new(most))), async |state| {
        let (mut bytes, mut meter) = state?;
        match bytes.next().await? {
            Ok(chunk) if meter.fits(&chunk) => Some((Ok(chunk), Some((bytes, meter)))),
            Ok(_) => Some((Err(Broken::TooLarge), None)),
            Err(error) => Some((Err(Broken::Source(error.without_url())), None)),
        }
    });
    let parsed = SseStream::from_bytes_stream(bounded);
    stream::unfold(Some((Box::pin(parsed), request, link)), move |state| async move {
        let (mut events, request, link) = state?;
        let refused = match events.next().await? {
            Ok(event) => match event.data.as_deref().and_then(|data| has_too_many_values(data.as_bytes())) {
                None => return Some((Ok(event), Some((events, request, link)))),
                Some(_) => too_many_values(),
            },
            Err(SseError::Body(error)) if matches!(error.downcast_ref(), Some(Broken::TooLarge)) => too_large(most),
            Err(error) => return Some((Err(error), None)),
        };
        let Some(id) = request else {
            link.cut(format!("it sent something unasked that we cannot take: {refused}"));
            return None;
        };
        let data = serde_json::to_string(&failed_answer(id, &refused)).unwrap_or_default();
        Some((Ok(Sse::default().data(data)), None))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &str, piece: usize, request: Option<RequestId>) -> (Vec<String>, Option<String>) {
        let pieces: Vec<_> =
            text.as_bytes().chunks(piece).map(|piece| reqwest::Result::Ok(Bytes::copy_from_slice(piece))).collect();
        let link = Link::default();
        let found = events(stream::iter(pieces), 30, request, link.clone())
            .map(|event| event.unwrap().data.unwrap_or_default())
            .collect()
            .await;
        (found, link.reason())
    }

    #[tokio::test]
    async fn small_events_pass() {
        let text = "data: 123456789012\n\ndata: 123456789012\r\n\r\nid: 1\ndata: a\ndata: b\n\n";
        for piece in [1, 3, 1000] {
            assert_eq!(
                read(text, piece, None).await,
                (vec!["123456789012".to_owned(); 2].into_iter().chain(["a\nb".to_owned()]).collect(), None)
            );
        }
    }

    #[tokio::test]
    async fn a_large_event_fails_its_request() {
        let text = format!("data: first\n\ndata: {}\n\ndata: last\n\n", "x".repeat(1000));
        for piece in [1, 8, 19] {
            let (found, cut) = read(&text, piece, Some(RequestId::Number(4))).await;
            let failed = r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"the result was larger than 30 bytes, which is the limit"}}"#;
            assert_eq!(found, ["first", failed]);
            assert_eq!(cut, None);
        }
        let (found, cut) = read(&text, 8, None).await;
        assert_eq!(found, ["first"]);
        assert!(cut.unwrap().contains("larger than 30 bytes"));
    }
}
