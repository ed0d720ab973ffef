//! A run's cells as one table: a row per cell, with parameters and numbers in columns.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::{Map, Value};
use wansan_schema::table::{Field, Table};
use wansan_schema::{CellResult, Results};
use wansan_trace::file::{Described, described_facts};
use wansan_trace::time::duration_ns;
use wansan_trace::units;

/// Leading columns, in this order; those of parameters follow.
const FIRST: [&str; 4] = ["cell", "phase", "repeat", "failure"];
/// Expanded into columns of its own.
const PARAMETERS: &str = "parameters";
/// Path changes during the cell: by its plan, which other cells have too, and by hand, which are recorded nowhere else.
const CHANGES: [(&str, bool); 2] = [("changed_by_plan", false), ("changed_by_hand", true)];

/// The cells of a run as columns of equal length.
#[derive(Debug, Clone, PartialEq)]
pub struct CellTable {
    columns: Vec<(String, Column)>,
    rows: usize,
}

/// A column: values of one type, some of which may be missing.
#[derive(Debug, Clone, PartialEq)]
enum Column {
    Whole(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

/// How a parameter's quantities are converted to numbers.
struct Unit {
    /// Suffix of the column's name.
    suffix: &'static str,
    read: fn(&str) -> Option<Value>,
}

/// The units of plans' quantities. Each text is a quantity of at most one of them.
const UNITS: [Unit; 4] = [
    Unit {
        suffix: "_ns",
        read: |text| Some(duration_ns(units::parse_duration(text).ok()?).into()),
    },
    Unit {
        suffix: "_bits_per_s",
        read: |text| Some(units::parse_rate(text).ok()?.into()),
    },
    Unit {
        suffix: "_bytes",
        read: |text| Some(units::parse_bytes(text).ok()?.into()),
    },
    Unit {
        suffix: "_percent",
        read: |text| Some(text.strip_suffix('%')?.trim().parse::<f64>().ok()?.into()),
    },
];

impl CellTable {
    /// The table of a run's cells. Parameters are separate columns, numeric if all their values are quantities of one
    /// unit, which is then the name's suffix. Lists of unnamed elements are left out, except path changes, as text.
    #[must_use]
    pub fn of(results: &Results) -> CellTable {
        let cells: Vec<Map<String, Value>> = results.cells.iter().map(flat).collect();
        let parameters = parameter_columns(&results.cells);
        let mut columns = Vec::new();
        let mut numbers: BTreeMap<&str, Vec<Option<Value>>> = BTreeMap::new();
        for name in cells.iter().flat_map(Map::keys) {
            numbers.entry(name).or_insert_with(|| {
                let value = |cell: &Map<String, Value>| cell.get(name).cloned();
                cells.iter().map(value).collect()
            });
        }
        for name in FIRST {
            if let Some(values) = numbers.remove(name) {
                columns.push((name.to_owned(), Column::of(values)));
            }
        }
        columns.extend(parameters);
        let rest = numbers.into_iter();
        columns.extend(rest.map(|(name, values)| (name.to_owned(), Column::of(values))));
        CellTable {
            columns,
            rows: cells.len(),
        }
    }

    /// A table of rows described by a struct's table, with no field missing.
    pub(super) fn of_rows(table: &'static Table, rows: &[Map<String, Value>]) -> CellTable {
        let column = |field: &Field| {
            let values = rows.iter().map(|row| row.get(field.name).cloned());
            (field.name.to_owned(), Column::of(values.collect()))
        };
        CellTable {
            columns: table.fields.iter().map(column).collect(),
            rows: rows.len(),
        }
    }

    /// The columns' names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// Writes the table as CSV (RFC 4180, with LF line ends) with a header; missing values are empty.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_csv(&self, out: impl Write) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(self.names())?;
        for row in 0..self.rows {
            csv.write_record(self.columns.iter().map(|(_, column)| column.shown(row)))?;
        }
        csv.flush()
    }

    /// Writes the table as a Parquet file; missing values are null.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_parquet(&self, out: impl Write + Send) -> io::Result<()> {
        self.parquet(out, None).map_err(io::Error::other)
    }

    /// The same, with column descriptions in the file's metadata.
    pub(super) fn write_described_parquet(
        &self,
        table: &'static Table,
        out: impl Write + Send,
    ) -> io::Result<()> {
        let abouts: Vec<String> = table.fields.iter().map(Field::about).collect();
        let described = self
            .columns
            .iter()
            .zip(&abouts)
            .map(|((name, column), about)| Described {
                name,
                about,
                spark_type: column.spark_type(),
                is_nullable: true,
            });
        let facts = Some(described_facts(described));
        self.parquet(out, facts).map_err(io::Error::other)
    }

