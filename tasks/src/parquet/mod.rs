//! Parquet files, as dataset hubs have them: rows of text.
//!
//! A file may come from anybody. Whatever is in it, reading ends with rows or with an error.

mod footer;

use std::{
    any::Any,
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use parquet::{
    errors::ParquetError,
    file::{
        metadata::FileMetaData,
        reader::{FileReader, SerializedFileReader},
    },
    record::Field,
    schema::types::Type,
};
use serde_json::{Value, json};

use crate::source::{DataError, Row, Table, Wanted, content_error};

/// A table, and the names of classes that a column numbers.
pub(crate) struct ParquetTable {
    pub table: Table,
    /// By column, as Hugging Face's `datasets` writes them down.
    pub classes: BTreeMap<String, Vec<String>>,
}

/// More rows, or more text, are no task of ours: a few bytes can say that there are billions.
const MOST_ROWS: i64 = 20_000_000;
const MOST_BYTES: usize = 8 << 30;

/// Columns that lie deeper in each other are no data of ours.
const DEEPEST: usize = 32;

/// Reads these columns, in this order. A number becomes its text, a list or a structure JSON.
pub(crate) fn read(path: &Path, wanted: &[Wanted<'_>]) -> Result<ParquetTable, DataError> {
    // The reader asserts what a damaged file does not keep.
    let read = catch_unwind(AssertUnwindSafe(|| parse(path, wanted)));
    read.unwrap_or_else(|panic| Err(content_error(path, None, format!("damaged Parquet file: {}", reason(&*panic)))))
}

fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
}

fn parse(path: &Path, wanted: &[Wanted<'_>]) -> Result<ParquetTable, DataError> {
    let damaged = |error: ParquetError| content_error(path, None, format!("not a readable Parquet file: {error}"));
    let io = |reason| DataError::Io { path: path.to_owned(), reason };
    let mut file = fs::File::open(path).map_err(io)?;
    if footer::depth(&mut file).map_err(io)?.is_none_or(|depth| depth > DEEPEST) {
        return Err(content_error(path, None, "not a readable Parquet file: its description makes no sense"));
    }
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    let metadata = reader.metadata().file_metadata();
    let fields = metadata.schema().get_fields();
    let there: Vec<&str> = fields.iter().map(|field| field.name()).collect();
    if let Some(problem) = Wanted::lacking(wanted, &there) {
        return Err(content_error(path, None, problem));
    }
    let columns: Vec<&str> = wanted.iter().map(|wanted| wanted.column).collect();
    let rows = reader.metadata().row_groups().iter().map(|group| group.num_rows());
    if rows.clone().any(|rows| rows < 0) || rows.fold(0, i64::saturating_add) > MOST_ROWS {
        return Err(content_error(path, None, format!("it does not have 0 to {MOST_ROWS} rows")));
    }
    // The reader wants the columns in the file's order.
    let field = |column: &&str| fields.iter().find(|field| field.name() == *column).cloned();
    let mut projected: Vec<Arc<Type>> = columns.iter().filter_map(field).collect();
    let place = |field: &Arc<Type>| fields.iter().position(|other| other.name() == field.name());
    projected.sort_by_key(place);
    projected.dedup_by_key(|field| field.name().to_owned());
    let projection = Type::group_type_builder(metadata.schema().name()).with_fields(projected).build();
    let rows = reader.get_row_iter(Some(projection.map_err(damaged)?)).map_err(damaged)?;
    let mut bytes = 0;
    let rows = rows.zip(1..).map(|(row, number)| {
        let row: BTreeMap<String, Field> = row.map_err(damaged)?.into_columns().into_iter().collect();
        let cells = columns.iter().map(|column| {
            let problem = |problem: &str| content_error(path, None, format!("row {number}: {problem} `{column}`"));
            text(row.get(*column).unwrap_or(&Field::Null)).map_err(problem)
        });
        let cells: Vec<String> = cells.collect::<Result<_, _>>()?;
        bytes += cells.iter().map(String::len).sum::<usize>();
        if bytes > MOST_BYTES {
            return Err(content_error(path, None, format!("more than {MOST_BYTES} bytes of text")));
        }
        Ok(Row::new(number, cells))
    });
    let rows: Vec<Row> = rows.collect::<Result<_, DataError>>()?;
    let names = columns.iter().map(|column| column.to_string()).collect();
    Ok(ParquetTable { table: Table::new(path, names, rows)?, classes: classes(metadata) })
}

/// A value as text, or what is wrong with it.
fn text(field: &Field) -> Result<String, &'static str> {
    match field {
        Field::Null => Err("no value for"),
        Field::Str(text) => Ok(text.clone()),
        Field::Bytes(bytes) => String::from_utf8(bytes.data().to_vec()).map_err(|_| "invalid UTF-8 in"),
        Field::ListInternal(_) | Field::Group(_) => Ok(structure(field).to_string()),
        other => Ok(other.to_string()),
    }
}

/// A list or a structure as JSON.
fn structure(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Str(text) => json!(text),
        Field::Bool(value) => json!(value),
        Field::Byte(number) => json!(number),
        Field::Short(number) => json!(number),
        Field::Int(number) => json!(number),
        Field::Long(number) => json!(number),
        Field::UByte(number) => json!(number),
        Field::UShort(number) => json!(number),
        Field::UInt(number) => json!(number),
        Field::ULong(number) => json!(number),
        Field::Float(number) => json!(number),
        Field::Double(number) => json!(number),
        Field::ListInternal(list) => list.elements().iter().map(structure).collect(),
        Field::Group(row) => row.get_column_iter().map(|(name, field)| (name.clone(), structure(field))).collect(),
        other => json!(other.to_string()),
    }
}

/// The names of numbered classes, from what `datasets` writes into a file's metadata.
fn classes(metadata: &FileMetaData) -> BTreeMap<String, Vec<String>> {
    let entries = metadata.key_value_metadata().into_iter().flatten();
    let text = entries.filter(|entry| entry.key == "huggingface").find_map(|entry| entry.value.as_deref());
    let info: Value = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let features = info["info"]["features"].as_object().cloned().unwrap_or_default();
    let names = |feature: &Value| -> Option<Vec<String>> {
        (feature["_type"] == "ClassLabel").then_some(())?;
        feature["names"].as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
    };
    features.iter().filter_map(|(column, feature)| Some((column.clone(), names(feature)?))).collect()
}
