//! Finds the image or document that a provider refuses without saying which: each is tried by itself.

use everturn_core::Block;

use super::{
    Attempt,
    trial::{Suspect, Symptom, Trials},
};
use crate::provider::{
    adapt::{self, Change},
    learned::{ImageForm, MediaDigest},
};

/// The most images and documents that are tried, the newest first: older ones were taken before.
const MAX_TRIED: usize = 12;

impl Attempt {
    /// Leaves those images and documents out that the provider refuses by themselves. `true` if there are any; then the
    /// others stay. Each call searches once.
    pub(super) async fn leave_refused_media_out(&mut self, symptom: Symptom) -> bool {
        if std::mem::replace(&mut self.has_searched_media, true) {
            return false;
        }
        let sent: Vec<(MediaDigest, Block)> = adapt::sent_media(&self.request, &self.learned);
        if sent.len() < 2 && symptom == Symptom::Refusal {
            return false;
        }
        let mut trials = Trials::new(self, symptom);
        if sent.is_empty() || !trials.is_provider_well().await {
            return false;
        }
        let (mut refused, mut untried) = (Vec::new(), Vec::new());
        for (place, (digest, medium)) in sent.iter().rev().enumerate() {
            let verdict = match place < MAX_TRIED && !trials.are_over() {
                true => trials.surely_with(Suspect::Medium(medium)).await,
                false => None,
            };
            match verdict {
                Some(true) => refused.push(*digest),
                Some(false) => {}
                None => untried.push(*digest),
            }
        }
        tracing::debug!(model = self.from, count = refused.len(), "found the images and documents that are refused");
        // A server that fails may read the image in a form of which it knows more.
        if symptom == Symptom::Fault && self.change_forms(refused.clone(), ImageForm::Small).await {
            self.has_searched_media = false;
            return true;
        }
        if !refused.is_empty() {
            return self.changes.apply(Change::Media(refused), &mut self.learned);
        }
        // Those that were taken by themselves stay, if there are others that may be to blame.
        let is_some = !untried.is_empty() && untried.len() < sent.len() && symptom == Symptom::Refusal;
        is_some && self.changes.apply(Change::MediaOfCall(untried), &mut self.learned)
    }
}