    /// The table as JSON: an object per row; missing values are null.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let row = |row: usize| -> Map<String, Value> {
            let columns = self.columns.iter();
            columns
                .map(|(name, column)| (name.clone(), column.json(row)))
                .collect()
        };
        (0..self.rows).map(row).collect()
    }

    fn parquet(
        &self,
        out: impl Write + Send,
        facts: Option<Vec<KeyValue>>,
    ) -> Result<(), ParquetError> {
        let fields = self
            .columns
            .iter()
            .map(|(name, column)| {
                let (physical, converted) = column.types();
                let field = Type::primitive_type_builder(name, physical)
                    .with_repetition(Repetition::OPTIONAL)
                    .with_converted_type(converted)
                    .build()?;
                Ok(Arc::new(field))
            })
            .collect::<Result<_, ParquetError>>()?;
        let schema = Type::group_type_builder("cell")
            .with_fields(fields)
            .build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("wansan ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(facts)
            .build();
        let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for (_, column) in &self.columns {
            let Some(mut writer) = group.next_column()? else {
                return Err(ParquetError::General("schema has too few columns".into()));
            };
            column.write(writer.untyped())?;
            writer.close()?;
        }
        group.close()?;
        file.close()?;
        Ok(())
    }
}

impl Column {
    fn of(values: Vec<Option<Value>>) -> Column {
        let present = || values.iter().flatten();
        if present().next().is_some() && present().all(Value::is_i64) {
            let whole = |value: Option<Value>| value.as_ref().and_then(Value::as_i64);
            return Column::Whole(values.into_iter().map(whole).collect());
        }
        if present().next().is_some() && present().all(Value::is_number) {
            let real = |value: Option<Value>| value.as_ref().and_then(Value::as_f64);
            return Column::Real(values.into_iter().map(real).collect());
        }
        let text = |value: Option<Value>| value.as_ref().map(text);
        Column::Text(values.into_iter().map(text).collect())
    }

    fn shown(&self, row: usize) -> String {
        match self {
            Column::Whole(values) => values[row].map(|value| value.to_string()),
            Column::Real(values) => values[row].map(|value| value.to_string()),
            Column::Text(values) => values[row].clone(),
        }
        .unwrap_or_default()
    }

    fn json(&self, row: usize) -> Value {
        match self {
            Column::Whole(values) => values[row].into(),
            Column::Real(values) => values[row].into(),
            Column::Text(values) => values[row].clone().into(),
        }
    }

    fn spark_type(&self) -> &'static str {
        match self {
            Column::Whole(_) => "long",
            Column::Real(_) => "double",
            Column::Text(_) => "string",
        }
    }

    fn types(&self) -> (Physical, ConvertedType) {
        match self {
            Column::Whole(_) => (Physical::INT64, ConvertedType::NONE),
            Column::Real(_) => (Physical::DOUBLE, ConvertedType::NONE),
            Column::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        }
    }

    fn write(&self, writer: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        match (self, writer) {
            (Column::Whole(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                let (present, levels) = present(values, |value| *value);
                writer.write_batch(&present, Some(&levels), None)?;
            }
            (Column::Real(values), ColumnWriter::DoubleColumnWriter(writer)) => {
                let (present, levels) = present(values, |value| *value);
                writer.write_batch(&present, Some(&levels), None)?;
            }
            (Column::Text(values), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let (present, levels) = present(values, |text| ByteArray::from(text.as_str()));
                writer.write_batch(&present, Some(&levels), None)?;
            }
            _ => return Err(ParquetError::General("schema and columns differ".into())),
        }
        Ok(())
    }
}

/// The values present, and a definition level for each row.
fn present<T, P>(values: &[Option<T>], stored: impl Fn(&T) -> P) -> (Vec<P>, Vec<i16>) {
    let levels = values.iter().map(|value| i16::from(value.is_some()));
    (
        values.iter().flatten().map(stored).collect(),
        levels.collect(),
    )
}

/// The leaf values of a cell by dotted names.
fn flat(of: &CellResult) -> Map<String, Value> {
    let mut values = Map::new();
    of.singles(&mut |field, single| {
        if field.name != PARAMETERS {
            values.insert(single.name, single.value);
        }
    });
    for (name, by_hand) in CHANGES {
        let changes = of.timeline.iter();
        let changes = changes.filter(|change| change.is_by_hand() == by_hand);
        let changes: Vec<String> = changes.map(ToString::to_string).collect();
        if !changes.is_empty() {
            values.insert(name.to_owned(), changes.join("; ").into());
        }
    }
    values
}

/// A column for each parameter of any cell.
fn parameter_columns(cells: &[CellResult]) -> Vec<(String, Column)> {
    let mut names: Vec<&String> = Vec::new();
    for name in cells.iter().flat_map(|cell| cell.parameters.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let column = |name: &String| {
        let values: Vec<Option<&Value>> =
            cells.iter().map(|cell| cell.parameters.get(name)).collect();
        let with_unit = UNITS.iter().find_map(|unit| {
            let number = |value: &&Value| (unit.read)(value.as_str()?);
            let numbers: Vec<Option<Value>> = values
                .iter()
                .map(|value| value.as_ref().and_then(number))
                .collect();
            let all = numbers.iter().zip(&values);
            let fits = all
                .clone()
                .all(|(number, value)| number.is_some() == value.is_some());
            fits.then(|| (format!("{name}{}", unit.suffix), Column::of(numbers)))
        });
        with_unit.unwrap_or_else(|| {
            let values = values.into_iter().map(Option::<&Value>::cloned).collect();
            (name.clone(), Column::of(values))
        })
    };
    names.into_iter().map(column).collect()
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
