//! A folder that appears whole or not at all, and one process at a time that makes it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A folder under way: what is made for it lies in a hidden folder beside it, which is ours alone.
pub struct Staging {
    folder: PathBuf,
    partial: PathBuf,
    lock_path: PathBuf,
    _lock: fs::File,
}

/// Says that a hidden folder was made by this program.
const MARK: &str = ".made-by-adapter-lab";

impl Staging {
    /// Begins `folder`; `None` if it is there. What an earlier attempt left is kept, so that it can continue.
    ///
    /// # Errors
    /// If nothing can be written there, or a hidden folder of its name is somebody else's.
    pub fn begin(folder: &Path) -> io::Result<Option<Self>> {
        if folder.is_dir() {
            return Ok(None);
        }
        fs::create_dir_all(folder.parent().unwrap_or(Path::new(".")))?;
        let (partial, lock_path) = (hidden(folder, "partial"), hidden(folder, "lock"));
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        if let Some(link) = [&partial, &lock_path].into_iter().find(|path| is_link(path)) {
            return Err(refused(link, "it is a link; remove it"));
        }
        // The system releases the lock of a killed process. The file is opened as it is: it may be somebody else's.
        let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path)?;
        lock.lock()?;
        if folder.is_dir() {
            return Ok(None);
        }
        if !partial.exists() {
            fs::create_dir(&partial)?;
        }
        // An empty one may be ours: of a process that was killed before it could mark it.
        if !partial.join(MARK).is_file() {
            if fs::read_dir(&partial)?.next().is_some() {
                return Err(refused(&partial, "this program did not make it; move it away"));
            }
            fs::write(partial.join(MARK), b"")?;
        }
        Ok(Some(Self { folder: folder.to_owned(), partial, lock_path, _lock: lock }))
    }

    /// Where everything is while it is made.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// An empty folder inside, whatever was there before.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn empty(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.partial.join(name);
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// A folder inside, with what an earlier attempt left in it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn kept(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.partial.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Puts `made`, a folder inside, into its place, and removes the rest.
    ///
    /// # Errors
    /// If it cannot be moved; nothing of it is in its place then.
    pub fn finish(self, made: &Path) -> io::Result<()> {
        fs::rename(made, &self.folder)?;
        // Only a folder that nobody looks at is left if this fails.
        let _ = fs::remove_dir_all(&self.partial);
        let _ = fs::remove_file(&self.lock_path);
        Ok(())
    }

    /// Removes what was made. The lock stays: another process may be waiting for it.
    pub fn discard(self) {
        let _ = fs::remove_dir_all(&self.partial);
    }
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}

/// The name of something beside `folder` that a listing does not show.
fn hidden(folder: &Path, extension: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.{extension}"))
}
