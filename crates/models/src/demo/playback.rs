//! Plays a script as a stream, at a pace or as fast as it is read.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::Stream;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{Pace, script::Script};
use crate::model::{ModelError, ModelEvent};

/// How many pieces an unpaced script gives before it lets other tasks run.
const PIECES_PER_YIELD: u32 = 256;

/// A script on its way to a reader.
pub(super) struct Playback {
    script: Script,
    next: Option<Result<ModelEvent, ModelError>>,
    beat: Beat,
}

enum Beat {
    Timer(Interval),
    /// Pieces given since the last yield.
    Unpaced(u32),
}

impl Playback {
    /// Must be called within a Tokio runtime, whose timer it uses.
    pub(super) fn new(script: Script, pace: Pace) -> Self {
        let beat = match pace {
            Pace::Unpaced => Beat::Unpaced(0),
            Pace::PerSecond(rate) => {
                let mut timer = interval(Duration::from_secs(1) / rate.get());
                // The timer ticks once a millisecond at best; bursts keep faster paces true.
                timer.set_missed_tick_behavior(MissedTickBehavior::Burst);
                Beat::Timer(timer)
            }
        };
        Self { script, next: None, beat }
    }
}

/// Whether the pace applies to an event: only to the pieces that a person watches arriving.
fn is_piece(event: &Result<ModelEvent, ModelError>) -> bool {
    matches!(event, Ok(ModelEvent::Text(_) | ModelEvent::Thinking(_) | ModelEvent::ToolInputDelta { .. }))
}

impl Stream for Playback {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        match &mut this.beat {
            Beat::Unpaced(given) => {
                if *given == PIECES_PER_YIELD {
                    *given = 0;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                *given += 1;
                Poll::Ready(this.script.next())
            }
            Beat::Timer(timer) => {
                if this.next.is_none() {
                    this.next = this.script.next();
                }
                if this.next.as_ref().is_some_and(is_piece) {
                    ready!(timer.poll_tick(cx));
                }
                Poll::Ready(this.next.take())
            }
        }
    }
}
