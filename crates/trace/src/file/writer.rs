//! Writes one record file, one row group at a time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Encoding, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use super::checksum::Summed;
use super::described::{Described, described_facts};
use super::dictionary::Dictionary;
use super::{CHECKSUM_KEY, VERSION_KEY};
use super::{DROPPED_KEY, Dropped, FileError, KIND_KEY, Kind, Row, SCHEMA_KEY, SCHEMA_VERSION};
use crate::field::Cell;
use crate::kind::{Column, Habit, all_columns};
use crate::names::Names;

/// Rows per row group: what a writer keeps in memory.
const GROUP_ROWS: usize = 256 * 1024;
/// Values passed to the encoder at once.
const CHUNK_VALUES: usize = 8 * 1024;

/// Writes rows to a file that gets its final name only when complete.
pub(super) struct Writer<T: Kind> {
    path: PathBuf,
    unfinished: PathBuf,
    file: SerializedFileWriter<Summed>,
    columns: Vec<Column<T>>,
    group: Vec<Row<T>>,
}

impl<T: Kind> Writer<T> {
    pub(super) fn create(path: &Path, dropped: &Dropped) -> Result<Self, FileError> {
        Self::with_columns(path, dropped, all_columns::<T>())
    }

    /// Creates a file with these columns of its kind.
    pub(super) fn with_columns(
        path: &Path,
        dropped: &Dropped,
        columns: Vec<Column<T>>,
    ) -> Result<Self, FileError> {
        let properties = properties::<T>(&columns, facts::<T>(dropped));
        Self::with_properties(path, properties, columns)
    }

    /// The same, with each column's description in the file's metadata.
    pub(super) fn described(
        path: &Path,
        dropped: &Dropped,
        columns: Vec<Column<T>>,
    ) -> Result<Self, FileError> {
        let described = columns.iter().map(|column| Described {
            name: column.name,
            about: column.about,
            spark_type: match column.cell {
                Cell::Int64 => "long",
                // Spark has no unsigned types: use the next wider type.
                Cell::Uint(8) => "short",
                Cell::Uint(16) => "integer",
                Cell::Uint(_) => "long",
                Cell::Text(_) => "string",
            },
            is_nullable: false,
        });
        let mut facts = facts::<T>(dropped);
        facts.extend(described_facts(described));
        let properties = properties::<T>(&columns, facts);
        Self::with_properties(path, properties, columns)
    }

    fn with_properties(
        path: &Path,
        properties: WriterProperties,
        columns: Vec<Column<T>>,
    ) -> Result<Self, FileError> {
        // Engines that read whole folders skip names with a leading dot.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = path.with_file_name(format!(".{name}.unfinished"));
        let file = File::create(&unfinished).map_err(|error| FileError::write(path, &error))?;
        let file = SerializedFileWriter::new(
            Summed::new(file),
            Arc::new(schema(&columns)),
            Arc::new(properties),
        )
        .map_err(|error| FileError::write(path, &error))?;
        Ok(Writer {
            path: path.to_owned(),
            unfinished,
            file,
            columns,
            group: Vec::new(),
        })
    }

    /// Adds a row; its codes refer to `names`, which only grows between calls.
    pub(super) fn push(&mut self, row: Row<T>, names: &mut Names) -> Result<(), FileError> {
        self.group.push(row);
        if self.group.len() == GROUP_ROWS {
            self.write_group(names)?;
        }
        Ok(())
    }

    /// Adds rows while none are buffered.
    pub(super) fn write_all(
        &mut self,
        rows: &[Row<T>],
        names: &mut Names,
    ) -> Result<(), FileError> {
        debug_assert!(self.group.is_empty(), "rows stay in their order");
        for group in rows.chunks(GROUP_ROWS) {
            let written = write_rows(&mut self.file, &self.columns, group, names);
            written.map_err(|error| FileError::write(&self.path, &error))?;
        }
        Ok(())
    }

    /// Number of buffered rows.
    pub(super) fn waiting(&self) -> usize {
        self.group.len()
    }

    /// Writes the remaining rows and renames the file.
    pub(super) fn finish(mut self, names: &mut Names) -> Result<(), FileError> {
        if !self.group.is_empty() {
            self.write_group(names)?;
        }
        let Writer {
            path,
            unfinished,
            mut file,
            ..
        } = self;
        file.flush()
            .map_err(|error| FileError::write(&path, &error))?;
        let checksum = file.inner().so_far();
        file.append_key_value_metadata(KeyValue::new(CHECKSUM_KEY.to_owned(), checksum));
        file.into_inner()
            .map_err(|error| FileError::write(&path, &error))?;
        std::fs::rename(&unfinished, &path).map_err(|error| FileError::write(&path, &error))
    }

    /// Writes the buffered rows.
    pub(super) fn write_group(&mut self, names: &mut Names) -> Result<(), FileError> {
        let written = write_rows(&mut self.file, &self.columns, &self.group, names);
        self.group.clear();
        written.map_err(|error| FileError::write(&self.path, &error))
    }
}

