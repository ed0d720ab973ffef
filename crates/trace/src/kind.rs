//! Definition of a record kind: its file's name and its columns in order. One table entry per column serves schema,
//! writer and reader.

use crate::field::{Cell, Json};
use crate::names::{Names, Vocabulary};
use crate::{Instant, NameId};

/// A record kind with files: implemented only by the record types of [`crate::event`].
pub trait Kind: Copy + 'static {
    /// The file's name without `.parquet`.
    const NAME: &'static str;
    /// Its description, in Markdown.
    const ABOUT: &'static str;
    /// A record to fill in, column by column.
    const BLANK: Self;
    /// When it happened.
    fn time(&self) -> Instant;
    /// The ID of its path, ends or program, for kinds that have one.
    fn name_mut(&mut self) -> Option<&mut NameId> {
        None
    }
    /// The columns in file order, without `host`, which all kinds have.
    fn columns() -> Vec<Column<Self>>;
}

/// A record and the host that wrote it. Path IDs in the record refer to the same [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<T> {
    /// The host's name ID in the file.
    pub host: NameId,
    /// The record.
    pub record: T,
}

/// Typical pattern of an integer column, which determines its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// Grows in small steps: delta-encoded.
    Grows,
    /// Few distinct values: dictionary-encoded.
    Repeats,
    /// Neither.
    Varies,
}

/// Writes the number or code of each row; `None` if the file has too many names.
pub(crate) type Get<T> = fn(&[Row<T>], &mut Names, &mut [u64]) -> Option<()>;

/// One column of a kind's file.
pub struct Column<T> {
    /// Its name: snake case, unit last.
    pub(crate) name: &'static str,
    /// Its description, in Markdown.
    pub(crate) about: &'static str,
    /// Its type.
    pub(crate) cell: Cell,
    /// Its value pattern.
    pub(crate) habit: Habit,
    /// Whether it is a time, on the clock of the host that wrote it.
    pub(crate) is_time: bool,
    /// Whether files of earlier versions may lack it; it then reads as in a blank record.
    pub(crate) may_lack: bool,
    /// Its JSON type.
    pub(crate) json: Option<Json>,
    /// Whether it may be `null` in JSON.
    pub(crate) may_be_null: bool,
    /// Gets its values from rows.
    pub(crate) get: Get<T>,
    /// Sets a row's field from a valid number, or from a code of the file's names.
    pub(crate) set: fn(&mut Row<T>, u64, &Names),
}

/// The host codes of rows.
pub(crate) fn hosts<T>(rows: &[Row<T>], _: &mut Names, codes: &mut [u64]) -> Option<()> {
    for (code, row) in codes.iter_mut().zip(rows) {
        *code = row.host.0.into();
    }
    Some(())
}

impl<T> Column<T> {
    /// The number or code for a row; `None` if the file has too many names.
    pub(crate) fn of(&self, row: &Row<T>, names: &mut Names) -> Option<u64> {
        let mut code = [0];
        (self.get)(std::slice::from_ref(row), names, &mut code)?;
        Some(code[0])
    }
}

/// The name of a field's column.
macro_rules! name_of_column {
    ($field:ident: $type:ty) => {
        if <$type as $crate::field::Field>::IS_TIME {
            concat!(stringify!($field), "_ns")
        } else {
            stringify!($field)
        }
    };
}

pub(crate) use name_of_column;

/// The columns of a kind with `host` first.
pub(crate) fn all_columns<T: Kind>() -> Vec<Column<T>> {
    let host = Column {
        name: "host",
        about: " The program's host, as `--host` or the plan names it.",
        cell: Cell::Text(Vocabulary::Word),
        habit: Habit::Repeats,
        is_time: false,
        may_lack: false,
        json: None,
        may_be_null: false,
        get: hosts,
        set: |row, code, _| row.host = NameId(code as u16),
    };
    std::iter::once(host).chain(T::columns()).collect()
}
