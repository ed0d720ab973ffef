//! Values: their notation, and the rules of negotiation (RFC 7143 §6.1, §6.2).

use core::fmt;

use super::table::Rule;
use crate::text::MAX_VALUE_BYTES;

/// The answers that reject a key or a value (RFC 7143 §6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The key is unknown.
    NotUnderstood,
    /// The key does not apply to this session or stage.
    Irrelevant,
    /// The value, or the key in this state, is not acceptable.
    Reject,
}

impl Refusal {
    /// Parses a refusal; `None` when `text` is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Refusal::NotUnderstood, Refusal::Irrelevant, Refusal::Reject]
            .into_iter()
            .find(|refusal| refusal.text() == text)
    }

    /// Its text.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Refusal::NotUnderstood => "NotUnderstood",
            Refusal::Irrelevant => "Irrelevant",
            Refusal::Reject => "Reject",
        }
    }
}

/// A value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Yes or No.
    Boolean(bool),
    /// A number.
    Number(u32),
    /// A list of values in the table, in order of preference. A result has exactly one, a preference none or more: a
    /// value not in the table can never be chosen and is left out.
    List(Vec<&'static str>),
    /// A name or free text.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(true) => f.write_str("Yes"),
            Value::Boolean(false) => f.write_str("No"),
            Value::Number(number) => write!(f, "{number}"),
            Value::List(values) => f.write_str(&values.join(",")),
            Value::Text(text) => f.write_str(text),
        }
    }
}

impl Rule {
    /// Parses a value under this rule. `None` when it is malformed, out of range, or longer than the standard allows.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<Value> {
        let one_value = !matches!(self, Rule::List { .. });
        if one_value && text.len() > MAX_VALUE_BYTES {
            return None;
        }
        match self {
            Rule::Or { .. } | Rule::And { .. } => match text {
                "Yes" => Some(Value::Boolean(true)),
                "No" => Some(Value::Boolean(false)),
                _ => None,
            },
            Rule::Minimum { range, .. }
            | Rule::Maximum { range, .. }
            | Rule::DeclaredNumber { range, .. } => number(text)
                .filter(|&number| range.contains(number))
                .map(Value::Number),
            Rule::List { values, .. } => {
                let mut known = Vec::new();
                for element in text.split(',') {
                    if element.is_empty() || element.len() > MAX_VALUE_BYTES {
                        return None;
                    }
                    let value = values.iter().find(|&&value| value == element);
                    known.extend(value.filter(|value| !known.contains(*value)));
                }
                Some(Value::List(known))
            }
            Rule::DeclaredWord { values, .. } => {
                values.contains(&text).then(|| Value::Text(text.to_owned()))
            }
            Rule::DeclaredName => is_name(text).then(|| Value::Text(text.to_owned())),
            Rule::DeclaredText => Some(Value::Text(text.to_owned())),
            Rule::Exchange { .. } | Rule::Question | Rule::Obsolete => None,
        }
    }

    /// The value in force when neither end sends the key.
    #[must_use]
    pub fn default(&self) -> Option<Value> {
        match *self {
            Rule::Or { default } | Rule::And { default } => Some(Value::Boolean(default)),
            Rule::Minimum { default, .. } | Rule::Maximum { default, .. } => {
                Some(Value::Number(default))
            }
            Rule::List { default, .. } => Some(Value::List(vec![default])),
            Rule::DeclaredNumber { default, .. } => default.map(Value::Number),
            Rule::DeclaredWord { default, .. } => Some(Value::Text(default.to_owned())),
            Rule::DeclaredName
            | Rule::DeclaredText
            | Rule::Exchange { .. }
            | Rule::Question
            | Rule::Obsolete => None,
        }
    }

    /// The result of `offer` for a responder with preference `wish`. `None` when the two have nothing in common, or
    /// when the rule is not one of negotiation.
    #[must_use]
    pub fn result(&self, offer: &Value, wish: &Value) -> Option<Value> {
        match (self, offer, wish) {
            (Rule::Or { .. }, Value::Boolean(a), Value::Boolean(b)) => Some(Value::Boolean(a | b)),
            (Rule::And { .. }, Value::Boolean(a), Value::Boolean(b)) => Some(Value::Boolean(a & b)),
            (Rule::Minimum { .. }, Value::Number(a), Value::Number(b)) => {
                Some(Value::Number(*a.min(b)))
            }
            (Rule::Maximum { .. }, Value::Number(a), Value::Number(b)) => {
                Some(Value::Number(*a.max(b)))
            }
            (Rule::List { .. }, Value::List(offer), Value::List(wish)) => offer
                .iter()
                .find(|value| wish.contains(value))
                .map(|value| Value::List(vec![value])),
            _ => None,
        }
    }

    /// Whether `result` can be the outcome of a negotiation in which one end offered `wish`.
    #[must_use]
    pub fn admits(&self, wish: &Value, result: &Value) -> bool {
        match (self, wish, result) {
            (Rule::Or { .. }, Value::Boolean(wish), Value::Boolean(result)) => *result || !wish,
            (Rule::And { .. }, Value::Boolean(wish), Value::Boolean(result)) => *wish || !result,
            (Rule::Minimum { .. }, Value::Number(wish), Value::Number(result)) => result <= wish,
            (Rule::Maximum { .. }, Value::Number(wish), Value::Number(result)) => result >= wish,
            (Rule::List { .. }, Value::List(wish), Value::List(result)) => {
                matches!(result.as_slice(), [one] if wish.contains(one))
            }
            _ => false,
        }
    }
}