fn write_rows<T: Kind>(
    file: &mut SerializedFileWriter<Summed>,
    columns: &[Column<T>],
    rows: &[Row<T>],
    names: &mut Names,
) -> Result<(), ParquetError> {
    let descriptors = file.schema_descr().columns().to_vec();
    let mut group = file.next_row_group()?;
    for (column, descriptor) in columns.iter().zip(descriptors) {
        if column.habit == Habit::Repeats {
            let mut dictionary = Dictionary::default();
            each_chunk(column, rows, names, |codes| {
                dictionary.add(codes);
                Ok(())
            })?;
            let put = |code, page: &mut Vec<u8>| put_plain(column.cell, code, names, page);
            let (chunk, close) = dictionary.encode(descriptor, put)?;
            group.append_column(&chunk, close)?;
            continue;
        }
        let Some(mut writer) = group.next_column()? else {
            return Err(ParquetError::General("schema has too few columns".into()));
        };
        let mut values = Values::default();
        each_chunk(column, rows, names, |codes| {
            match (writer.untyped(), column.cell) {
                (ColumnWriter::Int64ColumnWriter(writer), Cell::Int64) => {
                    // Same bits: u64::MAX ("unlimited") reads as -1.
                    values.int64.clear();
                    values.int64.extend(codes.iter().map(|code| *code as i64));
                    writer.write_batch(&values.int64, None, None)?;
                }
                (ColumnWriter::Int32ColumnWriter(writer), Cell::Uint(_)) => {
                    // Same bits: the column's annotation marks them as unsigned.
                    values.int32.clear();
                    values.int32.extend(codes.iter().map(|code| *code as i32));
                    writer.write_batch(&values.int32, None, None)?;
                }
                _ => return Err(ParquetError::General("schema and columns differ".into())),
            }
            Ok(())
        })?;
        writer.close()?;
    }
    group.close()?;
    Ok(())
}

/// Calls `take` with the codes of a column for the rows, in chunks.
fn each_chunk<T: Kind>(
    column: &Column<T>,
    rows: &[Row<T>],
    names: &mut Names,
    mut take: impl FnMut(&[u64]) -> Result<(), ParquetError>,
) -> Result<(), ParquetError> {
    let mut codes = vec![0; CHUNK_VALUES.min(rows.len())];
    for chunk in rows.chunks(CHUNK_VALUES) {
        let codes = &mut codes[..chunk.len()];
        (column.get)(chunk, names, codes).ok_or_else(|| {
            let message = "more than 65,536 different values in column ".to_owned();
            ParquetError::General(message + column.name)
        })?;
        take(codes)?;
    }
    Ok(())
}

/// Appends a value in Parquet's `PLAIN` encoding. Numbers have the same bits there.
fn put_plain(cell: Cell, code: u64, names: &Names, page: &mut Vec<u8>) {
    match cell {
        Cell::Int64 => page.extend_from_slice(&code.to_le_bytes()),
        Cell::Uint(_) => page.extend_from_slice(&(code as u32).to_le_bytes()),
        Cell::Text(vocabulary) => {
            let text = vocabulary.text(code as u16, names);
            page.extend_from_slice(&(text.len() as u32).to_le_bytes());
            page.extend_from_slice(text.as_bytes());
        }
    }
}

/// Buffers for the values of a column, by physical type.
#[derive(Default)]
struct Values {
    int64: Vec<i64>,
    int32: Vec<i32>,
}

/// Column type and annotation that pandas, DuckDB and Spark understand.
fn schema<T>(columns: &[Column<T>]) -> Type {
    let fields = columns
        .iter()
        .map(|column| {
            let (physical, converted) = match column.cell {
                Cell::Int64 => (Physical::INT64, ConvertedType::NONE),
                Cell::Uint(bits) => (Physical::INT32, unsigned(bits)),
                Cell::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            };
            let field = Type::primitive_type_builder(column.name, physical)
                .with_repetition(Repetition::REQUIRED)
                .with_converted_type(converted)
                .build()
                .expect("the annotations fit the physical types");
            Arc::new(field)
        })
        .collect();
    Type::group_type_builder("record")
        .with_fields(fields)
        .build()
        .expect("a group of named fields is a schema")
}

/// The annotation of an unsigned integer of `bits`.
pub(super) fn unsigned(bits: i8) -> ConvertedType {
    match bits {
        8 => ConvertedType::UINT_8,
        16 => ConvertedType::UINT_16,
        _ => ConvertedType::UINT_32,
    }
}

fn facts<T: Kind>(dropped: &Dropped) -> Vec<KeyValue> {
    let mut facts = vec![
        KeyValue::new(SCHEMA_KEY.to_owned(), SCHEMA_VERSION.to_string()),
        KeyValue::new(VERSION_KEY.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        KeyValue::new(KIND_KEY.to_owned(), T::NAME.to_owned()),
    ];
    facts.extend(
        dropped
            .iter()
            .map(|(host, count)| KeyValue::new(format!("{DROPPED_KEY}{host}"), count.to_string())),
    );
    facts
}

fn properties<T: Kind>(columns: &[Column<T>], facts: Vec<KeyValue>) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_created_by(concat!("wansan ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(facts));
    // The minimum and maximum time of a row group let readers skip it.
    for column in columns.iter().filter(|it| it.habit == Habit::Grows) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}
