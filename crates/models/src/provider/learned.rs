//! What the answers of a provider have taught us about its models, for as long as this process lives.
//!
//! Names and tables go stale; a provider's own words do not. So a number that an error names, a field that a model does not
//! take, or a picture that it cannot read is kept here and heeded by the calls that follow.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::RangeInclusive,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use everturn_core::{Effort, ToolSpec, ToolUse};
use sha2::{Digest as _, Sha256};

/// Most models of one provider that are remembered.
const MAX_MODELS: usize = 256;
/// Most refused fields, tools or media of one model.
const MAX_REFUSED: usize = 1024;
/// Most calls of one model that are written as text.
const MAX_CALLS: usize = 8192;

/// Most conversations with one model whose density is remembered.
const MAX_CONVERSATIONS: usize = 4096;

/// Tokens that a provider may count for a hundred of our estimate. A token has at least one byte, and we take it for four;
/// what goes beyond that is no text.
const PLAUSIBLE_DENSITY: RangeInclusive<u64> = 50..=400;

/// How long a refusal is remembered. Some are passing: an endpoint that is away, a limit that was raised.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// What is known of one model beyond its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Learned {
    /// Tokens of its context.
    pub(super) window: Option<u64>,
    /// The same as refusals have told it, whatever is configured.
    pub(super) refused_window: Option<u64>,
    /// Tokens that one request may have because of a rate. Forgotten with the refusals: rates are raised, windows are not.
    pub(super) rate: Option<u64>,
    /// Tokens of its longest answer.
    pub(super) max_output: Option<u64>,
    /// A cap that it takes, where a higher one was refused without a number. Forgotten with the refusals.
    pub(super) lowered_output: Option<u64>,
    /// Fields of the request's body that it refuses; a dot leads into an object.
    pub(super) fields: BTreeSet<String>,
    /// Declarations of tools that it refuses: their names with a digest of all that they say.
    pub(super) declarations: BTreeSet<String>,
    /// Those of these declarations that it was not asked about, because the search for the refused ones had ended.
    pub(super) untried_declarations: BTreeSet<String>,
    /// The names of the tools of the call at hand whose declarations it refuses.
    pub(super) tools: BTreeSet<String>,
    /// Levels of effort that it does not know, with the ones to ask for instead.
    pub(super) efforts: BTreeMap<Effort, Effort>,
    /// The most tokens that it has read in one call, as it told itself. Its window holds at least these.
    pub(super) proven: u64,
    /// Tokens that its provider counts for a hundred of our estimate.
    pub(super) percent_of_estimate: Option<u64>,
    /// Whether it takes instructions from the user only.
    pub(super) refuses_system: bool,
    /// Whether it takes instructions before the conversation only, and within it from the user.
    pub(super) wants_system_first: bool,
    /// Whether it refuses calls in a conversation whose request declares no tools.
    pub(super) wants_tools_with_calls: bool,
    /// Whether it takes nothing but users' messages and answers, one after the other: calls and results become text.
    pub(super) wants_plain_roles: bool,
    /// Calls of conversations that it refuses in no known words, and takes with these calls as text. It takes others.
    pub(super) plain_calls: HashSet<MediaDigest>,
    /// Whether ids of calls must have nine letters and digits (chat completions only).
    pub(super) wants_short_ids: bool,
    /// Whether the content of an answer that only made calls must be a text, be it an empty one (chat completions only).
    pub(super) wants_empty_text: bool,
    /// Whether it takes no ids of calls (Gemini only).
    pub(super) refuses_call_ids: bool,
    /// Whether it takes no reasoning back at all.
    pub(super) refuses_reasoning: bool,
    /// The answers that it wants back with their reasoning, as its refusals tell (chat completions only).
    pub(super) wants_reasoning: WantsReasoning,
    /// Images, documents and proofs of reasoning that it refuses.
    pub(super) media: HashSet<MediaDigest>,
    /// Images that it refuses as they are, and the forms that they are sent in instead.
    pub(super) image_forms: HashMap<MediaDigest, ImageForm>,
    /// The most images that it takes in one call.
    pub(super) max_images: Option<usize>,
    /// The most bytes of images and documents that it takes in one call, where a request was too large with more.
    pub(super) max_media_bytes: Option<usize>,
    /// The most bytes of images and documents that it has taken in one call.
    pub(super) proven_media_bytes: usize,
    /// The most tools that it takes in one call.
    pub(super) max_tools: Option<usize>,
    /// Whether it is to be called through OpenAI's Responses rather than chat completions.
    pub(super) wants_responses: bool,
    /// Whether it is to be called through chat completions rather than OpenAI's Responses, which its server does not have.
    pub(super) wants_chat: bool,
    /// Whether its provider has described it, which holds longer than a refusal.
    pub(super) is_described: bool,
    /// Whether it takes no images at all.
    pub(super) is_blind: bool,
    /// Whether it thinks, where its provider has told.
    pub(super) thinks: Option<bool>,
    /// Whether it takes any tools at all, where its provider has told.
    pub(super) takes_tools: Option<bool>,
}

