//! Tool schemas in the part of JSON Schema that each vendor takes.
//!
//! A vendor refuses the whole request because of one schema that it cannot read. So every schema is brought into the
//! vendor's part of the language before it is sent: references are replaced by what they refer to ([`inline`]), the root
//! becomes one object ([`root`]), and keywords are kept, translated or dropped ([`rewrite`]). Where something must be
//! dropped, the schema allows more than before, never less, and the tool itself still checks its input.

mod inline;
mod kimi;
mod merge;
mod rewrite;
mod root;
mod shape;
#[cfg(test)]
mod tests;
mod translate;
mod tree;

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use everturn_core::Json;

use self::{
    inline::{Budget, inline},
    tree::Node,
};

/// The longest schema that is looked at, in bytes.
const MAX_INPUT: usize = 1024 * 1024;
/// The longest schema that is sent, in bytes.
const MAX_OUTPUT: usize = 256 * 1024;
/// The most JSON values in a schema that is sent.
const MAX_NODES: usize = 10_000;
/// How deep schemas may lie within schemas.
const MAX_DEPTH: usize = 64;

/// How many references may lead into one another; the next smaller number is tried where the result would be too large.
const REFERENCE_DEPTHS: [usize; 5] = [8, 4, 2, 1, 0];

/// The most schemas whose outcome is remembered, and the most bytes of them.
const MAX_REMEMBERED: usize = 512;
const MAX_REMEMBERED_BYTES: usize = 8 * 1024 * 1024;

/// Whose rules a schema must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// Function parameters of OpenAI and of compatible servers, some of which are stricter.
    OpenAi,
    /// `input_schema`: checked against the meta-schema of draft 2020-12.
    Anthropic,
    /// `parametersJsonSchema`.
    Gemini,
    /// `parameters`, of which Ollama passes a few keywords on to the model.
    Ollama,
    /// Function parameters of servers that people run themselves: llama.cpp, vLLM and others make a grammar of them, and
    /// fail at what their grammars cannot say.
    Grammar,
    /// Function parameters of Kimi, by the specification of Moonshot AI.
    Kimi,
}

/// The schema of a tool's input as a vendor takes it: unchanged where it fits already. An error says, in words for
/// people, why it cannot be expressed.
pub(super) fn tool_schema(schema: &Json, rules: Rules) -> Result<Cow<'_, Json>, String> {
    match Memory::get_or_make(rules, schema.as_str()) {
        Outcome::Fits => Ok(Cow::Borrowed(schema)),
        Outcome::Rewritten { json, .. } => Ok(Cow::Owned(Json::clone(&json))),
        Outcome::Unfit(reason) => Err(reason.to_string()),
    }
}

/// The optional fields of a schema that [`tool_schema`] leaves out, because the vendor takes no such names.
pub(super) fn lost_fields(schema: &Json, rules: Rules) -> Arc<[String]> {
    match Memory::get_or_make(rules, schema.as_str()) {
        Outcome::Rewritten { lost, .. } => lost,
        Outcome::Fits | Outcome::Unfit(_) => Arc::default(),
    }
}

/// What became of a schema.
#[derive(Clone, Debug)]
enum Outcome {
    Fits,
    Rewritten {
        json: Arc<Json>,
        /// The fields that are gone.
        lost: Arc<[String]>,
    },
    Unfit(Arc<str>),
}

impl Outcome {
    fn of(text: &str, rules: Rules) -> Self {
        match rewritten(text, rules) {
            Ok(Some((json, lost))) => Self::Rewritten { json: Arc::new(json), lost: lost.into() },
            Ok(None) => Self::Fits,
            Err(unfit) => Self::Unfit(unfit.to_string().into()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Fits => 0,
            Self::Rewritten { json, lost } => json.as_str().len() + lost.iter().map(String::len).sum::<usize>(),
            Self::Unfit(reason) => reason.len(),
        }
    }
}

/// Why a schema, or a part of it, cannot be expressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Unfit {
    #[error("its input is not an object")]
    NotAnObject,
    #[error(
        "its input needs a field {0:?}, and the provider takes only names of 1 to 64 letters, digits, \"_\", \".\" and \"-\""
    )]
    Key(String),
    #[error("its schema is longer than {0} bytes")]
    Bytes(usize),
    #[error("its schema has more than {MAX_NODES} values")]
    Nodes,
    #[error("its schema is nested deeper than {MAX_DEPTH} levels")]
    Depth,
    #[error("its schema cannot be read: {0}")]
    Unreadable(String),
}

/// The schema where it must change; nothing where it fits.
fn rewritten(text: &str, rules: Rules) -> Result<Option<(Json, Vec<String>)>, Unfit> {
    if text.len() > MAX_INPUT {
        return Err(Unfit::Bytes(MAX_INPUT));
    }
    let original: Node = serde_json::from_str(text).map_err(|error| Unfit::Unreadable(error.to_string()))?;
    let mut failure = Unfit::Nodes;
    for depth in REFERENCE_DEPTHS {
        match attempt(&original, rules, depth) {
            Ok((node, ..)) if node == original => return Ok(None),
            Ok((_, json, lost)) => return Ok(Some((json, lost))),
            Err(unfit @ (Unfit::Bytes(_) | Unfit::Nodes | Unfit::Depth)) => failure = unfit,
            Err(unfit) => return Err(unfit),
        }
    }
    Err(failure)
}

fn attempt(original: &Node, rules: Rules, reference_depth: usize) -> Result<(Node, Json, Vec<String>), Unfit> {
    let inlined = inline(original, reference_depth, Budget { nodes: MAX_NODES, bytes: MAX_OUTPUT })?;
    let object = root::object(inlined, rules).ok_or(Unfit::NotAnObject)?;
    let (node, lost) = rewrite::root(object, rules)?;
    let json = Json::of(&node).map_err(|error| Unfit::Unreadable(error.to_string()))?;
    if json.as_str().len() > MAX_OUTPUT {
        return Err(Unfit::Bytes(MAX_OUTPUT));
    }
    Ok((node, json, lost))
}

/// Outcomes of earlier calls: every request of every session declares the same few tools again.
#[derive(Default)]
struct Memory {
    outcomes: [HashMap<Box<str>, Outcome>; 6],
    count: usize,
    bytes: usize,
}

static MEMORY: LazyLock<Mutex<Memory>> = LazyLock::new(Mutex::default);

impl Memory {
    fn get_or_make(rules: Rules, text: &str) -> Outcome {
        Self::get(rules, text).unwrap_or_else(|| {
            let outcome = Outcome::of(text, rules);
            Self::put(rules, text, outcome.clone());
            outcome
        })
    }

    fn get(rules: Rules, text: &str) -> Option<Outcome> {
        MEMORY.lock().unwrap_or_else(PoisonError::into_inner).outcomes[rules as usize].get(text).cloned()
    }

    fn put(rules: Rules, text: &str, outcome: Outcome) {
        MEMORY.lock().unwrap_or_else(PoisonError::into_inner).insert(rules, text, outcome);
    }

    fn insert(&mut self, rules: Rules, text: &str, outcome: Outcome) {
        let bytes = text.len() + outcome.bytes();
        if self.count >= MAX_REMEMBERED || self.bytes + bytes > MAX_REMEMBERED_BYTES {
            *self = Self::default();
        }
        if self.outcomes[rules as usize].insert(text.into(), outcome).is_none() {
            self.count += 1;
            self.bytes += bytes;
        }
    }
}
