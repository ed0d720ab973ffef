//! Column descriptions in the metadata of a Parquet file, as the format has no field for them.

use parquet::file::metadata::KeyValue;
use serde_json::json;

use crate::page::plain;

/// Key prefix of a column's description; the column's name follows.
const COLUMN_KEY: &str = "wansan.column.";
/// Spark's own schema, with a comment per column, which Spark displays (`DESCRIBE`).
const SPARK_KEY: &str = "org.apache.spark.sql.parquet.row.metadata";

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its description, in Markdown.
    pub about: &'a str,
    /// Its Spark type.
    pub spark_type: &'static str,
    /// Whether it may be null.
    pub is_nullable: bool,
}

/// The file metadata that describe these columns.
#[must_use]
pub fn described_facts<'a>(columns: impl Iterator<Item = Described<'a>>) -> Vec<KeyValue> {
    let (mut facts, mut fields) = (Vec::new(), Vec::new());
    for column in columns {
        let about = plain(column.about);
        fields.push(json!({
            "name": column.name,
            "type": column.spark_type,
            "nullable": column.is_nullable,
            "metadata": {"comment": about},
        }));
        facts.push(KeyValue::new(format!("{COLUMN_KEY}{}", column.name), about));
    }
    let schema = json!({"type": "struct", "fields": fields});
    facts.push(KeyValue::new(SPARK_KEY.to_owned(), schema.to_string()));
    facts
}
