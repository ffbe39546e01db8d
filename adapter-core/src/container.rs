//! The one form of our own files: safetensors with a JSON header and a checksum over everything.

use std::{collections::BTreeMap, io, path::Path};

use safetensors::{Dtype, SafeTensorError, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::atomic_file::{read_file, write_atomically};

/// What a file is for and which version of that form it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container {
    /// The metadata entry that holds the header.
    pub key: &'static str,
    /// The version written and read.
    pub version: u32,
}

/// A tensor as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its elements.
    pub bytes: Vec<u8>,
}

impl Stored {
    /// Floats.
    pub fn f32(shape: Vec<usize>, values: &[f32]) -> Self {
        Self { dtype: Dtype::F32, shape, bytes: bytemuck::cast_slice(values).to_vec() }
    }

    /// A row of numbers.
    pub fn u32(values: &[u32]) -> Self {
        Self { dtype: Dtype::U32, shape: vec![values.len()], bytes: bytemuck::cast_slice(values).to_vec() }
    }

    /// A row of bytes.
    pub fn u8(values: &[u8]) -> Self {
        Self { dtype: Dtype::U8, shape: vec![values.len()], bytes: values.to_vec() }
    }

    /// Its elements, if they have this type.
    pub fn values<T: bytemuck::Pod>(&self, dtype: Dtype) -> Option<Vec<T>> {
        (self.dtype == dtype).then(|| bytemuck::pod_collect_to_vec(&self.bytes))
    }
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// The system cannot read or write it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It ends too early.
    #[error("the file is truncated; copy it again")]
    Truncated,
    /// Its header cannot be parsed.
    #[error("the header is damaged ({0}); copy the file again")]
    Header(String),
    /// It is a safetensors file of something else.
    #[error("this safetensors file was not written by this program: it has no `{0}` entry")]
    Foreign(&'static str),
    /// It was written by another version of this program.
    #[error("format version {found}, this program reads {read}; use the version that wrote it")]
    Version {
        /// The version of the file.
        found: u32,
        /// The version that is read.
        read: u32,
    },
    /// Its contents are not those that were written.
    #[error("the contents do not match their checksum; copy the file again")]
    Checksum,
    /// A tensor holds something that is no finite number.
    #[error("the tensor `{0}` has values that are not finite; train it again, with a lower learning rate")]
    NotFinite(String),
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    version: u32,
    checksum: String,
    /// The header's text, as it is covered by the checksum.
    info: Box<RawValue>,
}

impl Container {
    /// A file's contents.
    ///
    /// # Errors
    /// If the header or a tensor has no written form.
    pub fn to_bytes(self, header: &impl Serialize, tensors: &BTreeMap<String, Stored>) -> io::Result<Vec<u8>> {
        let info = serde_json::value::to_raw_value(header)?;
        let sealed = Sealed { version: self.version, checksum: self.checksum(&info, tensors), info };
        let metadata = [(self.key.to_owned(), serde_json::to_string(&sealed)?)].into();
        let views: Result<Vec<_>, _> = tensors
            .iter()
            .map(|(name, stored)| {
                TensorView::new(stored.dtype, stored.shape.clone(), &stored.bytes).map(|view| (name, view))
            })
            .collect();
        views.and_then(|views| safetensors::serialize(views, Some(metadata))).map_err(io::Error::other)
    }

    /// Parses and verifies a file's contents.
    ///
    /// # Errors
    /// If they are no whole, unchanged file of this form and version.
    pub fn from_bytes<H: DeserializeOwned>(self, bytes: &[u8]) -> Result<(H, BTreeMap<String, Stored>), Flaw> {
        let damaged = |error: &dyn std::error::Error| Flaw::Header(error.to_string());
        let stored = SafeTensors::deserialize(bytes).map_err(|error| match error {
            SafeTensorError::HeaderTooSmall
            | SafeTensorError::InvalidHeaderLength
            | SafeTensorError::MetadataIncompleteBuffer => Flaw::Truncated,
            error => damaged(&error),
        })?;
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(&error))?;
        let entries = metadata.metadata().as_ref();
        let document = entries.and_then(|entries| entries.get(self.key)).ok_or(Flaw::Foreign(self.key))?;

        // Another version may have another form: look at the version first.
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_str(document).map_err(|error| damaged(&error))?;
        if version != self.version {
            return Err(Flaw::Version { found: version, read: self.version });
        }
        let sealed: Sealed = serde_json::from_str(document).map_err(|error| damaged(&error))?;
        let tensors: BTreeMap<String, Stored> = stored
            .iter()
            .map(|(name, view)| {
                let (dtype, shape, bytes) = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
                (name.to_owned(), Stored { dtype, shape, bytes })
            })
            .collect();
        // A fuzzer would have to invert a hash to get any further.
        if !cfg!(fuzzing) && self.checksum(&sealed.info, &tensors) != sealed.checksum {
            return Err(Flaw::Checksum);
        }
        let header = serde_json::from_str(sealed.info.get()).map_err(|error| damaged(&error))?;
        Ok((header, tensors))
    }

    /// Writes a file by atomic rename.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(self, path: &Path, header: &impl Serialize, tensors: &BTreeMap<String, Stored>) -> io::Result<()> {
        write_atomically(path, &self.to_bytes(header, tensors)?)
    }

    /// Reads and verifies a file.
    ///
    /// # Errors
    /// If it is no whole, unchanged file of this form and version.
    pub fn read<H: DeserializeOwned>(self, path: &Path) -> Result<(H, BTreeMap<String, Stored>), Flaw> {
        self.from_bytes(&read_file(path, u64::MAX)?)
    }

    /// A hash over the header and all tensors.
    fn checksum(self, header: &RawValue, tensors: &BTreeMap<String, Stored>) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        part(&self.version.to_le_bytes());
        part(header.get().as_bytes());
        for (name, Stored { dtype, shape, bytes }) in tensors {
            part(name.as_bytes());
            part(format!("{dtype:?} {shape:?}").as_bytes());
            part(bytes);
        }
        hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Container = Container { key: "numbers", version: 3 };

    fn file() -> Vec<u8> {
        let tensors = [("a", Stored::u32(&[1, 2, 3])), ("b", Stored::f32(vec![1, 2], &[0.5, 1.5]))];
        FORM.to_bytes(&"a header", &tensors.map(|(name, stored)| (name.to_owned(), stored)).into()).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let (header, tensors) = FORM.from_bytes::<String>(&file()).unwrap();
        assert_eq!((header.as_str(), tensors["a"].values::<u32>(Dtype::U32)), ("a header", Some(vec![1, 2, 3])));
        assert_eq!(tensors["b"].values::<u32>(Dtype::U32), None, "of another type");
    }

    #[test]
    fn no_flipped_bit_and_no_lost_byte_goes_unnoticed() {
        let whole = file();
        let read = |bytes: &[u8]| FORM.from_bytes::<String>(bytes);
        let expected = read(&whole).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            // White space in the JSON around the header may change without changing what is read.
            assert!(read(&bytes).is_err() || read(&bytes).unwrap() == expected, "byte {at}");
            assert!(read(&whole[..at]).is_err(), "the first {at} bytes");
        }
    }

    #[test]
    fn another_form_and_another_version_are_named() {
        let error = |form: Container| form.from_bytes::<String>(&file()).unwrap_err().to_string();
        assert!(error(Container { key: "letters", ..FORM }).contains("no `letters` entry"));
        assert!(error(Container { version: 4, ..FORM }).contains("format version 3, this program reads 4"));
    }
}
