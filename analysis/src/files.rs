//! Files that are read only if they are files, and that appear whole.

use std::{
    fs,
    io::{self, Read},
    path::Path,
    process,
    time::Duration,
};

/// Bytes of the largest document.
const LARGEST: u64 = 256 << 20;

/// The contents of an ordinary file. Anything else (a device, a pipe) might never end.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Before it is opened: opening a pipe waits for whoever writes into it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("more than {} MB", LARGEST >> 20)));
    }
    Ok(bytes)
}

/// Writes a file beside its place and then moves it there.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.tmp", process::id()));
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Removes what a [`write_file`] that was killed left in a folder. Whoever still writes has a newer one.
pub fn sweep(folder: &Path) {
    let is_ours = |name: &str| name.starts_with('.') && name.ends_with(".tmp");
    let is_old = |path: &Path| {
        let age = fs::metadata(path).and_then(|file| file.modified()).map(|time| time.elapsed().unwrap_or_default());
        age.is_ok_and(|age| age > Duration::from_secs(3600))
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_ours(&entry.file_name().to_string_lossy()) && is_old(&entry.path()) {
            // Another process may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_what_was_left_long_ago_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, hours: u64| {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(3600 * hours)).unwrap();
        };
        file(".fig4.svg.12.tmp", 2);
        file(".fig4.svg.13.tmp", 0);
        file("notes.tmp", 2);
        sweep(folder.path());
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".fig4.svg.13.tmp", "notes.tmp"]);
    }

    #[cfg(unix)]
    #[test]
    fn what_never_ends_is_not_read() {
        assert!(read_file(Path::new("/dev/zero")).is_err());
        assert!(read_file(Path::new("/nowhere")).is_err());
    }
}
