//! Interned strings of a file's columns.

use std::net::SocketAddr;

use foldhash::HashMap;

use crate::NameId;
use crate::field::Field as _;

/// The strings used by one file's string columns, each kept once.
#[derive(Debug, Clone, Default)]
pub struct Names {
    words: Vec<String>,
    word_ids: HashMap<String, u16>,
    addresses: Vec<SocketAddr>,
    /// By their parts, which hash faster.
    address_ids: HashMap<(u64, u64, u64), u16>,
}

impl Names {
    /// Interns these words, with IDs from 0 in order.
    #[must_use]
    pub fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Names {
        let mut names = Names::default();
        for word in words {
            names.intern(word);
        }
        names
    }

    /// The host or path with that ID; empty if there is none.
    #[must_use]
    pub fn get(&self, id: NameId) -> &str {
        self.words.get(usize::from(id.0)).map_or("", String::as_str)
    }

    /// The ID of a host or path, if present.
    #[must_use]
    pub fn find(&self, word: &str) -> Option<NameId> {
        self.word_ids.get(word).copied().map(NameId)
    }

    /// The ID of `word`, new or known; [`NameId::NONE`] for the empty word; `None` if 65,535 words are in use.
    pub(crate) fn intern(&mut self, word: &str) -> Option<NameId> {
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
        let [high, low, port] = address.parts();
        if let Some(&id) = self.address_ids.get(&(high, low, port)) {
            return Some(id);
        }
        let id = u16::try_from(self.addresses.len()).ok()?;
        self.addresses.push(address);
        self.address_ids.insert((high, low, port), id);
        Some(id)
    }

    /// The address with that code.
    pub(crate) fn address(&self, code: u16) -> SocketAddr {
        self.addresses[usize::from(code)]
    }
}

/// The source of a column's strings. In memory a string is a 16-bit code.
#[derive(Debug, Clone, Copy)]
pub enum Vocabulary {
    /// One of these; the code is the index.
    Fixed(&'static [&'static str]),
    /// A host or path; the code is its [`NameId`].
    Word,
    /// An address and port; the code is its index in the file's addresses.
    Address,
}

impl Vocabulary {
    /// The code of `text`, or `None` if the column cannot hold it.
    pub(crate) fn code(self, text: &str, names: &mut Names) -> Option<u16> {
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
    pub(crate) fn text(self, code: u16, names: &Names) -> String {
        let place = usize::from(code);
        match self {
            Vocabulary::Fixed(words) => words[place].to_owned(),
            Vocabulary::Word => names.get(NameId(code)).to_owned(),
            Vocabulary::Address => names.addresses[place].to_string(),
        }
    }
}
