//! Draws a run: each row against its goal.

use crate::report::{Report, number};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 330.0;
const ROW: f64 = 26.0;
/// Scores beyond this are drawn as this.
const MOST: f64 = 4.0;

/// A picture of the rows. One is the goal; longer is better.
pub(crate) fn svg(report: &Report) -> String {
    let height = ROW * (report.rows.len() as f64 + 2.0);
    let x = |score: f64| LEFT + (WIDTH - LEFT - 90.0) * score.min(MOST) / MOST;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (index, row) in report.rows.iter().enumerate() {
        let y = ROW * (index as f64 + 1.0);
        let color = if row.score() >= 1.0 { "#2f7d4f" } else { "#b8562b" };
        let (text, value) = (escape(row.what), escape(&format!("{} {}", number(row.value), row.unit)));
        out += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#222\">{text}</text>\n\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"16\" fill=\"{color}\"/>\n\
             <text x=\"{:.1}\" y=\"{}\" fill=\"#222\">{value}</text>\n",
            LEFT - 8.0,
            y + 5.0,
            y - 8.0,
            x(row.score()) - LEFT,
            x(row.score()) + 6.0,
            y + 5.0,
        );
    }
    let goal = x(1.0);
    out += &format!(
        "<line x1=\"{goal}\" x2=\"{goal}\" y1=\"10\" y2=\"{}\" stroke=\"#222\" stroke-dasharray=\"3 3\"/>\n\
         <text x=\"{goal}\" y=\"{}\" text-anchor=\"middle\" fill=\"#222\">goal</text>\n</svg>\n",
        height - ROW,
        height - 8.0,
    );
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
