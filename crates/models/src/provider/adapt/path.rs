//! Places in a request's body, as errors name them: `messages.3.content.1`, `input[3].content[1]`, `tools[0].parameters`.

use serde_json::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

/// The path in `text` that begins with this word, without the word itself. `None` if the word does not stand there with a
/// path behind it.
pub(super) fn after<'a>(text: &'a str, root: &str) -> Option<Vec<Step<'a>>> {
    let mut from = 0;
    while let Some(at) = text[from..].find(root) {
        let (start, end) = (from + at, from + at + root.len());
        let is_word = !text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let steps = if is_word { steps(&text[end..]) } else { Vec::new() };
        if matches!(steps.first(), Some(Step::Index(_))) {
            return Some(steps);
        }
        from = end;
    }
    None
}

fn steps(mut text: &str) -> Vec<Step<'_>> {
    const MOST: usize = 16;
    let mut steps = Vec::new();
    while steps.len() < MOST {
        let (step, rest) = if let Some(inner) = text.strip_prefix('[') {
            let Some((index, rest)) = inner.split_once(']') else { break };
            let Ok(index) = index.parse() else { break };
            (Step::Index(index), rest)
        } else if let Some(inner) = text.strip_prefix('.') {
            let end = inner.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inner.len());
            let (name, rest) = inner.split_at(end);
            if name.is_empty() {
                break;
            }
            (name.parse().map_or(Step::Name(name), Step::Index), rest)
        } else {
            break;
        };
        steps.push(step);
        text = rest;
    }
    steps
}

/// The deepest value on a path that there is. Names of variants that some errors put between (`content.1.image.source`)
/// are passed over.
pub(super) fn walk<'v>(mut value: &'v Value, steps: &[Step<'_>]) -> &'v Value {
    for step in steps {
        let next = match step {
            Step::Name(name) => value.get(name),
            Step::Index(index) => value.get(index),
        };
        value = match (next, step) {
            (Some(next), _) => next,
            (None, Step::Name(_)) => continue,
            (None, Step::Index(_)) => break,
        };
    }
    value
}
