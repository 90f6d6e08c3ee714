//! Installs the programs that tests talk to, under `tests/peers`: model servers, MCP servers and clients, from npm and
//! PyPI.
//!
//! They are installed again only when their lock file has changed. Nothing is installed elsewhere, with one exception: as
//! root on Debian, missing interpreters and a missing browser come from its packages. Others are told the one command to paste.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    peers_folder,
    step::{output, run, works},
};

/// The oldest Node.js that the peers run on.
const NODE: u32 = 20;
/// What a Chromium is called; `tests/peers/chromium.mjs` looks for the same.
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A program that the tests need, and the packages of Debian's that have it.
#[derive(Debug)]
struct Program {
    name: &'static str,
    packages: &'static [&'static str],
    site: &'static str,
    is_there: fn() -> bool,
}

/// All of them.
const PROGRAMS: [Program; 4] = [
    Program {
        name: "Node.js with npm",
        packages: &["nodejs", "npm"],
        site: "https://nodejs.org",
        is_there: || node().is_some() && works("npm", &["--version"]),
    },
    Program {
        name: "Python 3 with venv",
        packages: &["python3", "python3-venv"],
        site: "https://www.python.org",
        is_there: || works("python3", &["-c", "import venv, ensurepip"]),
    },
    Program { name: "curl", packages: &["curl"], site: "https://curl.se", is_there: || works("curl", &["--version"]) },
    Program {
        name: "Chromium or Google Chrome",
        packages: &["chromium"],
        site: "https://www.chromium.org",
        is_there: || CHROMIUM.iter().any(|name| works(name, &["--version"])),
    },
];

/// Installs what is not installed yet.
pub(crate) fn install() -> Result<()> {
    need_programs()?;
    let folder = peers_folder();
    let (lock, modules) = (folder.join("package-lock.json"), folder.join("node_modules"));
    if lock.exists() && !is_current(&lock, &modules) {
        run(Command::new("npm").arg("--prefix").arg(&folder).args(["ci", "--no-audit", "--no-fund"]))?;
        mark_current(&lock, &modules)?;
    }
    let (lock, environment) = (folder.join("requirements.txt"), folder.join(".venv"));
    if lock.exists() && !is_current(&lock, &environment) {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        let pip = environment.join("bin").join("pip");
        // The list is complete, and some packages ask for more than the tests use.
        run(Command::new(pip).args(["install", "--quiet", "--no-deps", "--requirement"]).arg(&lock))?;
        mark_current(&lock, &environment)?;
    }
    Ok(())
}

/// The copy of the lock file that an installation was made from.
const STAMP: &str = ".installed-from";

fn is_current(lock: &Path, installed: &Path) -> bool {
    matches!((std::fs::read(lock), std::fs::read(installed.join(STAMP))), (Ok(wanted), Ok(have)) if wanted == have)
}

fn mark_current(lock: &Path, installed: &Path) -> Result<()> {
    std::fs::copy(lock, installed.join(STAMP)).context("cannot note what was installed")?;
    Ok(())
}

/// Sees to it that all programs are there: as root on Debian by installing what is missing, elsewhere by saying how, at once
/// for all of them.
fn need_programs() -> Result<()> {
    let mut lacking = missing(|program| (program.is_there)());
    let has_apt = works("apt-get", &["--version"]);
    if !lacking.is_empty() && has_apt && is_root() {
        run(Command::new("apt-get").args(["update", "--quiet"]).stdout(Stdio::null()))?;
        run(Command::new("apt-get")
            .args(["install", "--yes", "--no-install-recommends"])
            .args(packages(&lacking))
            .env("DEBIAN_FRONTEND", "noninteractive"))?;
        lacking = missing(|program| (program.is_there)());
    }
    if !lacking.is_empty() {
        bail!(how_to_install(&lacking, has_apt));
    }
    match node() {
        Some(major) if major < NODE => {
            bail!("the tests need Node.js {NODE} or newer, this is {major}\n\nhint: see https://nodejs.org")
        }
        _ => Ok(()),
    }
}

/// The programs that are not there.
fn missing(is_there: impl Fn(&Program) -> bool) -> Vec<&'static Program> {
    PROGRAMS.iter().filter(|program| !is_there(program)).collect()
}

fn packages(programs: &[&Program]) -> Vec<&'static str> {
    programs.iter().flat_map(|program| program.packages).copied().collect()
}

/// What is missing, and the one command that installs it all; where there is no such command, the sites that have it.
fn how_to_install(lacking: &[&Program], has_apt: bool) -> String {
    let names: Vec<_> = lacking.iter().map(|program| program.name).collect();
    let hint = if has_apt {
        let packages = packages(lacking).join(" ");
        format!("sudo sh -c 'apt-get update && apt-get install --yes --no-install-recommends {packages}'")
    } else {
        let sites: Vec<_> = lacking.iter().map(|program| program.site).collect();
        format!("see {}", sites.join(", "))
    };
    format!("the tests need what is not installed here: {}\n\nhint: {hint}", names.join(", "))
}

/// The major version of Node.js.
fn node() -> Option<u32> {
    let version = output(Command::new("node").arg("--version"))?;
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_installs_all_that_is_missing() {
        assert!(missing(|_| true).is_empty());
        let lacking = missing(|program| program.name == "curl");
        assert_eq!(
            how_to_install(&lacking, true),
            "the tests need what is not installed here: Node.js with npm, Python 3 with venv, Chromium or Google Chrome\n\n\
             hint: sudo sh -c 'apt-get update && apt-get install --yes --no-install-recommends nodejs npm python3 \
             python3-venv chromium'"
        );
        assert!(
            how_to_install(&lacking, false)
                .ends_with("hint: see https://nodejs.org, https://www.python.org, https://www.chromium.org")
        );
    }
}
