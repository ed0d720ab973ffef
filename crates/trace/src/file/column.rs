//! What a column is: one table entry serves schema, writer and reader.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::Row;
use crate::NameId;
use crate::field::Json;

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

    pub(crate) fn intern_address(&mut self, address: SocketAddr) -> Option<u16> {
        if let Some(&id) = self.address_ids.get(&address) {
            return Some(id);
        }
        let id = u16::try_from(self.addresses.len()).ok()?;
        self.addresses.push(address);
        self.address_ids.insert(address, id);
        Some(id)
    }

    /// The address with that code.
    pub(crate) fn address(&self, code: u16) -> SocketAddr {
        self.addresses[usize::from(code)]
    }
}

/// Where the strings of a column come from. In memory a string is a code of 16 bits.
#[derive(Debug, Clone, Copy)]
pub enum Vocabulary {
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
pub enum Habit {
    /// They grow in small steps: differences are stored.
    Grows,
    /// Few different ones: a dictionary is stored.
    Repeats,
    /// Neither.
    Varies,
}

/// What a column holds.
#[derive(Debug, Clone, Copy)]
pub enum Cell {
    /// 64 bits; `u64::MAX` stands as −1 in the file.
    Int64,
    /// An unsigned integer of so many bits: 8, 16 or 32.
    Uint(i8),
    /// A string, dictionary-encoded.
    Text(Vocabulary),
}

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
    /// Whether files of earlier versions lack it; there it reads as in a blank record.
    pub(crate) may_lack: bool,
    /// What its field is in JSON.
    pub(crate) json: Option<Json>,
    /// Whether that may be `null`.
    pub(crate) may_be_null: bool,
    /// The number or code that stands for a row; `None` when the file has too many names.
    pub(crate) get: fn(&Row<T>, &mut Names) -> Option<u64>,
    /// Takes a number that fits, or a code of the file's names, into a row.
    pub(crate) set: fn(&mut Row<T>, u64, &Names),
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
