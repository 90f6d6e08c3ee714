//! `/usage`: what the tenant has used, by day, agent, model and key.

use std::{collections::BTreeMap, num::NonZeroU64};

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use everturn_core::{Cost, Day, Json as RawJson, Prices, TenantId, Timestamp};
use everturn_http::Scope;
use everturn_store::{UsageCount, UsageRow, UsageSlot};
use http::HeaderMap;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::{answers, code::Code, error::ApiError, paging, routes::Api};

/// How many days are shown unless the client says so.
const DEFAULT_DAYS: i32 = 30;
/// How many days one request may ask for.
const MAX_DAYS: i32 = 366;
/// How many rows are read from the store at a time.
const BATCH: usize = 1000;
/// How many groups one request may make: they are summed up in memory.
const MAX_GROUPS: usize = 100_000;
/// Longest name that can be filtered by.
const MAX_NAME: usize = 512;

/// What can be asked.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// The first day, UTC; 29 days before the last one if it is left out.
    #[param(value_type = Option<String>, format = Date, nullable = false, example = "2026-11-01")]
    from: Option<String>,
    /// The last day, UTC; today if it is left out. At most 366 days in all.
    #[param(value_type = Option<String>, format = Date, nullable = false, example = "2026-11-16")]
    to: Option<String>,
    /// What is told apart, as words separated by commas: `day`, `agent`, `model`, `key`. All of them if it is left out.
    #[param(value_type = Option<String>, nullable = false, example = "day,agent",
        pattern = "^(day|agent|model|key)(,(day|agent|model|key)){0,3}$")]
    group_by: Option<String>,
    /// Only this agent.
    #[param(nullable = false, max_length = 512)]
    agent: Option<String>,
    /// Only this model, `provider/model`.
    #[param(nullable = false, max_length = 512)]
    model: Option<String>,
    /// Only this key.
    #[param(nullable = false, max_length = 512)]
    key_id: Option<String>,
    /// How many entries a page has.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200, default = 50, nullable = false)]
    limit: Option<String>,
    /// `next_cursor` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::UsagePage)]
struct UsagePage {
    /// The first day.
    #[schema(format = Date)]
    from: String,
    /// The last day.
    #[schema(format = Date)]
    to: String,
    /// What `cost` is counted in. Given if prices are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<String>, example = "USD")]
    currency: Option<&'static str>,
    /// What is stored now, whatever was asked for.
    storage: StorageOut,
    /// In the order of day, agent, model and key.
    usage: Vec<UsageOut>,
    /// Given if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// What the tenant's documents, artifacts and logs take.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Storage)]
struct StorageOut {
    /// In bytes.
    used_bytes: u64,
    /// The tenant's quota, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<u64>)]
    limit_bytes: Option<NonZeroU64>,
}

/// What was used together. What is not told apart is left out.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Usage)]
struct UsageOut {
    /// The day, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = Date)]
    day: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    agent: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    model: Option<String>,
    /// The key; null where none was needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    key_id: Option<Option<String>>,
    /// Turns that began. They count for the model that their agent prefers.
    turns: u64,
    /// Model calls, those that were made again included.
    model_calls: u64,
    /// Tokens read by models, cached or not.
    input_tokens: u64,
    /// Of `input_tokens`, those that providers had in their caches.
    cached_input_tokens: u64,
    /// Of `input_tokens`, those that providers wrote to their caches, where they charge for that.
    cache_write_tokens: u64,
    /// Tokens written by models, reasoning included.
    output_tokens: u64,
    /// Of `output_tokens`, those that models spent on reasoning.
    reasoning_tokens: u64,
    /// What it costs at the prices that are configured now, with up to six decimals. Left out unless the prices of all
    /// models that were used are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<f64>, minimum = 0)]
    cost: Option<RawJson>,
}

/// What was used together, and its cost as far as prices are known.
#[derive(Default)]
struct Sum {
    count: UsageCount,
    cost: Cost,
    /// Whether a model had a price.
    has_price: bool,
    /// Whether tokens of a model without a price were used.
    lacks_price: bool,
}

impl Sum {
    fn add(&mut self, prices: &Prices, model: &str, count: UsageCount) {
        let sum = &mut self.count;
        sum.turns = sum.turns.saturating_add(count.turns);
        sum.calls = sum.calls.saturating_add(count.calls);
        sum.tokens += count.tokens;
        match prices.of(model) {
            Some(price) => {
                self.cost += price.cost(count.tokens);
                self.has_price = true;
            }
            None => self.lacks_price |= !count.tokens.is_zero(),
        }
    }

    fn cost(&self) -> Option<RawJson> {
        (self.has_price && !self.lacks_price).then(|| self.cost.to_json())
    }
}

/// What is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupBy {
    day: bool,
    agent: bool,
    model: bool,
    key: bool,
}

