use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use crate::provider::LocalSpec;

/// The first program of the specification that is there and says that it is the right product, and what it says.
pub(super) async fn find(spec: &LocalSpec) -> Result<(PathBuf, String), String> {
    let mut others = Vec::new();
    for name in spec.programs {
        for path in candidates(name, spec.folders) {
            let said = version(&path).await?;
            if said.contains(spec.says) && !said.contains(spec.says_not) {
                return Ok((path, said));
            }
            others.push(format!("{} is {}", path.display(), said.trim()));
        }
    }
    let names = spec.programs.join(" or ");
    Err(match others.is_empty() {
        true => format!("no program {names} on this machine"),
        false => format!("no program {names} of this product on this machine: {}", others.join("; ")),
    })
}

/// A program of the same installation: beside the server first, since another version's would not fit its data.
pub(super) async fn beside(server: &Path, name: &str) -> Result<PathBuf, String> {
    let neighbour = server.with_file_name(name);
    if neighbour.is_file() {
        return Ok(neighbour);
    }
    candidates(name, &[]).into_iter().next().ok_or_else(|| format!("no program {name} on this machine"))
}

async fn version(program: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg("--version").kill_on_drop(true);
    match tokio::time::timeout(Duration::from_secs(10), command.output()).await {
        Ok(Ok(output)) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(Err(error)) => Err(format!("{}: {error}", program.display())),
        Err(_) => Err(format!("{}: does not say its version", program.display())),
    }
}

/// Where the program lies, on `PATH` and in the folders, links followed, each file once.
fn candidates(name: &str, folders: &[&str]) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    let elsewhere = folders.iter().flat_map(|folder| expand(folder)).map(|folder| folder.join(name));
    let mut found = Vec::new();
    for candidate in on_path.chain(elsewhere) {
        let Ok(file) = candidate.canonicalize() else { continue };
        // A link keeps its own name where the file behind it has another: servers look at the name they are called by.
        let file = if file.file_name() == candidate.file_name() { file } else { candidate };
        if file.is_file() && !found.contains(&file) {
            found.push(file);
        }
    }
    found
}

/// The folders that a pattern with at most one `*` stands for, the highest version first.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else { return vec![PathBuf::from(pattern)] };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let Ok(entries) = std::fs::read_dir(format!("{parent}/")) else { return Vec::new() };
    let mut versions: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix(prefix)?.split('.').next()?.parse().ok()?;
            Some((version, PathBuf::from(format!("{parent}/{name}{after}"))))
        })
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn the_highest_version_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["9.6", "15", "18", "unversioned"] {
            std::fs::create_dir_all(folder.path().join(version).join("bin")).unwrap();
        }
        let found = expand(&format!("{}/*/bin", folder.path().display()));
        let names: Vec<_> = found.iter().map(|path| path.parent().unwrap().file_name().unwrap()).collect();
        assert_eq!(names, ["18", "15", "9.6"]);
    }
}
