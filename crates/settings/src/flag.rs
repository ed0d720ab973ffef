//! On/off settings. Files and JSON use `true` or `false`, or in quotes the words of iSCSI and of other programs;
//! command lines use the words.

use std::fmt;

use serde::de::{self, Visitor};

/// The accepted values.
const WORDS: &str = "true or false, on or off, yes or no";

/// Parses a word, ignoring ASCII case.
pub(crate) fn read(word: &str) -> Result<bool, String> {
    let is_one_of = |known: [&str; 3]| known.iter().any(|it| word.eq_ignore_ascii_case(it));
    if is_one_of(["true", "on", "yes"]) {
        return Ok(true);
    }
    if is_one_of(["false", "off", "no"]) {
        return Ok(false);
    }
    Err(format!("`{word}` is neither on nor off: give {WORDS}"))
}

/// Converts words for the visitor of a `bool`.
pub(crate) struct OnOrOff<V>(pub(crate) V);

impl<'de, V: Visitor<'de>> Visitor<'de> for OnOrOff<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WORDS)
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<V::Value, E> {
        self.0.visit_bool(on)
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<V::Value, E> {
        self.0.visit_bool(read(word).map_err(E::custom)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::settings;

    settings! {
        #[derive(Debug)]
        struct Sides {
            /// Whether there are any
            pub flag: bool = false;
        }
    }

    #[test]
    fn files_and_json_take_the_same_words() {
        for (value, on) in [
            ("true", Some(true)),
            ("false", Some(false)),
            ("\"on\"", Some(true)),
            ("\"OFF\"", Some(false)),
            ("\"Yes\"", Some(true)),
            ("\"no\"", Some(false)),
            ("\"True\"", Some(true)),
            ("\"maybe\"", None),
            ("1", None),
        ] {
            let toml = wansan_mistake::read::<Sides>(&format!("flag = {value}"), "the file");
            let json = format!("{{\"flag\": {value}}}");
            let json = crate::read_json::<Sides>(json.as_bytes(), "the object");
            for read in [toml, json] {
                match (read, on) {
                    (Ok(sides), Some(on)) => assert_eq!(sides.flag, on, "{value}"),
                    (Err(mistake), None) => {
                        let words = "true or false, on or off, yes or no";
                        assert!(mistake.text.contains(words), "{mistake}");
                    }
                    (read, _) => panic!("{value}: {read:?}"),
                }
            }
        }
    }
}
