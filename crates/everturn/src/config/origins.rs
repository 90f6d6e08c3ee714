//! The web origins that may call.

use everturn_http::Origin;

use super::{file, problem::Report};

/// The origins that can be understood.
pub(super) fn check(report: &mut Report<'_>, file: &file::Cors) -> Vec<Origin> {
    let mut origins = Vec::with_capacity(file.origins.len());
    for text in &file.origins {
        match text.get_ref().parse() {
            Ok(origin) => origins.push(origin),
            Err(_) => {
                let hint = "write a scheme, a host and the port if it has one, without a path, such as \
                            \"https://app.example\" or \"http://10.0.0.5:3000\"; \"null\" stands for pages that were \
                            opened from a file";
                report.add(Some(text.span()), format!("`{}` is no origin", text.get_ref()), hint.to_owned());
            }
        }
    }
    origins
}
