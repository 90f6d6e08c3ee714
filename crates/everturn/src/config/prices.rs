//! What models cost.

use std::collections::BTreeMap;

use everturn_core::{Price, Prices, Rate};
use serde::Deserialize;
use toml::Spanned;

use super::{file::Text, problem::Report, suggest};

/// Dollars per million tokens.
type Dollars = Spanned<f64>;

/// `[prices."provider/model"]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriceTable {
    input: Dollars,
    cached_input: Option<Dollars>,
    cache_write: Option<Dollars>,
    output: Dollars,
}

/// The prices, as far as they hold up. `providers` are the names that the file has; `None` if it has none, and those that
/// there are depend on what is found at start.
pub(super) fn check(report: &mut Report<'_>, providers: Option<&[&str]>, tables: BTreeMap<Text, PriceTable>) -> Prices {
    let mut prices = BTreeMap::new();
    for (name, table) in tables {
        check_name(report, providers, &name);
        let input = rate(report, "input", &table.input);
        let cached_input = table.cached_input.as_ref().map(|rate| self::rate(report, "cached_input", rate));
        let cache_write = table.cache_write.as_ref().map(|rate| self::rate(report, "cache_write", rate));
        let output = rate(report, "output", &table.output);
        prices.insert(name.into_inner(), Price { input, cached_input, cache_write, output });
    }
    Prices::new(prices)
}

fn check_name(report: &mut Report<'_>, providers: Option<&[&str]>, name: &Text) {
    let known = || providers.unwrap_or_default().iter().copied();
    let Some((provider, model)) = name.get_ref().split_once('/').filter(|(_, model)| !model.is_empty()) else {
        let message = format!("the price of `{}` does not say which provider's model it is", name.get_ref());
        let hint = match name.get_ref().strip_suffix('/') {
            Some(provider) => format!("write [prices.\"{provider}/*\"] for all its models"),
            None => {
                let provider = known().next().unwrap_or("provider");
                format!("write it as [prices.\"{provider}/{}\"]", name.get_ref())
            }
        };
        report.add(Some(name.span()), message, hint);
        return;
    };
    if providers.is_some() && !known().any(|known| known == provider) {
        let message = format!("there is no provider `{provider}` for the price of `{}`", name.get_ref());
        let hint = match suggest::nearest(provider, known()) {
            Some(near) => format!("did you mean `{near}/{model}`?"),
            None => format!("add a table [providers.{provider}] with its kind, or take the price out"),
        };
        report.add(Some(name.span()), message, hint);
    }
}

fn rate(report: &mut Report<'_>, name: &str, dollars: &Dollars) -> Rate {
    let (number, most) = (*dollars.get_ref(), Rate::MOST_DOLLARS);
    Rate::new(number).unwrap_or_else(|| {
        let message = if (0.0..=f64::from(most)).contains(&number) {
            format!("`{name}` has more than six decimals: {number}")
        } else {
            format!("`{name}` must be between 0 and {most}, not {number}")
        };
        report.add(Some(dollars.span()), message, "prices are in dollars per million tokens".to_owned());
        Rate::default()
    })
}
