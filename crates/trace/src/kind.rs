//! What a record kind is: its file's name, its columns and their order. One table entry of a column serves
//! schema, writer and reader.

use crate::field::{Cell, Json};
use crate::names::{Names, Vocabulary};
use crate::{Instant, NameId};

/// A record kind that has files: the record types of [`crate::event`], and no others.
pub trait Kind: Copy + 'static {
    /// The file's name without `.parquet`.
    const NAME: &'static str;
    /// What a record is, in Markdown.
    const ABOUT: &'static str;
    /// A record to fill, column by column.
    const BLANK: Self;
    /// When it happened.
    fn time(&self) -> Instant;
    /// The id of its path, its ends or its program, for kinds that have one.
    fn name_mut(&mut self) -> Option<&mut NameId> {
        None
    }
    /// The columns in file order, without `host`, which all kinds have.
    fn columns() -> Vec<Column<Self>>;
}

/// A record and the host that wrote it. Ids of paths in the record are of the same [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<T> {
    /// The host, by its name in the file.
    pub host: NameId,
    /// The record.
    pub record: T,
}

/// How the values of an integer column usually follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// They grow in small steps: differences are stored.
    Grows,
    /// Few different ones: a dictionary is stored.
    Repeats,
    /// Neither.
    Varies,
}

/// Gives the numbers or codes that stand for rows, of as many; `None` when the file has too many names.
pub(crate) type Get<T> = fn(&[Row<T>], &mut Names, &mut [u64]) -> Option<()>;

/// One column of a kind's file.
pub struct Column<T> {
    /// Its name: snake case, unit last.
    pub(crate) name: &'static str,
    /// What it holds, in Markdown.
    pub(crate) about: &'static str,
    /// Its values.
    pub(crate) cell: Cell,
    /// How they follow each other.
    pub(crate) habit: Habit,
    /// Whether it is a moment, of the clock of the host that wrote it.
    pub(crate) is_time: bool,
    /// Whether files of earlier versions lack it; there it reads as in a blank record.
    pub(crate) may_lack: bool,
    /// What its field is in JSON.
    pub(crate) json: Option<Json>,
    /// Whether that may be `null`.
    pub(crate) may_be_null: bool,
    /// What stands for rows.
    pub(crate) get: Get<T>,
    /// Takes a number that fits, or a code of the file's names, into a row.
    pub(crate) set: fn(&mut Row<T>, u64, &Names),
}

/// The codes of the hosts of rows.
pub(crate) fn hosts<T>(rows: &[Row<T>], _: &mut Names, codes: &mut [u64]) -> Option<()> {
    for (code, row) in codes.iter_mut().zip(rows) {
        *code = row.host.0.into();
    }
    Some(())
}

impl<T> Column<T> {
    /// The number or code that stands for a row; `None` when the file has too many names.
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
