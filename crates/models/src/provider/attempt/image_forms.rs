//! Images that a provider refuses are sent in another format or size before they are left out.

use super::{Attempt, MAX_CHANGES};
use crate::provider::{
    adapt::{self, Change},
    failure::Report,
    learned::{ImageForm, MediaDigest},
    media::{self, Limits},
};

impl Attempt {
    /// Gives images the forms in which the provider takes them, as earlier calls have found out.
    pub(super) async fn use_known_forms(&mut self) {
        let limits = Limits::of(self.wire, &self.caller.settings);
        let messages = media::in_other_forms(&self.request.messages, &self.learned.image_forms, limits).await;
        if let Some(messages) = messages {
            self.request.messages = messages;
        }
    }

    /// Gives the images another form that a change would leave out. `true` if there is one for any of them.
    pub(super) async fn use_other_forms(&mut self, change: &Change, report: &Report) -> bool {
        let Some(form) = adapt::image_form(report, change) else { return false };
        if let Change::Media(refused) | Change::MediaOfCall(refused) = change
            && self.change_forms(refused.clone(), form).await
        {
            return true;
        }
        // The change is about the newest images where the provider does not say which it refuses. It may be an older one that
        // nobody else would refuse.
        !self.caller.settings.is_official && self.change_all_forms(form).await
    }

    /// Gives all images another form.
    pub(super) async fn change_all_forms(&mut self, form: ImageForm) -> bool {
        let sent = adapt::sent_media(&self.request, &self.learned);
        self.change_forms(sent.into_iter().map(|(digest, _)| digest).collect(), form).await
    }

    /// Gives these images another form. `true` if there is one for any of them.
    pub(super) async fn change_forms(&mut self, images: Vec<MediaDigest>, form: ImageForm) -> bool {
        if self.changes.count >= MAX_CHANGES {
            return false;
        }
        let forms = images.into_iter().map(|image| (image, form)).collect();
        let limits = Limits::of(self.wire, &self.caller.settings);
        let Some(messages) = media::in_other_forms(&self.request.messages, &forms, limits).await else { return false };
        tracing::debug!(model = self.from, ?form, "asking again with refused images in another form");
        self.request.messages = messages;
        self.learned.image_forms.extend(forms);
        self.changes.count += 1;
        true
    }
}
