//! Downloads of which a hostile server can make nothing but an error: names are ours, sizes and times are limited, and contents are
//! checked before anybody opens them.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest, Sha256};
use ureq::{
    Agent, Body, Error,
    config::{AutoHeaderValue, RedirectAuthHeaders},
    http::{Response, StatusCode, header},
};

/// Gets files by HTTP.
#[derive(Clone, Debug)]
pub struct Downloader {
    /// Whether plain HTTP will do: anybody on the way can then change what arrives.
    pub allow_http: bool,
    /// The longest silence of a server.
    pub patience: Duration,
    /// The fewest bytes in a second, over a whole download.
    pub slowest: u64,
    /// Sent to the first server alone, never to one that it leads to.
    pub token: Option<String>,
    /// Whether to show progress (on standard error).
    pub progress: bool,
}

/// What is known of a file before it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Its size, if it is known.
    pub size: Option<u64>,
    /// Its SHA-256, if it is known. Only then is a download that was cut off continued.
    pub sha256: Option<&'a str>,
    /// The most bytes that are taken.
    pub limit: u64,
}

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// Not https, and that was not allowed.
    #[error(
        "{url}: plain http can be changed by anybody on the way; use https, or --allow-http if you trust the network"
    )]
    PlainHttp {
        /// Where.
        url: String,
    },
    /// The server said no.
    #[error("{url}: the server answers {status}")]
    Status {
        /// Where.
        url: String,
        /// What it answers.
        status: StatusCode,
    },
    /// The server answers what makes no sense, or sends us in circles.
    #[error("{url}: {reason}")]
    Answer {
        /// Where.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server cannot be reached, is silent or slow, or hangs up: it may be worth another try.
    #[error("{url}: {reason}")]
    Connection {
        /// Where.
        url: String,
        /// What happened.
        reason: String,
    },
    /// More bytes than there may be.
    #[error("{url}: more than {limit} bytes; nothing was kept")]
    TooLarge {
        /// Where.
        url: String,
        /// The most that is taken.
        limit: u64,
    },
    /// The contents are not those that were published.
    #[error("{url}: SHA-256 is {found}, expected {expected}; nothing was kept, fetch again")]
    Checksum {
        /// Where.
        url: String,
        /// The hash that was expected.
        expected: String,
        /// Its own.
        found: String,
    },
    /// A file cannot be written.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
}

/// Servers that may lead to the next before we stop following.
const REDIRECTS: u32 = 5;
const CONNECT: Duration = Duration::from_secs(20);

impl Default for Downloader {
    fn default() -> Self {
        Self { allow_http: false, patience: Duration::from_secs(30), slowest: 20_000, token: None, progress: false }
    }
}

impl Downloader {
    /// A small document, of at most `limit` bytes.
    ///
    /// # Errors
    /// If it does not arrive whole.
    pub fn document(&self, url: &str, limit: u64) -> Result<Vec<u8>, DownloadError> {
        let response = self.request(url, 0, limit)?;
        let mut bytes = Vec::new();
        let taken = response.into_body().into_reader().take(limit + 1).read_to_end(&mut bytes);
        taken.map_err(|error| connection(url, &error))?;
        if bytes.len() as u64 > limit {
            return Err(DownloadError::TooLarge { url: url.to_owned(), limit });
        }
        Ok(bytes)
    }

    /// A file, which is at `to` when all is well, and checked. Returns its SHA-256. A part that an earlier attempt left there is
    /// continued if its contents are known.
    ///
    /// # Errors
    /// If it does not arrive whole and as expected. What was received stays only where it can be continued.
    pub fn file(&self, url: &str, to: &Path, expected: Expected<'_>) -> Result<String, DownloadError> {
        let begun = fs::metadata(to).is_ok_and(|metadata| metadata.len() > 0);
        let mut received = self.receive(url, to, expected);
        if begun && matches!(received, Err(DownloadError::Checksum { .. })) {
            // The part that was there belonged to something else: once more, from the beginning.
            let _ = fs::remove_file(to);
            received = self.receive(url, to, expected);
        }
        let resumable = expected.sha256.is_some() && matches!(received, Err(DownloadError::Connection { .. }));
        if received.is_err() && !resumable {
            // A failure to remove it is not worth hiding why it must go.
            let _ = fs::remove_file(to);
        }
        received
    }

