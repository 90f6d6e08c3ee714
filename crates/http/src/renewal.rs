//! Looks whether a certificate was renewed.

use std::{
    fs::Metadata,
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use crate::tls::{Renewed, Tls, Untimely};

/// What a file looks like from outside.
type Look = Option<(SystemTime, u64)>;

impl Tls {
    /// Reads the files again whenever they have changed, which is looked at so often, and whenever told to. A pair that
    /// is no good is told in the log, once, and the old one stays in use. So is one whose time has not come or is over.
    /// Never returns.
    pub async fn renew(self, every: Duration, mut told: mpsc::Receiver<()>) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is at once.
        ticks.tick().await;
        let mut seen = self.look().await;
        let mut trouble: Option<String> = None;
        let mut untimely = self.tell_time(None, false);
        loop {
            let asked = tokio::select! {
                _ = ticks.tick() => false,
                Some(()) = told.recv() => true,
            };
            // Before reading, so that what is written meanwhile is seen next time.
            let now = self.look().await;
            if !asked && now == seen && trouble.is_none() {
                untimely = self.tell_time(untimely, false);
                continue;
            }
            seen = now;
            let tls = self.clone();
            let Ok(reloaded) = tokio::task::spawn_blocking(move || tls.reload()).await else { continue };
            let cert = self.files().cert.display();
            match reloaded {
                Ok(renewed) => {
                    trouble = None;
                    match renewed {
                        Renewed::Other => tracing::info!(%cert, "the certificate was renewed"),
                        Renewed::Same => tracing::debug!(%cert, "the certificate is the same as before"),
                    }
                }
                Err(error) => {
                    // A pair of which one file is written and the other not yet is in trouble, for a moment.
                    let error = error.to_string();
                    if asked || trouble.as_ref() != Some(&error) {
                        tracing::warn!(error, "the new certificate cannot be used; the old one stays in use");
                    }
                    trouble = Some(error);
                }
            }
            untimely = self.tell_time(untimely, asked);
        }
    }

    /// Warns of a certificate whose time is not now, unless it was told already. Gives what there is to tell.
    fn tell_time(&self, told: Option<Untimely>, again: bool) -> Option<Untimely> {
        let untimely = self.untimely();
        if let Some(untimely) = untimely.as_ref().filter(|untimely| again || told.as_ref() != Some(*untimely)) {
            tracing::warn!("{untimely}");
        }
        untimely
    }

    async fn look(&self) -> [Look; 2] {
        let files = self.files().clone();
        let look = move || [&files.cert, &files.key].map(|file| look(file).ok());
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }
}

/// Of what a link leads to.
fn look(file: &Path) -> io::Result<(SystemTime, u64)> {
    let metadata: Metadata = std::fs::metadata(file)?;
    Ok((metadata.modified()?, metadata.len()))
}
