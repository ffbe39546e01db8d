//! In the place of the Parquet reader, in a build without it.

use std::{collections::BTreeMap, path::Path};

use crate::source::{DataError, Table, Wanted, content_error};

pub(crate) struct ParquetTable {
    pub table: Table,
    pub classes: BTreeMap<String, Vec<String>>,
}

pub(crate) fn read(path: &Path, _wanted: &[Wanted<'_>]) -> Result<ParquetTable, DataError> {
    Err(content_error(path, None, "this build reads no Parquet files; build with `--features parquet`"))
}