    fn receive(&self, url: &str, to: &Path, expected: Expected<'_>) -> Result<String, DownloadError> {
        let at = |reason| DownloadError::Io { path: to.to_owned(), reason };
        let limit = expected.size.unwrap_or(expected.limit).min(expected.limit);
        let there = fs::metadata(to).map_or(0, |metadata| metadata.len());
        if let Some(known) = expected.sha256.filter(|_| there > 0 && expected.size.is_none_or(|size| size == there)) {
            // An earlier attempt may have brought all of it.
            let found = sha256(to).map_err(at)?;
            if known.eq_ignore_ascii_case(&found) {
                return Ok(found);
            }
        }
        let there = if expected.sha256.is_some() && there < limit { there } else { 0 };
        let response = self.request(url, there, limit)?;
        // A server that cannot continue sends all of it.
        let continues = there > 0 && response.status() == StatusCode::PARTIAL_CONTENT && starts_at(&response, there);
        let mut file = fs::OpenOptions::new().create(true).write(true).truncate(false).open(to).map_err(at)?;
        let mut size = if continues { there } else { 0 };
        file.set_len(size).map_err(at)?;
        io::Seek::seek(&mut file, io::SeekFrom::Start(size)).map_err(at)?;
        let mut body = response.into_body().into_reader();
        let (mut buffer, mut meter) = (vec![0; 1 << 16], Meter::new(self.progress, to, expected.size));
        loop {
            let read = body.read(&mut buffer).map_err(|error| connection(url, &error))?;
            if read == 0 {
                break;
            }
            size += read as u64;
            if size > limit {
                return Err(DownloadError::TooLarge { url: url.to_owned(), limit });
            }
            file.write_all(&buffer[..read]).map_err(at)?;
            meter.show(size);
        }
        file.sync_all().map_err(at)?;
        if let Some(expected) = expected.size.filter(|expected| *expected != size) {
            // Fewer bytes are a server that hung up: that can be continued.
            let reason = format!("the connection ended after {size} of {expected} bytes");
            return Err(DownloadError::Connection { url: url.to_owned(), reason });
        }
        let found = sha256(to).map_err(at)?;
        match expected.sha256 {
            Some(expected) if !expected.eq_ignore_ascii_case(&found) => {
                Err(DownloadError::Checksum { url: url.to_owned(), expected: expected.to_owned(), found })
            }
            _ => Ok(found),
        }
    }

    /// Asks for `url`, from byte `from` on; at most `limit` bytes will be read.
    fn request(&self, url: &str, from: u64, limit: u64) -> Result<Response<Body>, DownloadError> {
        if !self.allow_http && !url.starts_with("https://") {
            return Err(DownloadError::PlainHttp { url: url.to_owned() });
        }
        let longest = self.patience + Duration::from_secs(limit / self.slowest.max(1));
        let agent: Agent = Agent::config_builder()
            .https_only(!self.allow_http)
            .max_redirects(REDIRECTS)
            .redirect_auth_headers(RedirectAuthHeaders::Never)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(self.patience))
            .timeout_per_read(Some(self.patience))
            .timeout_global(Some(longest))
            // What arrives is what was published, not something to unpack.
            .accept_encoding(AutoHeaderValue::None)
            .http_status_as_error(false)
            .build()
            .into();
        let mut request = agent.get(url);
        if from > 0 {
            request = request.header(header::RANGE, format!("bytes={from}-"));
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = request.call().map_err(|error| match error {
            Error::TooManyRedirects => {
                let reason = format!("more than {REDIRECTS} redirections");
                DownloadError::Answer { url: url.to_owned(), reason }
            }
            Error::RequireHttpsOnly(to) => DownloadError::PlainHttp { url: to },
            error => DownloadError::Connection { url: url.to_owned(), reason: error.to_string() },
        })?;
        match response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(response),
            // The part that is there does not belong to what the server has: once more, from the beginning.
            StatusCode::RANGE_NOT_SATISFIABLE if from > 0 => self.request(url, 0, limit),
            status => Err(DownloadError::Status { url: url.to_owned(), status }),
        }
    }
}

/// Whether a partial answer begins where it was asked to.
fn starts_at(response: &Response<Body>, from: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}

fn connection(url: &str, error: &io::Error) -> DownloadError {
    DownloadError::Connection { url: url.to_owned(), reason: error.to_string() }
}

/// A file's SHA-256 in hexadecimal.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut file = fs::File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// How far a download is, in a line on standard error.
struct Meter {
    shown: Option<(String, Option<u64>)>,
    last: u64,
}

impl Meter {
    /// Bytes between two lines.
    const EVERY: u64 = 4 << 20;

    fn new(progress: bool, to: &Path, size: Option<u64>) -> Self {
        let name = to.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { shown: progress.then_some((name, size)), last: 0 }
    }

    fn show(&mut self, bytes: u64) {
        let Some((name, size)) = &self.shown else { return };
        if bytes < self.last + Self::EVERY {
            return;
        }
        self.last = bytes;
        let of = size.map_or(String::new(), |size| format!(" of {} MB", size / 1_000_000));
        // Progress that nobody can read is no reason to stop.
        let _ = write!(io::stderr(), "\r\x1b[K{name}: {} MB{of}", bytes / 1_000_000);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.shown.is_some() && self.last > 0 {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
