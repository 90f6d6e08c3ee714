//! Checks how an agent's models think and sample.

use std::ops::RangeInclusive;

use everturn_core::ModelOptions;

use super::{
    choice::{Choice, choose},
    file::{self, Fraction, Text},
    problem::Report,
};

/// The options that hold up.
pub(super) fn check(report: &mut Report<'_>, agent: &file::Agent) -> ModelOptions {
    ModelOptions {
        effort: word(report, agent.effort.as_ref()),
        thinking: word(report, agent.thinking.as_ref()),
        temperature: thousandths(report, "temperature", agent.temperature.as_ref(), 0.0..=2.0),
        top_p: thousandths(report, "top_p", agent.top_p.as_ref(), 0.0..=1.0),
        ..ModelOptions::default()
    }
}

fn word<C: Choice>(report: &mut Report<'_>, word: Option<&Text>) -> Option<C> {
    word.and_then(|word| choose(report, Some(word.span()), word.get_ref()))
}

fn thousandths(
    report: &mut Report<'_>,
    name: &str,
    value: Option<&Fraction>,
    range: RangeInclusive<f64>,
) -> Option<u32> {
    let value = value?;
    let number = *value.get_ref();
    if !range.contains(&number) {
        let message = format!("`{name}` must be between {} and {}, not {number}", range.start(), range.end());
        report.add(Some(value.span()), message, None);
        return None;
    }
    Some((number * 1000.0).round() as u32)
}
