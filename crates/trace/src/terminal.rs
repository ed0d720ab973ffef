//! Makes text safe to print on a terminal.
//!
//! Titles, host names, iSCSI names and errors come from files, plans and peers. A control character in them could move
//! the cursor, change colours or hide output, so each is printed as an escape in Rust's syntax: `\u{1b}`.

use std::fmt::Write as _;
use std::io::{self, Write};

/// Characters with effects beyond their own cell: control characters, line terminators, and those that change text
/// direction.
fn acts(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` on one line, safe for a terminal.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if acts(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Equivalent JSON that is safe for a terminal: escapes, in its strings, what serde does not.
#[must_use]
pub fn escaped_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for letter in json.chars() {
        if acts(letter) && letter != '\n' {
            let _ = write!(shown, "\\u{:04x}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Passes on multi-line text with everything escaped except line ends.
pub struct Escaping<W>(pub W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Formatted text arrives in whole strings; in anything else, invalid UTF-8 is replaced.
        let text = String::from_utf8_lossy(bytes);
        for (place, line) in text.split('\n').enumerate() {
            if place > 0 {
                self.0.write_all(b"\n")?;
            }
            self.0.write_all(escaped(line).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        let hostile = "iqn.x\u{1b}[2J\r\u{7f}\u{9b}31m\u{202e}ü";
        assert_eq!(
            escaped(hostile),
            "iqn.x\\u{1b}[2J\\r\\u{7f}\\u{9b}31m\\u{202e}ü"
        );
        let mut out = Escaping(Vec::new());
        writeln!(out, "one\n{hostile}").unwrap();
        let printed = String::from_utf8(out.0).unwrap();
        assert_eq!(printed, format!("one\n{}\n", escaped(hostile)));

        let json = serde_json::to_string_pretty(&[hostile]).unwrap();
        let shown = escaped_json(&json);
        assert!(!shown.chars().any(|letter| acts(letter) && letter != '\n'));
        let read: Vec<String> = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, [hostile]);
    }
}
