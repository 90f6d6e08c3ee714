//! What tokens cost. Prices come from the configuration, and costs are worked out when they are asked for: nothing keeps
//! them, so a price that was wrong can be corrected later.
//!
//! All arithmetic is exact. A price in dollars per million tokens with six decimals is a whole number of pico-dollars per
//! token, and so is every sum.

use std::{collections::BTreeMap, fmt, iter::Sum, ops::AddAssign};

use crate::{Json, Usage};

/// Pico-dollars in a dollar.
const DOLLAR: u128 = 1_000_000_000_000;
/// Pico-dollars in a millionth of a dollar, the last decimal that is shown.
const MICRO: u128 = 1_000_000;

/// Dollars per million tokens, in millionths: pico-dollars per token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    /// The largest rate, in dollars per million tokens.
    pub const MOST_DOLLARS: u32 = 1_000_000;

    /// A rate in dollars per million tokens. `None` unless it is between zero and [`Self::MOST_DOLLARS`] and has at most
    /// six decimals.
    pub fn new(dollars: f64) -> Option<Self> {
        if !(0.0..=f64::from(Self::MOST_DOLLARS)).contains(&dollars) {
            return None;
        }
        // The shortest text that stands for the number is what its writer wrote; it never has an exponent.
        let text = dollars.abs().to_string();
        let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
        if decimals.len() > 6 {
            return None;
        }
        format!("{whole}{decimals:0<6}").parse().ok().map(Self)
    }

    /// Dollars per million tokens.
    #[expect(clippy::cast_precision_loss, reason = "rates are far below what loses a digit")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// What the tokens of a model cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Tokens read.
    pub input: Rate,
    /// Tokens read from the provider's cache; as other input if left out.
    pub cached_input: Option<Rate>,
    /// Tokens written to the provider's cache; as other input if left out.
    pub cache_write: Option<Rate>,
    /// Tokens written, reasoning included.
    pub output: Rate,
}

impl Price {
    /// What this usage costs.
    pub fn cost(&self, usage: Usage) -> Cost {
        let Usage { input, output, cached_input, cache_write, reasoning: _ } = usage;
        let plain = input.saturating_sub(cached_input).saturating_sub(cache_write);
        let parts = [
            (plain, self.input),
            (cached_input, self.cached_input.unwrap_or(self.input)),
            (cache_write, self.cache_write.unwrap_or(self.input)),
            (output, self.output),
        ];
        parts.into_iter().map(|(tokens, Rate(rate))| Cost(u128::from(tokens) * u128::from(rate))).sum()
    }
}

/// What the models cost whose prices are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Prices by `provider/model`, or `provider/*` for every other model of a provider.
    pub fn new(prices: BTreeMap<String, Price>) -> Self {
        Self(prices)
    }

    /// Whether no price is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The price of a model, `provider/model`.
    pub fn of(&self, model: &str) -> Option<&Price> {
        self.0.get(model).or_else(|| {
            let (provider, _) = model.split_once('/')?;
            self.0.get(&format!("{provider}/*"))
        })
    }
}

/// An amount of money, in pico-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(u128);

impl Cost {
    /// The amount in dollars as a JSON number, rounded to six decimals.
    pub fn to_json(self) -> Json {
        // Digits and a point are valid JSON.
        Json::parse(&self.to_string()).unwrap_or_else(|_| Json::empty_object())
    }

    /// The amount in dollars, as near as a floating point number comes.
    #[expect(clippy::cast_precision_loss, reason = "a metric is a floating point number")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / DOLLAR as f64
    }
}

impl fmt::Display for Cost {
    /// Dollars, rounded to six decimals, without zeros at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.saturating_add(MICRO / 2) / MICRO;
        let text = format!("{}.{:06}", micros / MICRO, micros % MICRO);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        let mut sum = Self::default();
        costs.for_each(|cost| sum += cost);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(dollars: f64) -> Rate {
        Rate::new(dollars).expect("a rate")
    }

    #[test]
    fn rates_are_decimals_within_bounds() {
        for (dollars, expected) in [(0.0, 0), (-0.0, 0), (4.0, 4_000_000), (0.1, 100_000), (0.000_001, 1)] {
            assert_eq!(Rate::new(dollars), Some(Rate(expected)), "{dollars}");
        }
        assert_eq!(Rate::new(1e6), Some(Rate(1_000_000_000_000)));
        for dollars in [-0.1, 1e6 + 0.5, 0.000_000_1, 1.234_567_8, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Rate::new(dollars), None, "{dollars}");
        }
    }

    #[test]
    fn costs_are_exact() {
        let whole =
            Price { input: rate(4.0), cached_input: Some(rate(0.4)), cache_write: Some(rate(5.0)), output: rate(20.0) };
        let plain = Price { cached_input: None, cache_write: None, ..whole };
        let usage =
            Usage { input: 1_000_000, output: 100_000, cached_input: 800_000, cache_write: 50_000, reasoning: 90_000 };
        // 150 000 at 4, 800 000 at 0.4, 50 000 at 5 and 100 000 at 20 dollars per million.
        assert_eq!(whole.cost(usage).to_string(), "3.17");
        assert_eq!(plain.cost(usage).to_string(), "6");
        // Details that say more than the whole: never below zero.
        let odd = Usage { input: 1, cached_input: 10, ..Usage::default() };
        assert_eq!(whole.cost(odd), Cost(10 * 400_000));
        let ten_times: Cost = (0..10).map(|_| Price { input: rate(0.1), ..plain }.cost(Usage::of(1, 0))).sum();
        assert_eq!((ten_times, ten_times.to_string().as_str()), (Cost(1_000_000), "0.000001"));
        let most = Price { input: rate(1e6), cached_input: None, cache_write: None, output: rate(1e6) };
        assert_eq!(most.cost(Usage::of(u64::MAX, u64::MAX)).to_string(), "36893488147419103230");
    }

    #[test]
    fn costs_are_shown_as_plain_numbers() {
        let shown = [(0, "0"), (499_999, "0"), (500_000, "0.000001"), (DOLLAR, "1"), (15 * DOLLAR / 10, "1.5")];
        for (cost, expected) in shown.into_iter().chain([(10 * DOLLAR, "10"), (DOLLAR - 1, "1")]) {
            assert_eq!(Cost(cost).to_json().as_str(), expected);
        }
        assert_eq!(Cost(u128::MAX).to_json().as_str(), Cost(u128::MAX).to_string());
        assert!((Cost(15 * DOLLAR / 10).dollars() - 1.5).abs() < f64::EPSILON);
    }

    #[test]
    fn a_model_has_its_own_price_or_its_providers() {
        let of = |dollars| Price { input: rate(dollars), cached_input: None, cache_write: None, output: rate(dollars) };
        let prices = [("a/m", of(1.0)), ("a/*", of(2.0)), ("b/x/y", of(3.0))];
        let prices = Prices::new(prices.into_iter().map(|(name, price)| (name.to_owned(), price)).collect());
        let expected = [("a/m", Some(1.0)), ("a/n", Some(2.0)), ("a/m/n", Some(2.0)), ("b/x/y", Some(3.0))];
        for (model, dollars) in expected.into_iter().chain([("b/x", None), ("c/m", None), ("a", None), ("", None)]) {
            assert_eq!(prices.of(model), dollars.map(of).as_ref(), "{model}");
        }
    }
}
