//! Finds secrets that are kept outside of the configuration file: in variables, and in files of their own.

use std::{fs::File, io::Read as _, path::Path};

use secrecy::SecretString;
use zeroize::Zeroizing;

use super::{Environment, file::Text, problem::Report};

/// The longest secret that a file may hold, in bytes.
const LONGEST: u64 = 64 * 1024;

/// A text that is a secret, `env:NAME` for one that a variable holds, or `file:PATH` for one that a file holds.
pub(super) fn secret(report: &mut Report<'_>, environment: &Environment, text: &Text) -> Option<SecretString> {
    match find(environment, text.get_ref()) {
        Ok(secret) => Some(secret),
        Err((message, hint)) => {
            report.add(Some(text.span()), message, hint);
            None
        }
    }
}

/// Whether a text says only where its secret is kept.
pub(super) fn is_kept_elsewhere(text: &str) -> bool {
    text.starts_with("env:") || text.starts_with("file:")
}

/// The secret that a text stands for, or what is wrong with it and what to do.
pub(crate) fn find(environment: &Environment, text: &str) -> Result<SecretString, (String, String)> {
    if let Some(name) = text.strip_prefix("env:") {
        let value = environment.get(name).map(SecretString::from);
        return value.ok_or_else(|| {
            (format!("the variable `{name}` is not set"), format!("set it before the start: export {name}=…"))
        });
    }
    let Some(path) = text.strip_prefix("file:") else { return Ok(SecretString::from(text)) };
    read(Path::new(path)).map_err(|why| {
        let hint = "write the path of a file that has the secret and nothing else, such as \"file:/run/secrets/key\"";
        (format!("cannot read a secret from `{path}`: {why}"), hint.to_owned())
    })
}

/// The text of a file, without the end of its last line.
fn read(path: &Path) -> Result<SecretString, String> {
    let mut text = Zeroizing::new(String::new());
    let file = File::open(path).map_err(|error| error.to_string())?;
    let is_file = file.metadata().is_ok_and(|about| about.is_file());
    if !is_file {
        return Err("it is not a file".to_owned());
    }
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LONGEST {
        return Err(format!("it has more than {LONGEST} bytes"));
    }
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err("it is empty".to_owned()),
        secret => Ok(SecretString::from(secret)),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn secrets_are_written_out_or_kept_in_variables_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let environment = Environment::from([("NAME", "of a variable")]);
        let found = |text: &str| find(&environment, text).map(|secret| secret.expose_secret().to_owned());
        let in_file = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            found(&format!("file:{}", path.display())).map_err(|(message, _)| message)
        };
        assert_eq!(found("plain").unwrap(), "plain");
        assert_eq!(found("env:NAME").unwrap(), "of a variable");
        assert!(found("env:OTHER").unwrap_err().0.contains("`OTHER` is not set"));
        assert_eq!(in_file(b" of a file\r\n").unwrap(), " of a file");
        assert!(in_file(b"\n").unwrap_err().contains("it is empty"));
        assert!(in_file(b"\xff").is_err());
        assert!(in_file(&[b'x'; LONGEST as usize + 1]).unwrap_err().contains("more than 65536 bytes"));
        assert!(found(&format!("file:{}", folder.path().display())).unwrap_err().0.contains("it is not a file"));
        assert!(found("file:/nowhere/at/all").unwrap_err().0.contains("/nowhere/at/all"));
    }
}
