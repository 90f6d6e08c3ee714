//! What a guard is told to do, as arguments. People see them in lists of processes, so nothing in them is secret.

use std::{ffi::OsString, path::PathBuf};

use crate::Sandbox;

/// The flag that makes the second stage; its value is the guard's process id.
pub(super) const STAGE_TWO: &str = "--exec";
const REPORT: &str = "--report";
const SANDBOX: &str = "--sandbox";
const USER: &str = "--user";
const FOLDER: &str = "--folder";
const TEMPORARY: &str = "--temporary";
const OWN_FOLDER: &str = "--own-folder";
const PROTECT: &str = "--protect";
const PATH: &str = "--path";
const READ_PATH: &str = "--read-path";

/// What a program is kept from, and where it runs. By default it is confined in nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Whether a line on standard output, before all that the program writes, says what is enforced.
    pub(crate) report: bool,
    pub(crate) sandbox: Sandbox,
    pub(crate) user: Option<String>,
    /// Where it runs, if not in a folder of its own or where the guard does.
    pub(crate) folder: Option<PathBuf>,
    /// Where the guard makes it a folder of its own.
    pub(crate) temporary: Option<PathBuf>,
    /// That folder, in the second stage.
    pub(crate) own_folder: Option<PathBuf>,
    pub(crate) protected: Vec<PathBuf>,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) read_paths: Vec<PathBuf>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            report: false,
            sandbox: Sandbox::Off,
            user: None,
            folder: None,
            temporary: None,
            own_folder: None,
            protected: Vec::new(),
            paths: Vec::new(),
            read_paths: Vec::new(),
        }
    }
}

impl Bounds {
    /// The arguments that say so.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if self.report {
            arguments.push(REPORT.into());
        }
        if self.sandbox != Sandbox::Off {
            arguments.extend([SANDBOX.into(), self.sandbox.as_str().into()]);
        }
        if let Some(user) = &self.user {
            arguments.extend([USER.into(), user.into()]);
        }
        let single = [(FOLDER, &self.folder), (TEMPORARY, &self.temporary), (OWN_FOLDER, &self.own_folder)];
        let single = single.into_iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?)));
        let many = [(PROTECT, &self.protected), (PATH, &self.paths), (READ_PATH, &self.read_paths)];
        let many = many.into_iter().flat_map(|(flag, paths)| paths.iter().map(move |path| (flag, path)));
        for (flag, path) in single.chain(many) {
            arguments.extend([flag.into(), path.into()]);
        }
        arguments
    }
}

/// What the arguments of a guard say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// The guard, in the second stage.
    pub(super) guard: Option<i32>,
    pub(super) bounds: Bounds,
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
}

impl Task {
    pub(super) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.into_iter();
        let (mut guard, mut bounds) = (None, Bounds::default());
        let program = loop {
            let argument = arguments.next()?;
            let Some(flag) = argument.to_str().filter(|flag| flag.starts_with("--")) else { break argument };
            match flag {
                "--" => break arguments.next()?,
                REPORT => bounds.report = true,
                STAGE_TWO => guard = Some(arguments.next()?.to_str()?.parse().ok()?),
                SANDBOX => bounds.sandbox = Sandbox::from_word(arguments.next()?.to_str()?)?,
                USER => bounds.user = Some(arguments.next()?.into_string().ok()?),
                FOLDER => bounds.folder = Some(arguments.next()?.into()),
                TEMPORARY => bounds.temporary = Some(arguments.next()?.into()),
                OWN_FOLDER => bounds.own_folder = Some(arguments.next()?.into()),
                PROTECT => bounds.protected.push(arguments.next()?.into()),
                PATH => bounds.paths.push(arguments.next()?.into()),
                READ_PATH => bounds.read_paths.push(arguments.next()?.into()),
                // A guard that does not know a bound must not start the program without it.
                _ => return None,
            }
        };
        Some(Self { guard, bounds, program, arguments: arguments.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Option<Task> {
        Task::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn arguments() {
        let task = |guard, program: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(OsString::from).collect();
            Some(Task { guard, bounds: Bounds::default(), program: program.into(), arguments })
        };
        assert_eq!(parse(&["--", "npx", "-y", "--", "x"]), task(None, "npx", &["-y", "--", "x"]));
        assert_eq!(parse(&["npx"]), task(None, "npx", &[]));
        assert_eq!(parse(&["--exec", "12", "--", "--exec", "1"]), task(Some(12), "--exec", &["1"]));
        for wrong in [
            &[][..],
            &["--"],
            &["--exec"],
            &["--exec", "x", "--", "y"],
            &["--exec", "1", "--"],
            &["--sandbox", "some", "--", "y"],
            &["--protect"],
            &["--unknown", "--", "y"],
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn bounds_are_read_as_they_are_written() {
        let bounds = Bounds {
            report: true,
            sandbox: Sandbox::Strict,
            user: Some("nobody".to_owned()),
            folder: Some("/a folder".into()),
            temporary: Some("/tmp".into()),
            own_folder: Some("/tmp/own".into()),
            protected: vec!["/data".into(), "--".into()],
            paths: vec!["/x".into()],
            read_paths: vec!["--sandbox".into(), "/y".into()],
        };
        let mut words = bounds.arguments();
        words.extend(["--", "x"].map(OsString::from));
        assert_eq!(Task::parse(words).map(|task| task.bounds), Some(bounds));
    }
}