impl Learned {
    /// Keeps a window that a refusal has told, or shown.
    pub(super) fn learn_window(&mut self, window: u64) {
        for known in [&mut self.window, &mut self.refused_window] {
            *known = Some(known.map_or(window, |known| known.min(window)));
        }
    }

    /// Adds what another call has found out.
    pub(super) fn merge(&mut self, other: Self) {
        let least = |a: Option<u64>, b: Option<u64>| [a, b].into_iter().flatten().min();
        self.window = least(self.window, other.window);
        self.refused_window = least(self.refused_window, other.refused_window);
        let fewest = |a: Option<usize>, b: Option<usize>| [a, b].into_iter().flatten().min();
        self.max_images = fewest(self.max_images, other.max_images);
        self.proven_media_bytes = self.proven_media_bytes.max(other.proven_media_bytes);
        self.max_media_bytes = fewest(self.max_media_bytes, other.max_media_bytes);
        self.max_tools = fewest(self.max_tools, other.max_tools);
        self.rate = other.rate.or(self.rate);
        self.max_output = least(self.max_output, other.max_output);
        self.lowered_output = least(self.lowered_output, other.lowered_output);
        self.fields.extend(other.fields);
        self.declarations.extend(other.declarations);
        self.untried_declarations.extend(other.untried_declarations);
        self.efforts.extend(other.efforts);
        self.percent_of_estimate = self.percent_of_estimate.max(other.percent_of_estimate);
        self.refuses_system |= other.refuses_system;
        self.wants_system_first |= other.wants_system_first;
        self.wants_tools_with_calls |= other.wants_tools_with_calls;
        self.wants_plain_roles |= other.wants_plain_roles;
        self.wants_short_ids |= other.wants_short_ids;
        self.wants_empty_text |= other.wants_empty_text;
        self.refuses_call_ids |= other.refuses_call_ids;
        self.refuses_reasoning |= other.refuses_reasoning;
        self.wants_reasoning = self.wants_reasoning.max(other.wants_reasoning);
        self.plain_calls.extend(other.plain_calls);
        self.media.extend(other.media);
        self.image_forms.extend(other.image_forms);
        self.wants_responses |= other.wants_responses;
        self.wants_chat |= other.wants_chat;
        self.is_blind |= other.is_blind;
    }
}

/// The answers that a model wants back with their reasoning. Where that is not known, a space stands for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WantsReasoning {
    /// The answers whose reasoning the server's rules ask for.
    #[default]
    AsUsual,
    /// All answers of turns that made calls.
    InTurnsWithCalls,
    /// All answers.
    Everywhere,
}

impl WantsReasoning {
    /// What to try after a refusal; the same where there is nothing more.
    pub(super) fn more(self) -> Self {
        match self {
            Self::AsUsual => Self::InTurnsWithCalls,
            Self::InTurnsWithCalls | Self::Everywhere => Self::Everywhere,
        }
    }
}

/// How an image is sent that was refused as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageForm {
    /// In a format that every server reads.
    Plain,
    /// In such a format, and small.
    Small,
}

/// Tells images, documents and calls apart without keeping them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MediaDigest([u8; 12]);

/// Tells declarations of tools apart: other sessions may have another tool of the same name.
pub(super) fn declaration(tool: &ToolSpec) -> String {
    let MediaDigest(bytes) = MediaDigest::of(&format!("{}\0{}", tool.description, tool.input_schema.as_str()));
    let digest: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}#{digest}", tool.name)
}

impl MediaDigest {
    /// The digest of an image's URL or a document's base64.
    pub(super) fn of(content: &str) -> Self {
        let bytes: [u8; 32] = Sha256::digest(content.as_bytes()).into();
        let mut digest = [0; 12];
        digest.copy_from_slice(&bytes[..12]);
        Self(digest)
    }

    /// The digest of a call. Clients choose ids, so that two sessions may have calls of one id.
    pub(super) fn of_call(call: &ToolUse) -> Self {
        Self::of(&format!("{}\0{}\0{}", call.id.as_str(), call.name, call.input.as_str()))
    }
}

/// What is known of the models of one provider.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<String, Known>>);

/// What is known of one model, and since when.
#[derive(Debug)]
struct Known {
    learned: Learned,
    /// When the oldest refusal in it was met.
    since: Instant,
    /// Tokens that the provider counts for a hundred of our estimate, by conversation. Not forgotten with the refusals: every
    /// answer corrects it.
    densities: HashMap<String, u64>,
}

impl Default for Known {
    fn default() -> Self {
        Self { learned: Learned::default(), since: Instant::now(), densities: HashMap::new() }
    }
}