/// Whether `text` can be a node name at all: 1 to 223 bytes without blanks (RFC 7143 §4.2.7.1). The type prefix is not
/// required, so that an unknown name is answered as not found.
fn is_name(text: &str) -> bool {
    let sound = !text.chars().any(|c| c.is_whitespace() || c.is_control());
    (1..=223).contains(&text.len()) && sound
}

/// Parses a decimal or hexadecimal numerical value, or one in base64 (RFC 7143 §6.1).
///
/// The standard reserves base64 for binary values; as a number it is read in network byte order.
#[must_use]
pub fn number(text: &str) -> Option<u32> {
    let digits = |text: &str, radix| {
        // `from_str_radix` would accept a sign.
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        plain
            .then(|| u32::from_str_radix(text, radix).ok())
            .flatten()
    };
    match text.get(..2) {
        Some("0x" | "0X") => digits(&text[2..], 16),
        Some("0b" | "0B") => binary(text)?.iter().try_fold(0_u32, |number, &byte| {
            number
                .checked_mul(256)
                .map(|number| number + u32::from(byte))
        }),
        _ => digits(text, 10),
    }
}

/// Parses a binary value: `0x` and hexadecimal digits, or `0b` and base64 (RFC 7143 §6.1). `None` when it is neither,
/// or is empty.
#[must_use]
pub fn binary(text: &str) -> Option<Vec<u8>> {
    let bytes = match text.get(..2)? {
        "0x" | "0X" => hexadecimal(&text.as_bytes()[2..])?,
        "0b" | "0B" => base64(&text.as_bytes()[2..])?,
        _ => return None,
    };
    (!bytes.is_empty()).then_some(bytes)
}

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    // With an odd number of digits a leading zero is omitted.
    let (first, pairs) = digits.split_at(digits.len() % 2);
    let mut bytes = first
        .iter()
        .map(|&digit| nibble(digit))
        .collect::<Option<Vec<_>>>()?;
    for pair in pairs.chunks_exact(2) {
        bytes.push(nibble(pair[0])? << 4 | nibble(pair[1])?);
    }
    Some(bytes)
}

