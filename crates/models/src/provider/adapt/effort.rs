//! Levels of effort that a model does not know.

use everturn_core::Effort;

use super::Change;
use crate::model::ModelRequest;

/// What stands before the levels that a model knows.
const LISTS: &[&str] = &["supported values are", "supported levels", "supported effort levels", "supported efforts"];

/// The level to ask for instead, where a refusal lists the levels that the model knows.
pub(super) fn known(words: &str, request: &ModelRequest) -> Option<Change> {
    let asked = request.options.effort?;
    let (_, list) = LISTS.iter().find_map(|marker| words.split_once(marker))?;
    let named = |effort: &Effort| list.split(|c: char| !c.is_alphanumeric()).any(|word| word == effort.as_str());
    let place = |effort: Effort| Effort::ALL.iter().position(|one| *one == effort).unwrap_or(0);
    let known = Effort::ALL.into_iter().filter(named);
    let nearest = known.min_by_key(|effort| place(*effort).abs_diff(place(asked)))?;
    (nearest != asked).then_some(Change::Effort { asked, nearest })
}
