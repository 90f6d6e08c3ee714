//! How a program is kept from what is not its own.

use std::{fmt, path::PathBuf};

/// Which files and system calls a program may use, of those that its user may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// All but the protected files, and no system calls that look into other processes or change the machine.
    #[default]
    Default,
    /// The files of the system, to read; its own folders and the paths of its configuration. Calls as above.
    Strict,
    /// All.
    Off,
}

impl Sandbox {
    /// The words of a configuration.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("default", Self::Default), ("strict", Self::Strict), ("off", Self::Off)];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Strict => "strict",
            Self::Off => "off",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(name, _)| *name == word).map(|(_, sandbox)| *sandbox)
    }
}

/// What a program shall be kept from.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// Files and system calls.
    pub sandbox: Sandbox,
    /// The user that it runs as, if not as ours. Only root can start programs as somebody else.
    pub user: Option<String>,
    /// What a strict sandbox opens beside the files of the system, to read and write.
    pub paths: Vec<PathBuf>,
    /// The same, to read and execute only.
    pub read_paths: Vec<PathBuf>,
    /// Files and folders that no sandbox opens, but for folders within them that the configuration names.
    pub protected: Vec<PathBuf>,
}

/// How far the kernel enforces rules for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// All of them.
    Yes,
    /// Those that it knows. Reading and writing are among them in every version.
    Partly,
    /// None: it has no Landlock, or does not let us use it.
    No,
    /// None, since none are wanted.
    Off,
}

impl Landlock {
    const ALL: [Self; 4] = [Self::Yes, Self::Partly, Self::No, Self::Off];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Partly => "partly",
            Self::No => "no",
            Self::Off => "off",
        }
    }
}

/// What a program is kept from by now. The second stage of its guard says so right before it becomes the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enforced {
    pub(crate) landlock: Landlock,
    pub(crate) seccomp: bool,
}

/// What the line begins with that says it.
const ENFORCED: &str = "everturn-guard ";

impl Enforced {
    /// Reads what its display has written.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (landlock, seccomp) = line.strip_prefix(ENFORCED)?.split_once(' ')?;
        let landlock = Landlock::ALL.into_iter().find(|word| word.as_str() == landlock)?;
        Some(Self { landlock, seccomp: seccomp.parse().ok()? })
    }
}

impl fmt::Display for Enforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ENFORCED}{} {}", self.landlock.as_str(), self.seccomp)
    }
}

/// How a running program is confined, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    /// What was wanted.
    pub sandbox: Sandbox,
    /// Whether the kernel enforces the rules for files.
    pub landlock: Landlock,
    /// Whether it refuses system calls.
    pub seccomp: bool,
    /// The user that it runs as, if not as ours.
    pub user: Option<String>,
    /// The folder that it runs in. None: an empty one of its own, which ends with it.
    pub folder: Option<PathBuf>,
}

impl Confined {
    /// Tells operators.
    pub(crate) fn log(&self, server: &str) {
        tracing::info!(target: "everturn::mcp", server, "an MCP server was started; {self}");
        if self.landlock == Landlock::No {
            tracing::warn!(
                target: "everturn::mcp", server,
                "the kernel has no Landlock, so this MCP server can open every file that its user can, the database too"
            );
        }
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seccomp = match (self.seccomp, self.sandbox) {
            (true, _) => "yes",
            (false, Sandbox::Off) => "off",
            (false, Sandbox::Default | Sandbox::Strict) => "no",
        };
        write!(f, "sandbox {}: landlock {}, seccomp {seccomp}; ", self.sandbox.as_str(), self.landlock.as_str())?;
        match &self.user {
            Some(user) => write!(f, "user {user}; ")?,
            None => f.write_str("Everturn's user; ")?,
        }
        match &self.folder {
            Some(folder) => write!(f, "cwd {}", folder.display()),
            None => f.write_str("cwd its own"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_enforced_is_read_as_it_is_written() {
        for landlock in Landlock::ALL {
            for seccomp in [true, false] {
                let enforced = Enforced { landlock, seccomp };
                assert_eq!(Enforced::parse(&enforced.to_string()), Some(enforced));
            }
        }
        for line in ["", "everturn-guard ", "everturn-guard yes", "everturn-guard maybe true", "{\"jsonrpc\":\"2.0\"}"]
        {
            assert_eq!(Enforced::parse(line), None, "{line}");
        }
    }

    #[test]
    fn words_for_people() {
        let confined =
            |sandbox, landlock, seccomp| Confined { sandbox, landlock, seccomp, user: None, folder: None }.to_string();
        assert_eq!(
            confined(Sandbox::Default, Landlock::No, false),
            "sandbox default: landlock no, seccomp no; Everturn's user; cwd its own"
        );
        assert_eq!(
            confined(Sandbox::Off, Landlock::Off, false),
            "sandbox off: landlock off, seccomp off; Everturn's user; cwd its own"
        );
    }
}