/// Base64 of RFC 4648 with its padding.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let sextet = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text
        .iter()
        .rev()
        .take_while(|&&letter| letter == b'=')
        .count();
    if padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for quantum in text[..text.len() - padding].chunks(4) {
        let mut bits = 0_u32;
        for &letter in quantum {
            bits = bits << 6 | u32::from(sextet(letter)?);
        }
        bits <<= 6 * (4 - quantum.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..quantum.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::table::{KeyName, TABLE};
    use super::*;
    use proptest::prelude::*;

    fn rule(name: KeyName) -> Rule {
        name.key().rule
    }

    #[test]
    fn numbers_in_all_their_forms() {
        let burst = rule(KeyName::MaxBurstLength);
        for text in ["262144", "0x40000", "0X40000", "0x0040000", "0bBAAA"] {
            assert_eq!(burst.parse(text), Some(Value::Number(262_144)), "{text}");
        }
        for text in [
            "",
            "511",
            "16777216",
            "4294967296",
            "-1",
            "+1024",
            "1e5",
            "0x",
            "0xg",
            "1 2",
        ] {
            assert_eq!(burst.parse(text), None, "{text}");
        }
    }

    #[test]
    fn values_have_at_most_255_bytes() {
        let long = format!("0x{:0>253}", 1);
        assert_eq!(
            rule(KeyName::MaxConnections).parse(&long),
            Some(Value::Number(1))
        );
        assert_eq!(
            rule(KeyName::MaxConnections).parse(&format!("{long}0")),
            None
        );
        assert!(
            rule(KeyName::InitiatorAlias)
                .parse(&"a".repeat(255))
                .is_some()
        );
        assert!(
            rule(KeyName::InitiatorAlias)
                .parse(&"a".repeat(256))
                .is_none()
        );
        let list = format!("{},None", "Y".repeat(255));
        assert_eq!(
            rule(KeyName::DataDigest).parse(&list),
            Some(Value::List(vec!["None"]))
        );
        assert_eq!(rule(KeyName::DataDigest).parse(&format!("Y{list}")), None);
    }

    #[test]
    fn booleans_and_lists() {
        let r2t = rule(KeyName::InitialR2T);
        assert_eq!(r2t.parse("Yes"), Some(Value::Boolean(true)));
        assert_eq!(r2t.parse("yes"), None);
        let digest = rule(KeyName::HeaderDigest);
        assert_eq!(
            digest.parse("CRC32C,None"),
            Some(Value::List(vec!["CRC32C", "None"]))
        );
        assert_eq!(
            digest.parse("Y-x,None,None"),
            Some(Value::List(vec!["None"]))
        );
        assert_eq!(digest.parse("Y-x"), Some(Value::List(vec![])));
        assert_eq!(digest.parse("None,"), None);
        assert_eq!(digest.parse(""), None);
    }

    #[test]
    fn binary_values() {
        assert_eq!(binary("0x0a1b"), Some(vec![0x0a, 0x1b]));
        assert_eq!(binary("0xa1b"), Some(vec![0x0a, 0x1b]));
        assert_eq!(binary("0bZm9vYmFy"), Some(b"foobar".to_vec()));
        assert_eq!(binary("0bZm9vYg=="), Some(b"foob".to_vec()));
        assert_eq!(binary("0bZm9vYmE="), Some(b"fooba".to_vec()));
        for text in [
            "", "0x", "0b", "12", "0xzz", "0bZm9", "0bZ===", "0b====", "0bZ=9v",
        ] {
            assert_eq!(binary(text), None, "{text}");
        }
    }

    /// Any value that the rule accepts as a preference.
    fn wish(rule: Rule) -> BoxedStrategy<Value> {
        match rule {
            Rule::Or { .. } | Rule::And { .. } => any::<bool>().prop_map(Value::Boolean).boxed(),
            Rule::Minimum { range, .. } | Rule::Maximum { range, .. } => {
                (range.min..=range.max).prop_map(Value::Number).boxed()
            }
            Rule::List { values, .. } => {
                proptest::sample::subsequence(values.to_vec(), 1..=values.len())
                    .prop_shuffle()
                    .prop_map(Value::List)
                    .boxed()
            }
            _ => unreachable!("only negotiated keys are asked for"),
        }
    }

    fn negotiated() -> impl Strategy<Value = (Rule, Value, Value)> {
        let rules: Vec<Rule> = TABLE
            .iter()
            .filter(|key| key.is_negotiated())
            .map(|key| key.rule)
            .collect();
        proptest::sample::select(rules).prop_flat_map(|rule| (Just(rule), wish(rule), wish(rule)))
    }

    proptest! {
        #[test]
        fn a_result_suits_both_ends((rule, offer, wish) in negotiated()) {
            if let Some(result) = rule.result(&offer, &wish) {
                prop_assert!(rule.admits(&offer, &result), "{:?} {:?}", offer, result);
                prop_assert!(rule.admits(&wish, &result));
                prop_assert_eq!(rule.parse(&result.to_string()), Some(result));
            } else {
                prop_assert!(matches!(rule, Rule::List { .. }), "only lists have nothing in common");
            }
        }

        #[test]
        fn who_asks_first_matters_for_lists_only((rule, offer, wish) in negotiated()) {
            if !matches!(rule, Rule::List { .. }) {
                prop_assert_eq!(rule.result(&offer, &wish), rule.result(&wish, &offer));
            }
        }

        #[test]
        fn what_is_written_is_read_again((rule, offer, _) in negotiated()) {
            prop_assert_eq!(rule.parse(&offer.to_string()), Some(offer));
        }

        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,40}") {
            for key in &TABLE {
                let _ = key.rule.parse(&text);
            }
            let _ = binary(&text);
            let _ = binary(&format!("0x{text}"));
            let _ = binary(&format!("0b{text}"));
        }
    }
}
