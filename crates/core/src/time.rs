//! Wall-clock time as the log keeps it.

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The moment that the machine's clock shows. The one place in this crate that is not a pure function.
    pub fn now() -> Self {
        let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // A clock before 1970 is a broken clock; zero keeps the log readable.
        Self(elapsed.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Milliseconds since the Unix epoch.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// The day that it falls on, UTC.
    pub fn day(self) -> Day {
        Day(i32::try_from(self.0.div_euclid(Day::MILLIS)).unwrap_or(if self.0 < 0 { i32::MIN } else { i32::MAX }))
    }
}

/// A day, UTC: how many have passed since 1970 began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i32);

impl Day {
    const MILLIS: i64 = 24 * 60 * 60 * 1000;

    /// Its first moment.
    pub fn begins(self) -> Timestamp {
        Timestamp(i64::from(self.0) * Self::MILLIS)
    }

    /// The day after it.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