impl GroupBy {
    fn parse(text: Option<&str>) -> Result<Self, ApiError> {
        let Some(text) = text else { return Ok(Self { day: true, agent: true, model: true, key: true }) };
        let mut by = Self { day: false, agent: false, model: false, key: false };
        for word in text.split(',') {
            match word {
                "day" => by.day = true,
                "agent" => by.agent = true,
                "model" => by.model = true,
                "key" => by.key = true,
                other => {
                    let message = format!("group_by: {:?} is none of day, agent, model and key", shown(other));
                    return Err(ApiError::invalid(message));
                }
            }
        }
        Ok(by)
    }

    fn group(self, slot: UsageSlot) -> Group {
        let UsageSlot { day, agent, model, key } = slot;
        Group {
            day: self.day.then_some(day.0),
            agent: self.agent.then_some(agent),
            model: self.model.then_some(model),
            key: self.key.then(|| key.map(String::from).unwrap_or_default()),
        }
    }
}

/// What is counted together; also the cursor of a page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Group {
    day: Option<i32>,
    agent: Option<String>,
    model: Option<String>,
    /// Empty for none: no key is called so.
    key: Option<String>,
}

/// Only what fits.
struct Filter {
    agent: Option<String>,
    model: Option<String>,
    key: Option<String>,
}

impl Filter {
    fn fits(&self, slot: &UsageSlot) -> bool {
        self.agent.as_ref().is_none_or(|agent| slot.agent == *agent)
            && self.model.as_ref().is_none_or(|model| slot.model == *model)
            && self.key.as_ref().is_none_or(|key| slot.key.as_ref().is_some_and(|of| of.as_str() == key))
    }
}

/// See what was used
///
/// Counted where it is used: also for turns that were stopped, failed, or were interrupted by a crash, and for sessions
/// that were deleted since. Tokens are counted for the day on which they were used and the key that began the turn.
/// Costs are not kept: they are worked out from the prices in the configuration.
#[utoipa::path(
    get, path = "/usage", operation_id = "native_usage",
    params(UsageQuery),
    responses(
        (status = 200, description = "A page of sums", body = UsagePage, example = json!({
            "from": "2026-10-18", "to": "2026-11-16", "currency": "USD",
            "storage": { "used_bytes": 48_213_904, "limit_bytes": 10_000_000_000_u64 },
            "usage": [{
                "day": "2026-11-16", "agent": "assistant", "model": "openai/gpt-5", "key_id": "key_web",
                "turns": 12, "model_calls": 31, "input_tokens": 48210, "cached_input_tokens": 30720,
                "cache_write_tokens": 0, "output_tokens": 9034, "reasoning_tokens": 4096, "cost": 0.262928,
            }],
        })),
        answers::Always, answers::Listed,
    ),
)]
pub(crate) async fn show(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<UsageQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Admin)?;
    let Query(query) = query?;
    let limit = paging::limit_of(query.limit.as_deref())?;
    let (from, to) = days(query.from.as_deref(), query.to.as_deref(), Timestamp::now().day())?;
    let by = GroupBy::parse(query.group_by.as_deref())?;
    let after = query.cursor.as_deref().filter(|cursor| !cursor.is_empty()).map(decode).transpose()?;
    let filter = Filter {
        agent: name("agent", query.agent)?,
        model: name("model", query.model)?,
        key: name("key_id", query.key_id)?,
    };
    let groups = api.sum_up(&caller.tenant, (from, to), &filter, by).await?;
    let mut page = groups.into_iter().filter(|(group, _)| after.as_ref().is_none_or(|after| group > after));
    let shown: Vec<_> = page.by_ref().take(limit).collect();
    let next_cursor = match (page.next(), shown.last()) {
        (Some(_), Some((group, _))) => Some(encode(group)),
        _ => None,
    };
    let usage = shown.into_iter().map(|(group, sum)| entry(group, &sum)).collect();
    let currency = (!api.prices.is_empty()).then_some("USD");
    let used_bytes = api.engine.stored_bytes(&caller.tenant).await?;
    let storage = StorageOut { used_bytes, limit_bytes: caller.account.tenant_quota.storage };
    Ok(Json(UsagePage { from: date(from), to: date(to), currency, storage, usage, next_cursor }).into_response())
}

impl Api {
    async fn sum_up(
        &self,
        tenant: &TenantId,
        days: (Day, Day),
        filter: &Filter,
        by: GroupBy,
    ) -> Result<BTreeMap<Group, Sum>, ApiError> {
        let mut groups: BTreeMap<Group, Sum> = BTreeMap::new();
        let mut after = None;
        loop {
            let rows = self.engine.usage(tenant, days, after.as_ref(), BATCH).await?;
            let full = rows.len() == BATCH;
            after = rows.last().map(|row| row.slot.clone());
            for UsageRow { slot, count } in rows.into_iter().filter(|row| filter.fits(&row.slot)) {
                let model = slot.model.clone();
                groups.entry(by.group(slot)).or_default().add(&self.prices, &model, count);
            }
            if groups.len() > MAX_GROUPS {
                let message = format!("there are more than {MAX_GROUPS} entries in these days");
                return Err(ApiError::invalid(message).hint("ask for fewer days, or tell less apart with group_by"));
            }
            if !full {
                return Ok(groups);
            }
        }
    }
}

