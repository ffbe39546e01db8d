//! Files that appear whole or not at all, and that are read only if they are files.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

/// Writes `bytes` to `path` by atomic rename, making its folder if need be.
///
/// A reader sees the old file or the new one, never a part; a full disk or a kill leaves the old one. What is there but
/// is no file (a pipe, `/dev/null`) is written to as it is.
///
/// # Errors
/// If the folder cannot be made or the file not be written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    temporary(path, bytes)?.persist(path)?;
    Ok(())
}

/// The contents of an ordinary file of at most `most` bytes. Anything else (a device, a pipe) might never end.
///
/// # Errors
/// If it is no such file, or cannot be read.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Before it is opened: opening a pipe waits for whoever writes into it.
    let found = fs::metadata(path)?;
    if !found.is_file() {
        let what = if found.is_dir() { "this is a folder" } else { "not a regular file" };
        return Err(io::Error::other(what));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("more than {} MB", most >> 20)));
    }
    Ok(bytes)
}

/// Writes `bytes` to `path` as [`write_atomically`] does, unless there is a file already; says whether there was none.
///
/// # Errors
/// As for [`write_atomically`].
pub fn write_once(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    match temporary(path, bytes)?.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        // A file system that cannot tell: then the last one to write counts.
        Err(failed) => failed.file.persist(path).map(|_| true).map_err(io::Error::from),
    }
}

/// Makes a file that holds `bytes`. On a file system that cannot do both, that there was none is what counts: a kill may then leave a
/// part of it.
///
/// # Errors
/// If there is a file already, or as for [`write_atomically`].
pub fn create_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match temporary(path, bytes)?.persist_noclobber(path) {
        Err(failed) if failed.error.kind() != io::ErrorKind::AlreadyExists => {
            fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
        }
        made => made.map(drop).map_err(io::Error::from),
    }
}

/// A file beside `path` that holds `bytes` and is gone unless it is kept.
fn temporary(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let folder = folder_of(path);
    fs::create_dir_all(folder)?;
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; what is kept has the permissions of any new file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(unnamed)?;
    file.write_all(bytes).map_err(unnamed)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Finds out whether `path` can be written, before the work whose result goes there. Nothing is left behind.
///
/// # Errors
/// If its folder cannot be made or written to, or `path` is a folder.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(found) if !found.is_file() => return fs::OpenOptions::new().write(true).open(path).map(drop),
        _ => {}
    }
    // The folder may have to be made: then the nearest one that is there decides.
    let mut folder = folder_of(path);
    while !folder.try_exists()? {
        folder = folder_of(folder);
    }
    if !folder.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    tempfile::NamedTempFile::new_in(folder).map(drop).map_err(unnamed)
}

/// The error without the name of the temporary file, which helps nobody.
fn unnamed(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason.to_owned()),
        None => error,
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_name_the_temporary_file() {
        // Nobody, not even root, can make files there.
        let path = Path::new("/proc/file");
        for error in [write_atomically(path, b"").unwrap_err(), check_writable(path).unwrap_err()] {
            assert!(!error.to_string().contains(".tmp"), "{error}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/folder/file");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_written_once_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(write_once(&path, b"first").unwrap());
        assert!(!write_once(&path, b"second").unwrap());
        assert_eq!(create_new(&path, b"third").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        fs::remove_file(&path).unwrap();
        create_new(&path, b"third").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        assert!(write_atomically(&path, b"new").is_err(), "a folder cannot be replaced");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_found_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "old").unwrap();
        check_writable(&folder.path().join("file")).unwrap();
        check_writable(&folder.path().join("new/file")).unwrap();
        assert!(!folder.path().join("new").exists());
        assert!(check_writable(folder.path()).is_err(), "a folder is no file");
        assert!(check_writable(&folder.path().join("file/below")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_written_to_and_stays() {
        write_atomically(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
