//! Where the certificate is that https is spoken with. What is in the files is looked at when they are used.

use std::path::PathBuf;

use everturn_http::TlsFiles;

use super::{Overrides, file, problem::Report};

/// The files, if https is wanted.
pub(super) fn check(report: &mut Report<'_>, file: file::Tls, overrides: &Overrides) -> Option<TlsFiles> {
    let at = file.cert.as_ref().or(file.key.as_ref()).map(toml::Spanned::span);
    for (name, text) in [("cert", &file.cert), ("key", &file.key)] {
        if let Some(text) = text.as_ref().filter(|text| text.get_ref().is_empty()) {
            report.add(Some(text.span()), format!("`{name}` is empty"), "name a PEM file".to_owned());
        }
    }
    let choose = |flag: &Option<String>, text: Option<file::Text>| flag.clone().or(text.map(file::Text::into_inner));
    let (cert, key) = (choose(&overrides.tls_cert, file.cert), choose(&overrides.tls_key, file.key));
    let missing = match (cert, key) {
        (Some(cert), Some(key)) => return Some(TlsFiles { cert: PathBuf::from(cert), key: PathBuf::from(key) }),
        (None, None) => return None,
        (Some(_), None) => ("key", "cert", "--tls-key, EVERTURN_TLS_KEY"),
        (None, Some(_)) => ("cert", "key", "--tls-cert, EVERTURN_TLS_CERT"),
    };
    let (missing, given, flag) = missing;
    let hint = format!("set `{missing}` under [tls] too (or {flag}), or neither for http");
    report.add(at, format!("[tls] has a `{given}` and no `{missing}`"), hint);
    None
}
