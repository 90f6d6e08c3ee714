//! Artifacts while a model still writes them: their content is shown as the arguments of the call arrive.
//!
//! A draft is narrative, as deltas are. What counts is the complete call, which `artifacts.rs` keeps.

use std::collections::HashMap;

use everturn_core::{ArtifactDelta, ArtifactId, ArtifactStarted, CallId, CallRoute, Event, Json};
use everturn_tools::{ArtifactInput, ArtifactTool, InputStream, Piece, Target, ToolKind};

use crate::{
    turn::{Stopped, Turn},
    turn_log::Pushed,
};

/// How much content one event may have.
const PIECE_BYTES: usize = 16 * 1024;

/// The drafts of one answer.
#[derive(Default)]
pub(crate) struct Drafts {
    /// By the part of the answer that writes them.
    drafts: HashMap<u32, Draft>,
    /// The versions that this answer has announced, the last of each artifact with its title.
    announced: Announced,
}

type Announced = HashMap<ArtifactId, (u32, String)>;

impl Drafts {
    /// A call came to nothing. Gives its id, which is that of what was shown of it.
    pub(crate) fn abandon(&mut self, part: u32) -> CallId {
        self.drafts.remove(&part).map_or_else(CallId::mint, |draft| draft.call)
    }
}

/// One call whose content is shown while it is written.
struct Draft {
    call: CallId,
    tool: String,
    input: InputStream,
    fields: Fields,
    /// What was announced, once enough is known.
    shown: Option<Shown>,
    /// Set when it cannot be shown: the model will be told why once the call is complete.
    given_up: bool,
}

struct Shown {
    id: ArtifactId,
    next_index: u32,
    bytes: usize,
}

/// What has been decoded of a call's input.
#[derive(Default)]
struct Fields {
    current: String,
    title: String,
    artifact_type: String,
    artifact_id: String,
    /// Content that has not been shown yet.
    content: String,
    /// The fields that are complete.
    complete: Vec<&'static str>,
    ended: bool,
}

impl Fields {
    fn take(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Field { name } => name.clone_into(&mut self.current),
            Piece::Text(text) => match self.current.as_str() {
                "title" => self.title.push_str(text),
                "type" => self.artifact_type.push_str(text),
                "artifact_id" => self.artifact_id.push_str(text),
                "content" => self.content.push_str(text),
                _ => {}
            },
            Piece::FieldEnd => {
                let known = ["title", "type", "artifact_id", "content"];
                self.complete.extend(known.into_iter().find(|name| *name == self.current));
                self.current.clear();
            }
            Piece::End => self.ended = true,
        }
    }

    fn has(&self, field: &str) -> bool {
        self.complete.contains(&field)
    }

    fn has_begun(&self, field: &str) -> bool {
        self.current == field || self.has(field)
    }
}

impl Turn {
    /// A call begins.
    pub(crate) fn draft_started(&self, drafts: &mut Drafts, part: u32, name: &str) {
        let tool = self.shared.tools.get(name).filter(|tool| tool.kind() == ToolKind::Artifact);
        if tool.is_some() && self.may_call(name) {
            let draft = Draft {
                call: CallId::mint(),
                tool: name.to_owned(),
                input: InputStream::new(),
                fields: Fields::default(),
                shown: None,
                given_up: false,
            };
            drafts.drafts.insert(part, draft);
        }
    }

    /// A piece of a call's input has arrived.
    pub(crate) async fn draft_delta(
        &mut self,
        drafts: &mut Drafts,
        part: u32,
        json: &str,
    ) -> Result<Option<Pushed>, Stopped> {
        let Some(draft) = drafts.drafts.get_mut(&part) else { return Ok(None) };
        let Draft { input, fields, given_up, .. } = draft;
        if *given_up || input.push(json, &mut |piece| fields.take(piece)).is_err() {
            draft.given_up = true;
            return Ok(None);
        }
        self.show_draft(draft, &mut drafts.announced).await
    }

