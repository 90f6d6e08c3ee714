//! How much memory this process may have: that of the machine, or less where a cgroup (of a container, of a service) says so.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where nobody says.
const UNKNOWN: u64 = 4 * 1024 * 1024 * 1024;

/// In bytes.
pub(crate) fn total() -> u64 {
    total_under(Path::new("/"))
}

fn total_under(root: &Path) -> u64 {
    let machine = read(&root.join("proc/meminfo")).as_deref().and_then(machine);
    let cgroups = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    // A limit is a number; "max" is none, and version 1 says none by a number that no machine has.
    let limits = cgroups.lines().flat_map(|line| limit_files(root, line)).filter_map(|file| read(&file)?.parse().ok());
    limits.chain(machine).min().unwrap_or(UNKNOWN)
}

fn read(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

/// `MemTotal:       24608672 kB`
fn machine(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The files with the limits of a cgroup and of those above it. A container sees its own as the topmost one.
fn limit_files(root: &Path, line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (hierarchy, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        controllers if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let hierarchy = root.join(hierarchy);
    Path::new(path.trim_start_matches('/')).ancestors().map(|group| hierarchy.join(group).join(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: u64) {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        assert_eq!(total_under(root.path()), expected);
    }

    #[test]
    fn the_least_of_all_limits_counts() {
        let machine = ("proc/meminfo", "MemTotal:       24608672 kB\nMemFree:        1 kB\n");
        check(&[], UNKNOWN);
        check(&[machine], 24_608_672 * 1024);
        let in_service = ("proc/self/cgroup", "0::/system.slice/everturn.service\n");
        let above = ("sys/fs/cgroup/system.slice/memory.max", "1000000000\n");
        check(&[machine, in_service, above], 1_000_000_000);
        let own = ("sys/fs/cgroup/system.slice/everturn.service/memory.max", "500000000\n");
        check(&[machine, in_service, above, own], 500_000_000);
        check(&[machine, in_service, (own.0, "max\n")], 24_608_672 * 1024);
        let in_container = ("proc/self/cgroup", "12:cpu,cpuacct:/docker/a\n4:memory:/docker/a\n0::/\n");
        let container = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "700000000\n");
        check(&[machine, in_container, container], 700_000_000);
        check(&[machine, in_container, (container.0, "9223372036854771712\n")], 24_608_672 * 1024);
    }
}
