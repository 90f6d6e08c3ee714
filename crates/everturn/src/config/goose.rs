//! What Goose's clients find.

use std::{path::PathBuf, time::Duration};

use super::{check::duration, file, problem::Report};

/// Settings of the Goose protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goose {
    /// The folder of recipes, if there is one. A relative path begins at the working directory.
    pub recipes: Option<PathBuf>,
    /// After so long a silence a stream gets a `Ping`.
    pub ping: Duration,
    /// How often `/reply` shows the whole conversation of a running turn.
    pub snapshot: Duration,
}

impl Default for Goose {
    fn default() -> Self {
        Self { recipes: None, ping: Duration::from_secs(5), snapshot: Duration::from_secs(30) }
    }
}

impl Goose {
    pub(super) fn check(report: &mut Report<'_>, recipes: &file::Recipes, goose: &file::Goose) -> Self {
        let ping = duration(report, "ping", goose.ping.as_ref()).unwrap_or(Self::default().ping);
        let snapshot = duration(report, "snapshot", goose.snapshot.as_ref()).unwrap_or(Self::default().snapshot);
        if let Some(dir) = recipes.dir.as_ref().filter(|dir| dir.get_ref().is_empty()) {
            report.add(Some(dir.span()), "`dir` is empty", "name the folder that holds your recipes".to_owned());
        }
        Self { recipes: recipes.dir.as_ref().map(|dir| PathBuf::from(dir.get_ref())), ping, snapshot }
    }
}