    /// Shows what there is of a draft and was not shown yet.
    async fn show_draft(&mut self, draft: &mut Draft, announced: &mut Announced) -> Result<Option<Pushed>, Stopped> {
        let mut pushed = None;
        if draft.shown.is_none() {
            let Some(started) = self.announce(draft, announced).await? else { return Ok(None) };
            draft.shown = Some(Shown { id: started.id.clone(), next_index: 0, bytes: 0 });
            pushed = Some(self.record(Event::ArtifactStarted(started))?);
        }
        let limit = self.shared.settings.artifact_bytes;
        let Some(shown) = &mut draft.shown else { return Ok(pushed) };
        let content = std::mem::take(&mut draft.fields.content);
        shown.bytes += content.len();
        if shown.bytes > limit {
            // Too long to be kept, so it is not worth showing; the model will be told.
            draft.given_up = true;
            return Ok(pushed);
        }
        let mut rest = content.as_str();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            let delta = ArtifactDelta { id: shown.id.clone(), index: shown.next_index, text: piece.to_owned() };
            shown.next_index += 1;
            pushed = Some(self.record(Event::ArtifactDelta(delta))?);
            rest = after;
        }
        Ok(pushed)
    }

    /// What is announced of a draft, once enough is known of it.
    async fn announce(&self, draft: &mut Draft, announced: &mut Announced) -> Result<Option<ArtifactStarted>, Stopped> {
        let fields = &draft.fields;
        if draft.tool == ArtifactTool::CREATE {
            if !(fields.has("title") && fields.has("type")) {
                return Ok(None);
            }
            let (title, artifact_type) = (fields.title.clone(), fields.artifact_type.clone());
            let id = ArtifactId::of_call(&draft.call);
            announced.insert(id.clone(), (1, title.clone()));
            return Ok(Some(ArtifactStarted { id, version: 1, artifact_type, title }));
        }
        // A new title is waited for until the content begins. One that comes after it is not worth waiting for.
        if !fields.has("artifact_id") || !(fields.has("title") || fields.has_begun("content")) {
            return Ok(None);
        }
        let found = match fields.artifact_id.parse::<ArtifactId>() {
            Ok(id) => self.own_artifact(&id).await.unwrap_or_default(),
            Err(_) => None,
        };
        let Some((artifact, last)) = found.and_then(|artifact| {
            let last = artifact.last()?.clone();
            Some((artifact, last))
        }) else {
            draft.given_up = true;
            return Ok(None);
        };
        let before = announced.remove(&artifact.id).filter(|(version, _)| *version > last.version);
        let (before, title) = before.unwrap_or((last.version, last.title));
        let title = if fields.has("title") { fields.title.clone() } else { title };
        let version = before + 1;
        announced.insert(artifact.id.clone(), (version, title.clone()));
        let artifact_type = artifact.artifact_type.as_str().to_owned();
        Ok(Some(ArtifactStarted { id: artifact.id, version, artifact_type, title }))
    }

    /// A call is complete: shows what was not shown yet, also of calls whose input did not stream. Gives the call's id.
    pub(crate) async fn draft_finished(
        &mut self,
        drafts: &mut Drafts,
        part: u32,
        name: &str,
        input: &Json,
        route: &CallRoute,
    ) -> Result<CallId, Stopped> {
        let Some(mut draft) = drafts.drafts.remove(&part) else {
            self.draft_started(drafts, part, name);
            return match drafts.drafts.remove(&part) {
                Some(draft) => self.show_whole(draft, drafts, input, route).await,
                None => Ok(CallId::mint()),
            };
        };
        if draft.shown.is_none() && !draft.given_up {
            draft.fields = Fields::default();
            return self.show_whole(draft, drafts, input, route).await;
        }
        Ok(draft.call)
    }

    async fn show_whole(
        &mut self,
        mut draft: Draft,
        drafts: &mut Drafts,
        input: &Json,
        route: &CallRoute,
    ) -> Result<CallId, Stopped> {
        let refused = matches!(route, CallRoute::Refused { .. });
        if !refused && let Ok(ArtifactInput { target, content }) = ArtifactInput::parse(&draft.tool, input) {
            let fields = &mut draft.fields;
            fields.content = content;
            match target {
                Target::New { title, artifact_type, .. } => {
                    fields.title = title;
                    fields.artifact_type = artifact_type.as_str().to_owned();
                    fields.complete = vec!["title", "type"];
                }
                Target::Existing { artifact_id, title } => {
                    fields.artifact_id = artifact_id.as_str().to_owned();
                    fields.complete = vec!["artifact_id", "content"];
                    if let Some(title) = title {
                        fields.title = title;
                        fields.complete.push("title");
                    }
                }
            }
            self.show_draft(&mut draft, &mut drafts.announced).await?;
        }
        Ok(draft.call)
    }
}