impl Known {
    /// Forgets refusals that may be over by now. Windows stay: a server's window does not grow while it runs, and a call that
    /// is answered beyond it raises it.
    fn refresh(&mut self) -> &mut Learned {
        if self.since.elapsed() >= LIFETIME {
            let before = std::mem::take(&mut self.learned);
            self.learned = Learned {
                proven: before.proven,
                window: before.window,
                refused_window: before.refused_window,
                wants_responses: before.wants_responses,
                wants_chat: before.wants_chat,
                ..Learned::default()
            };
            if before.is_described {
                let learned = &mut self.learned;
                learned.is_described = true;
                (learned.max_output, learned.is_blind) = (before.max_output, before.is_blind);
                (learned.thinks, learned.takes_tools) = (before.thinks, before.takes_tools);
            }
            self.since = Instant::now();
        }
        &mut self.learned
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a model.
    pub(super) fn of(&self, model: &str) -> Learned {
        self.lock().get_mut(model).map(|known| known.refresh().clone()).unwrap_or_default()
    }

    /// One fact about a model, without a copy of the rest.
    pub(super) fn look<T>(&self, model: &str, fact: impl FnOnce(&Learned) -> T) -> Option<T> {
        self.lock().get_mut(model).map(|known| fact(known.refresh()))
    }

    /// Tokens that the provider counts for a hundred of our estimate: in a conversation, else where a call has overflowed.
    pub(super) fn density(&self, model: &str, conversation: Option<&str>) -> Option<u64> {
        let mut models = self.lock();
        let known = models.get_mut(model)?;
        let measured = conversation.and_then(|conversation| known.densities.get(conversation).copied());
        measured.or_else(|| known.refresh().percent_of_estimate)
    }

    /// Keeps how many tokens the provider has counted in a call of a conversation. The highest share counts until it is clearly
    /// lower, in steps of ten: what follows from it, such as the tools that fit, must not change with every call.
    pub(super) fn measure(&self, model: &str, conversation: &str, estimate: u64, counted: u64) {
        /// Of a shorter call an estimate says little.
        const LONG: u64 = 1000;
        let percent = counted.saturating_mul(10).div_ceil(estimate.max(1)).saturating_mul(10);
        if estimate < LONG || !PLAUSIBLE_DENSITY.contains(&percent) {
            return;
        }
        let mut models = self.lock();
        if models.len() >= MAX_MODELS && !models.contains_key(model) {
            models.clear();
        }
        let densities = &mut models.entry(model.to_owned()).or_default().densities;
        if densities.len() >= MAX_CONVERSATIONS && !densities.contains_key(conversation) {
            densities.clear();
        }
        let known = densities.entry(conversation.to_owned()).or_insert(percent);
        if percent > *known || percent < *known / 4 * 3 {
            *known = percent;
        }
    }

    /// Adds to what is known of a model.
    pub(super) fn learn(&self, model: &str, change: impl FnOnce(&mut Learned)) {
        let mut models = self.lock();
        if models.len() >= MAX_MODELS && !models.contains_key(model) {
            models.clear();
        }
        let learned = models.entry(model.to_owned()).or_default().refresh();
        change(learned);
        if learned.media.len() > MAX_REFUSED {
            learned.media.clear();
        }
        if learned.image_forms.len() > MAX_REFUSED {
            learned.image_forms.clear();
        }
        if learned.plain_calls.len() > MAX_CALLS {
            learned.plain_calls.clear();
        }
        while learned.declarations.len() > MAX_REFUSED {
            if let Some(forgotten) = learned.declarations.pop_first() {
                learned.untried_declarations.remove(&forgotten);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window that the provider has described holds for good; a rate may be raised at any time.
    #[test]
    fn a_rate_is_forgotten_with_the_refusals() {
        let memory = Memory::default();
        memory.learn("m", |learned| {
            *learned = Learned { window: Some(9000), rate: Some(8000), is_described: true, ..Learned::default() };
        });
        assert_eq!(memory.of("m").rate, Some(8000));
        let Some(long_ago) = Instant::now().checked_sub(LIFETIME) else { return };
        memory.lock().get_mut("m").unwrap().since = long_ago;
        assert_eq!((memory.of("m").window, memory.of("m").rate), (Some(9000), None));
    }

    /// Otherwise a long conversation would overflow again every quarter of an hour.
    #[test]
    fn a_window_that_a_refusal_told_is_kept() {
        let memory = Memory::default();
        memory.learn("m", |learned| {
            learned.learn_window(32_768);
            learned.is_blind = true;
        });
        let Some(long_ago) = Instant::now().checked_sub(LIFETIME + Duration::from_secs(60)) else { return };
        memory.lock().get_mut("m").unwrap().since = long_ago;
        let learned = memory.of("m");
        assert_eq!((learned.window, learned.refused_window, learned.is_blind), (Some(32_768), Some(32_768), false));
    }
}
