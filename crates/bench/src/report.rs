//! What was measured.

use serde::Serialize;

/// A run's figures.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) yardsticks: Vec<Figure>,
    pub(crate) rows: Vec<Row>,
}

/// A figure with its unit.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

/// One measured row.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) number: &'static str,
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// What to reach.
    pub(crate) goal: f64,
    pub(crate) better: Better,
    /// How the goal comes about.
    pub(crate) because: String,
}

/// Which side of the goal is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    More,
    Less,
}

impl Row {
    /// One is the goal; more is better.
    pub(crate) fn score(&self) -> f64 {
        match self.better {
            Better::More => self.value / self.goal,
            Better::Less => self.goal / self.value.max(f64::MIN_POSITIVE),
        }
    }
}

impl Report {
    /// The table that people read.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from("\nyardsticks of this run\n");
        for Figure { name, value, unit } in &self.yardsticks {
            text += &format!("  {name:<52} {:>12} {unit}\n", number(*value));
        }
        text += "\n  #   what                                              measured         goal   goal is\n";
        for row in &self.rows {
            let sign = if row.better == Better::More { "≥" } else { "≤" };
            let mark = if row.score() >= 1.0 { ' ' } else { '!' };
            let (value, goal) = (number(row.value), number(row.goal));
            text += &format!(
                "{mark} {:<3} {:<44} {value:>10} {:<4} {sign} {goal:>9}   {}\n",
                row.number, row.what, row.unit, row.because
            );
        }
        text
    }

    /// The figures for machines.
    pub(crate) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// A number with as many digits as people want to see.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => {
            let digits = format!("{value:.0}");
            let mut out = String::new();
            for (index, digit) in digits.chars().enumerate() {
                if index > 0 && (digits.len() - index).is_multiple_of(3) {
                    out.push(',');
                }
                out.push(digit);
            }
            out
        }
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
