//! Streams for clients that read by network chunk: one frame in each.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use everturn_core::Said;
use everturn_engine::{ReadError, TurnReader, TurnView};
use futures_util::stream;
use tokio::time::Instant;

use crate::stream::{Silence, event_response, identify};

/// How many bytes are sent within one [`BREATH`]. Those who take a chunk for whole frames read 64 KiB at most at once, and
/// what they have not read by then they cut anywhere. So they are never sent much faster than any model speaks.
const BURST: usize = 8 * 1024;
/// How long they have to read a burst.
const BREATH: Duration = Duration::from_millis(4);

/// The whole conversation, shown now and then beside the frames.
#[derive(Clone, Copy, Debug)]
pub struct Snapshots {
    /// How often, as long as there is something new.
    pub every: Duration,
    /// The frame that shows it, unless it had better not be shown.
    pub show: fn(&TurnView, &[Said]) -> Option<Bytes>,
}

/// As [`crate::event_stream`], but each frame is written, and sent, by itself.
pub fn frame_stream(reader: TurnReader, silence: Duration, snapshots: Snapshots) -> Response {
    let view = reader.view().clone();
    let frames = Frames {
        waiting: reader.opening(),
        reader,
        silence: Silence::new(silence),
        snapshots,
        last: Instant::now(),
        news: true,
        begun: false,
        pace: Pace { since: Instant::now(), sent: 0 },
    };
    let chunks = stream::unfold(Some(frames), async |frames| {
        let mut frames = frames?;
        match frames.next().await {
            Ok(Some(frame)) => {
                frames.pace.keep(frame.len()).await;
                Some((Ok(frame), Some(frames)))
            }
            Ok(None) => None,
            // Ending the body with an error tells the client that it has not seen the end.
            Err(error) => {
                tracing::error!(turn = %frames.reader.view().turn, %error, "cannot read a turn's log");
                Some((Err::<_, ReadError>(error), None))
            }
        }
    });
    identify(event_response(Body::from_stream(chunks)), &view.session, &view.turn)
}

/// A stream under way.
struct Frames {
    reader: TurnReader,
    /// Read, and not shown yet.
    waiting: Bytes,
    silence: Silence,
    snapshots: Snapshots,
    /// When the conversation was last shown whole.
    last: Instant,
    /// Whether it has changed since.
    news: bool,
    begun: bool,
    pace: Pace,
}

/// How much was sent of late.
struct Pace {
    since: Instant,
    sent: usize,
}

impl Pace {
    /// Waits until so many bytes more may be sent.
    async fn keep(&mut self, bytes: usize) {
        let next = self.since + BREATH;
        if self.sent > 0 && self.sent + bytes > BURST {
            tokio::time::sleep_until(next).await;
        }
        let now = Instant::now();
        if now >= next {
            (self.since, self.sent) = (now, 0);
        }
        self.sent += bytes;
    }
}

impl Frames {
    async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        if self.begun {
            // The connection sends what it has while we have nothing for it.
            tokio::task::yield_now().await;
        }
        self.begun = true;
        loop {
            if !self.waiting.is_empty() {
                let end = first_frame(&self.waiting);
                return Ok(Some(self.waiting.split_to(end)));
            }
            // Nothing comes after the last frame.
            if self.news && !self.reader.has_ended() && self.last.elapsed() >= self.snapshots.every {
                (self.last, self.news) = (Instant::now(), false);
                let said = self.reader.conversation().await?;
                if let Some(frame) = (self.snapshots.show)(self.reader.view(), &said) {
                    return Ok(Some(frame));
                }
            }
            let coming = self.silence.guard(self.reader.next());
            let come = if self.news {
                match tokio::time::timeout_at(self.last + self.snapshots.every, coming).await {
                    Ok(come) => come,
                    Err(_elapsed) => continue,
                }
            } else {
                coming.await
            };
            match come {
                Some(next) => match next? {
                    Some(frames) => (self.waiting, self.news) = (frames, true),
                    None => return Ok(None),
                },
                None => return Ok(Some(self.reader.heartbeat())),
            }
        }
    }
}

/// Where the first frame ends. What has no end is shown whole.
fn first_frame(frames: &[u8]) -> usize {
    frames.windows(2).position(|pair| pair == b"\n\n").map_or(frames.len(), |at| at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn readers_have_time_for_what_they_are_sent() {
        let begun = Instant::now();
        let mut pace = Pace { since: begun, sent: 0 };
        pace.keep(BURST).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "one burst is free");
        for _ in 0..BURST / 256 {
            pace.keep(256).await;
        }
        assert_eq!(begun.elapsed(), BREATH);
        // A large one goes alone.
        pace.keep(10 * BURST).await;
        pace.keep(1).await;
        assert_eq!(begun.elapsed(), 3 * BREATH);
        // Whoever is sent little waits for nothing.
        tokio::time::advance(BREATH).await;
        pace.keep(BURST).await;
        assert_eq!(begun.elapsed(), 4 * BREATH);
    }

    #[test]
    fn frames_end_with_an_empty_line() {
        assert_eq!(first_frame(b"id: 1\ndata: {}\n\nid: 2\ndata: {}\n\n"), 16);
        assert_eq!(first_frame(b"data: {}\n\n"), 10);
        assert_eq!(first_frame(b"data"), 4);
    }
}
