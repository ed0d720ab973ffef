//! What a column is: one table entry serves schema, writer and reader.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::Row;
use crate::NameId;

/// The words that string columns of one file use, each kept once.
#[derive(Debug, Clone, Default)]
pub struct Names {
    words: Vec<String>,
    word_ids: HashMap<String, u16>,
    addresses: Vec<SocketAddr>,
    address_ids: HashMap<SocketAddr, u16>,
}

impl Names {
    /// The host or path with that id; empty when there is none.
    #[must_use]
    pub fn get(&self, id: NameId) -> &str {
        self.words.get(usize::from(id.0)).map_or("", String::as_str)
    }

    /// The id of a host or path, if it occurs.
    #[must_use]
    pub fn find(&self, word: &str) -> Option<NameId> {
        self.word_ids.get(word).copied().map(NameId)
    }

    /// The id of `word`, new or known, [`NameId::NONE`] of the empty one; `None` when 65,535 words are in use.
    pub(super) fn intern(&mut self, word: &str) -> Option<NameId> {
        if word.is_empty() {
            return Some(NameId::NONE);
        }
        if let Some(&id) = self.word_ids.get(word) {
            return Some(NameId(id));
        }
        let id = u16::try_from(self.words.len()).ok()?;
        if NameId(id) == NameId::NONE {
            return None;
        }
        self.words.push(word.to_owned());
        self.word_ids.insert(word.to_owned(), id);
        Some(NameId(id))
    }

    fn intern_address(&mut self, address: SocketAddr) -> Option<u16> {
        if let Some(&id) = self.address_ids.get(&address) {
            return Some(id);
        }
        let id = u16::try_from(self.addresses.len()).ok()?;
        self.addresses.push(address);
        self.address_ids.insert(address, id);
        Some(id)
    }
}

/// Where the strings of a column come from. In memory a string is a code of 16 bits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Vocabulary {
    /// One of these; the code is the place.
    Fixed(&'static [&'static str]),
    /// A host or path; the code is its [`NameId`].
    Word,
    /// An address and port; the code is its place in the file's addresses.
    Address,
}

impl Vocabulary {
    /// The code of `text`, or `None` when the column cannot hold it.
    pub(super) fn code(self, text: &str, names: &mut Names) -> Option<u16> {
        match self {
            Vocabulary::Fixed(words) => {
                let place = words.iter().position(|word| *word == text)?;
                u16::try_from(place).ok()
            }
            Vocabulary::Word => names.intern(text).map(|id| id.0),
            Vocabulary::Address => names.intern_address(text.parse().ok()?),
        }
    }

    /// The text of `code`.
    pub(super) fn text(self, code: u16, names: &Names) -> String {
        let place = usize::from(code);
        match self {
            Vocabulary::Fixed(words) => words[place].to_owned(),
            Vocabulary::Word => names.get(NameId(code)).to_owned(),
            Vocabulary::Address => names.addresses[place].to_string(),
        }
    }
}

/// How the values of an integer column usually follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    /// They grow in small steps: differences are stored.
    Grows,
    /// Few different ones: a dictionary is stored.
    Repeats,
    /// Neither.
    Varies,
}

/// How to get a column's value from a row and back.
pub(super) enum Cells<T> {
    /// 64 bits; `u64::MAX` stands as −1 in the file.
    Int64 {
        get: fn(&T) -> u64,
        set: fn(&mut T, u64),
    },
    /// Unsigned integer of `bits` (8, 16 or 32).
    UInt {
        bits: i8,
        get: fn(&T) -> u32,
        /// Called with values below 2^bits only.
        set: fn(&mut T, u32),
    },
    /// String.
    Text {
        vocabulary: Vocabulary,
        get: fn(&Row<T>) -> u16,
        set: fn(&mut Row<T>, u16),
    },
    /// Address and port: kept in the row as it is, so it needs the file's names both ways.
    Address {
        get: fn(&T) -> SocketAddr,
        set: fn(&mut T, SocketAddr),
    },
}

/// One column of a kind's file.
pub struct Column<T> {
    /// Its name: snake case, unit last.
    pub(super) name: &'static str,
    /// Its values.
    pub(super) cells: Cells<T>,
    /// How they follow each other.
    pub(super) habit: Habit,
    /// Whether older files lack it; there it reads as in a blank record.
    pub(super) may_lack: bool,
}

impl<T> Column<T> {
    /// One that was added to its kind later: older files lack it.
    pub(super) fn added(self) -> Self {
        Column {
            may_lack: true,
            ..self
        }
    }

    pub(super) fn vocabulary(&self) -> Option<Vocabulary> {
        match self.cells {
            Cells::Text { vocabulary, .. } => Some(vocabulary),
            Cells::Address { .. } => Some(Vocabulary::Address),
            Cells::Int64 { .. } | Cells::UInt { .. } => None,
        }
    }

    /// The code of a row's string in `names`; `None` when the file has too many addresses, or when
    /// the column holds integers.
    pub(super) fn code_of(&self, row: &Row<T>, names: &mut Names) -> Option<u16> {
        match self.cells {
            Cells::Text { get, .. } => Some(get(row)),
            Cells::Address { get, .. } => names.intern_address(get(&row.record)),
            Cells::Int64 { .. } | Cells::UInt { .. } => None,
        }
    }

    /// Puts the string with that code into a row.
    pub(super) fn set_code(&self, row: &mut Row<T>, code: u16, names: &Names) {
        match self.cells {
            Cells::Text { set, .. } => set(row, code),
            Cells::Address { set, .. } => {
                set(&mut row.record, names.addresses[usize::from(code)]);
            }
            Cells::Int64 { .. } | Cells::UInt { .. } => {}
        }
    }
}

/// A 64-bit integer column.
pub(super) const fn int64<T>(
    name: &'static str,
    habit: Habit,
    get: fn(&T) -> u64,
    set: fn(&mut T, u64),
) -> Column<T> {
    Column {
        name,
        cells: Cells::Int64 { get, set },
        habit,
        may_lack: false,
    }
}

/// An unsigned integer column of at most 32 bits.
pub(super) const fn uint<T>(
    name: &'static str,
    bits: i8,
    habit: Habit,
    get: fn(&T) -> u32,
    set: fn(&mut T, u32),
) -> Column<T> {
    Column {
        name,
        cells: Cells::UInt { bits, get, set },
        habit,
        may_lack: false,
    }
}

/// A string column.
pub(super) const fn text<T>(
    name: &'static str,
    vocabulary: Vocabulary,
    get: fn(&Row<T>) -> u16,
    set: fn(&mut Row<T>, u16),
) -> Column<T> {
    Column {
        name,
        cells: Cells::Text {
            vocabulary,
            get,
            set,
        },
        habit: Habit::Repeats,
        may_lack: false,
    }
}

/// An address column.
pub(super) const fn address<T>(
    name: &'static str,
    get: fn(&T) -> SocketAddr,
    set: fn(&mut T, SocketAddr),
) -> Column<T> {
    Column {
        name,
        cells: Cells::Address { get, set },
        habit: Habit::Repeats,
        may_lack: false,
    }
}
