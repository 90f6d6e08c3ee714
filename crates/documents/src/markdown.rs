//! Recognises Markdown.

/// How many lines of a text are looked at.
const LOOK_LINES: usize = 400;

/// Whether the text has Markdown's marks: two kinds of them, or one that is in use nowhere else.
pub(crate) fn looks_like(text: &str) -> bool {
    let mut seen = [false; 6];
    let mut fences = 0;
    for line in text.lines().take(LOOK_LINES) {
        let line = line.trim_start();
        if line.starts_with("```") || line.starts_with("~~~") {
            fences += 1;
        }
        if fences % 2 == 1 {
            // Code: a line that begins with `#` is a comment there.
            continue;
        }
        seen[0] |= is_heading(line);
        seen[1] |= ["- ", "* ", "+ ", "1. "].iter().any(|mark| line.starts_with(mark));
        seen[2] |= line.find("](").is_some_and(|at| line[..at].contains('['));
        seen[3] |= line.matches("**").count() >= 2;
        seen[4] |= line.starts_with("> ");
        seen[5] |= is_table_rule(line);
    }
    fences >= 2 || seen[5] || seen.iter().filter(|seen| **seen).count() >= 2
}

/// `## Title`, with one to six marks.
fn is_heading(line: &str) -> bool {
    let title = line.trim_start_matches('#');
    (1..=6).contains(&(line.len() - title.len())) && title.starts_with(' ')
}

/// The line under the head of a table: `|---|:--:|`.
fn is_table_rule(line: &str) -> bool {
    let line = line.trim_end();
    line.starts_with('|')
        && line.contains("--")
        && line.chars().all(|character| matches!(character, '|' | '-' | ':' | ' '))
}