fn entry(group: Group, sum: &Sum) -> UsageOut {
    let UsageCount { turns, calls, tokens } = sum.count;
    UsageOut {
        day: group.day.map(|day| date(Day(day))),
        agent: group.agent,
        model: group.model,
        key_id: group.key.map(|key| Some(key).filter(|key| !key.is_empty())),
        turns,
        model_calls: calls,
        input_tokens: tokens.input,
        cached_input_tokens: tokens.cached_input,
        cache_write_tokens: tokens.cache_write,
        output_tokens: tokens.output,
        reasoning_tokens: tokens.reasoning,
        cost: sum.cost(),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

fn name(field: &str, text: Option<String>) -> Result<Option<String>, ApiError> {
    match text {
        Some(text) if text.chars().count() > MAX_NAME => {
            Err(ApiError::invalid(format!("{field} is longer than {MAX_NAME} characters, which is the limit")))
        }
        text => Ok(text),
    }
}

const EPOCH: Date = jiff::civil::date(1970, 1, 1);

/// A day as people write it. Days that no calendar of ours has are shown as the nearest that it has.
fn date(day: Day) -> String {
    let nearest = if day.0 < 0 { Date::MIN } else { Date::MAX };
    // The span's own bound is beyond the calendar's.
    let shown = jiff::Span::new().try_days(day.0).and_then(|days| EPOCH.checked_add(days)).unwrap_or(nearest);
    shown.to_string()
}

fn day(field: &str, text: &str) -> Result<Day, ApiError> {
    let is_plain = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let date = text.parse::<Date>().ok().filter(|_| is_plain);
    let days = date.and_then(|date| EPOCH.until(date).ok()).map(|span| span.get_days());
    days.map(Day).ok_or_else(|| ApiError::invalid(format!("{field}={:?} is not a day such as 2026-11-16", shown(text))))
}

/// The days that are asked for.
fn days(from: Option<&str>, to: Option<&str>, today: Day) -> Result<(Day, Day), ApiError> {
    let to = to.map_or(Ok(today), |text| day("to", text))?;
    let from = from.map_or(Ok(Day(to.0.saturating_sub(DEFAULT_DAYS - 1))), |text| day("from", text))?;
    if from > to {
        return Err(ApiError::invalid(format!("from={} comes after to={}", date(from), date(to))));
    }
    if to.0.saturating_sub(from.0) >= MAX_DAYS {
        let message = format!("from={} to={} are more than {MAX_DAYS} days", date(from), date(to));
        return Err(ApiError::invalid(message).hint("ask for a year at a time"));
    }
    Ok((from, to))
}

fn encode(group: &Group) -> String {
    // A group is plain text and numbers.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(group).unwrap_or_default())
}

fn decode(cursor: &str) -> Result<Group, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(|| {
        ApiError::new(Code::CursorInvalid, format!("cursor={:?} is not a cursor of this list", shown(cursor)))
            .hint("use next_cursor of the page before, as it is")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_checked() {
        let today = Day(20_773);
        assert_eq!(date(today), "2026-11-16");
        assert_eq!(days(None, None, today).unwrap(), (Day(20_744), today));
        let november = (Day(20_758), Day(20_759));
        assert_eq!(days(Some("2026-11-01"), Some("2026-11-02"), today).unwrap(), november);
        let refused = [("2026-11-02", "2026-11-01"), ("2025-11-01", "2026-11-16"), ("2026-02-30", "2026-11-16")];
        let malformed = [("20261116", "2026-11-16"), ("", "2026-11-16"), ("2026-11-16T00:00:00Z", "2026-11-16")];
        for (from, to) in refused.into_iter().chain(malformed) {
            assert!(days(Some(from), Some(to), today).is_err(), "{from} {to}");
        }
        assert_eq!(days(Some("2025-11-16"), Some("2026-11-16"), today).unwrap().0, Day(20_408));
    }

    #[test]
    fn cursors_and_groups_from_outside_are_checked() {
        let group = Group { day: Some(3), agent: Some("a".to_owned()), model: None, key: Some(String::new()) };
        assert_eq!(decode(&encode(&group)).unwrap(), group);
        for cursor in ["", "x", "e30x", "%", &"A".repeat(10_000)] {
            assert!(decode(cursor).is_err(), "{cursor}");
        }
        assert!(GroupBy::parse(Some("day,agent,model,key")).unwrap() == GroupBy::parse(None).unwrap());
        for words in ["", "day,", "days", "DAY", "day, agent"] {
            assert!(GroupBy::parse(Some(words)).is_err(), "{words}");
        }
    }
}
