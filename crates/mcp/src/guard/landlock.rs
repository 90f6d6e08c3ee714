//! Rules for files, enforced by the kernel. They are an allow list: what no rule opens is closed. A folder's rule counts for all
//! that is in it, so a folder that has something to protect gets no rule, but each of its other entries does. What is made in such a
//! folder later stays closed until the program is started again.

use std::{
    ffi::OsStr,
    fs::DirBuilder,
    os::unix::fs::{DirBuilderExt as _, lchown},
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, PathBeneath, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::task::Bounds;
use crate::{Landlock, Sandbox};

/// The version whose rules are used, as far as the kernel knows them.
const VERSION: ABI = ABI::V6;
/// The most entries of folders that are opened one by one.
const MOST_ENTRIES: usize = 20_000;

/// Folders of the system that strictly confined programs read. A missing one does no harm.
const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/proc", "/sys"];
/// What they use beside those.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];
/// Folders that programs such as npx and uvx make in their user's folder when they first run.
const MADE_AT_HOME: &[&str] = &[".cache", ".config", ".local", ".npm"];

/// Rules that are not in force yet.
pub(super) struct Rules(RulesetCreated);

impl Rules {
    /// The rules for a program whose folder of settings and caches belongs to this user and group, if not to ours.
    pub(super) fn new(bounds: &Bounds, program: &OsStr, owner: Option<(u32, u32)>) -> Result<Self, String> {
        let words = |error: landlock::RulesetError| error.to_string();
        let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(VERSION)).map_err(words)?;
        // A signal could end the guard, and the server.
        ruleset = ruleset.scope(Scope::Signal).map_err(words)?;
        if bounds.sandbox == Sandbox::Strict {
            ruleset = ruleset.scope(Scope::AbstractUnixSocket).map_err(words)?;
        }
        let protected = bounds.protected.iter().map(|path| real(path)).collect();
        let mut tree = Tree { ruleset: ruleset.create().map_err(words)?, protected, left: MOST_ENTRIES };
        // Devices cannot be made: they would lead past all rules.
        let all = AccessFs::from_all(VERSION) & !(AccessFs::MakeBlock | AccessFs::MakeChar);
        let read = AccessFs::from_read(VERSION);
        let own = bounds.folder.iter().chain(&bounds.own_folder);
        if bounds.sandbox == Sandbox::Strict {
            for path in SYSTEM.iter().map(Path::new).chain(bounds.read_paths.iter().map(PathBuf::as_path)) {
                tree.allow(path, read)?;
            }
            for path in DEVICES.iter().map(Path::new).chain(bounds.paths.iter().map(PathBuf::as_path)) {
                tree.allow(path, all)?;
            }
            if Path::new(program).is_absolute() {
                tree.allow(Path::new(program), read)?;
            }
        } else {
            let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
            if let Some(home) = &home {
                tree.make_common_folders(home, owner);
            }
            // Many programs look along the path to where they are. Names alone tell little.
            tree.add(Path::new("/"), AccessFs::ReadDir.into())?;
            tree.allow(Path::new("/"), all)?;
            // Also where one of the folders above cannot be listed.
            if let Some(home) = home {
                tree.allow(&home, all)?;
            }
        }
        for folder in own {
            tree.allow(folder, all)?;
        }
        Ok(Self(tree.ruleset))
    }

    /// Puts them in force, for this process and everything that it starts.
    pub(super) fn enforce(self) -> Result<Landlock, String> {
        let status = self.0.restrict_self().map_err(|error| error.to_string())?;
        Ok(match status.ruleset {
            RulesetStatus::FullyEnforced => Landlock::Yes,
            RulesetStatus::PartiallyEnforced => Landlock::Partly,
            RulesetStatus::NotEnforced => Landlock::No,
        })
    }
}

/// A path without links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent != Path::new("") => real(parent).join(name),
        _ => path.to_owned(),
    }
}

struct Tree {
    ruleset: RulesetCreated,
    protected: Vec<PathBuf>,
    left: usize,
}

impl Tree {
    /// Opens a path, but for what is protected in it. A folder within a protected one is opened: somebody has named it.
    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), String> {
        let Ok(path) = path.canonicalize() else { return Ok(()) };
        if self.protected.contains(&path) {
            return Ok(());
        }
        if self.has_protected(&path) { self.allow_entries(&path, access) } else { self.add(&path, access) }
    }

    fn has_protected(&self, folder: &Path) -> bool {
        self.protected.iter().any(|path| path.starts_with(folder))
    }

    fn allow_entries(&mut self, folder: &Path, access: BitFlags<AccessFs>) -> Result<(), String> {
        // One that cannot be listed has nothing that we could open.
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
        for entry in entries {
            let Some(left) = self.left.checked_sub(1) else {
                return Err(format!(
                    "the folders around what is protected have more than {MOST_ENTRIES} entries, the last of them {}; \
                     keep the data and the configuration in folders of their own, or set sandbox = \"off\"",
                    folder.display()
                ));
            };
            self.left = left;
            let Ok(entry) = entry else { return Ok(()) };
            let path = folder.join(entry.file_name());
            if self.protected.contains(&path) {
                continue;
            }
            if self.has_protected(&path) {
                self.allow_entries(&path, access)?;
            } else {
                self.add(&path, access)?;
            }
        }
        Ok(())
    }

    /// Adds the rule of one entry. Links get none: what they lead to has its own.
    fn add(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), String> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(entry) = open(path, flags, Mode::empty()) else { return Ok(()) };
        let Ok(about) = fstat(&entry) else { return Ok(()) };
        let access = match FileType::from_raw_mode(about.st_mode) {
            FileType::Symlink => return Ok(()),
            FileType::Directory => access,
            _ => access & AccessFs::from_file(VERSION),
        };
        if access.is_empty() {
            return Ok(());
        }
        let added = (&mut self.ruleset).add_rule(PathBeneath::new(entry, access));
        added.map(drop).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// In a folder whose entries are opened one by one, programs can make none. So these are made before.
    fn make_common_folders(&self, home: &Path, owner: Option<(u32, u32)>) {
        let Ok(home) = home.canonicalize() else { return };
        if !self.has_protected(&home) || self.protected.contains(&home) {
            return;
        }
        for name in MADE_AT_HOME {
            let path = home.join(name);
            let made = DirBuilder::new().mode(0o700).create(&path).is_ok();
            if let Some((user, group)) = owner.filter(|_| made) {
                let _ = lchown(&path, Some(user), Some(group));
            }
        }
    }
}
