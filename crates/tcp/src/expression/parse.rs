//! Parses expressions, and reports where one is invalid.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use wansan_mistake::near;

use super::{Bound, End, Expression};

/// Most terms of an expression: the kernel's filter program stays far below its limit.
const MOST_TERMS: usize = 256;

/// Maximum nesting of parentheses and `not`.
const MOST_DEPTH: usize = 64;

/// Characters of a long expression shown on either side of an error.
const SHOWN: usize = 60;

/// Words that can start a term, and those that can stand between two.
const TERMS: [&str; 5] = ["src", "dst", "sport", "dport", "not"];
const JOINTS: [&str; 2] = ["and", "or"];

/// An invalid expression, and the position of the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a filter expression: at character {position}, {wanted}{}",
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
)]
pub struct ExpressionError {
    /// The expression; of a long one, the text around the error.
    pub text: String,
    /// The position of the error in characters, from 1.
    pub position: usize,
    /// What is expected there.
    pub wanted: Wanted,
    /// The keyword closest to the text there, if one is close.
    pub near: Option<&'static str>,
}

/// What is expected at a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A term.
    Term,
    /// An address, with or without a prefix and a port.
    Address,
    /// A port.
    Port,
    /// A prefix that fits the address.
    Prefix {
        /// The maximum length.
        most_bits: u8,
    },
    /// One of `=` and `!=`: addresses have no order.
    Equality,
    /// A closing parenthesis.
    Closing,
    /// End of the expression.
    Nothing,
    /// Fewer terms, or less nesting.
    Shorter,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Term => f.write_str("expected src, dst, sport, dport, not or '('"),
            Wanted::Address => f.write_str(
                "expected an address such as 10.0.0.0/8, 10.0.0.1:3260 or [fd00::1]:3260",
            ),
            Wanted::Port => f.write_str("expected a port from 0 to 65535"),
            Wanted::Prefix { most_bits } => {
                write!(f, "expected a prefix length from 0 to {most_bits}")
            }
            Wanted::Equality => f.write_str("expected = or !=: addresses have no order"),
            Wanted::Closing => f.write_str("a ')' is missing"),
            Wanted::Nothing => f.write_str("expected the end of the expression"),
            Wanted::Shorter => write!(
                f,
                "it is longer than {MOST_TERMS} terms or {MOST_DEPTH} levels of parentheses"
            ),
        }
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Expression, ExpressionError> {
        let mut parser = Parser {
            tokens: tokens(text),
            place: 0,
            end: text.chars().count() + 1,
            terms: 0,
        };
        parser
            .whole()
            .map_err(|(position, wanted)| ExpressionError {
                text: around(text, position),
                position,
                near: parser.near(position, &wanted),
                wanted,
            })
    }
}

/// A short text in full; of a long one, the text around a position.
fn around(text: &str, position: usize) -> String {
    let shown = position.saturating_sub(SHOWN)..position + SHOWN;
    let mut kept: String = text.chars().skip(shown.start).take(shown.len()).collect();
    if shown.start > 0 {
        kept.insert(0, '…');
    }
    if text.chars().nth(shown.end).is_some() {
        kept.push('…');
    }
    kept
}

/// A word or operator, and its position in characters, from 1.
struct Token<'t> {
    text: &'t str,
    position: usize,
}

/// Operators that end a word; longer ones first.
const SIGNS: [&str; 13] = [
    "==", "!=", "<=", ">=", "&&", "||", "=", "<", ">", "!", "&", "|", "(",
];

fn is_sign(token: &str) -> bool {
    token == ")" || SIGNS.contains(&token)
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let sign = |rest: &str| {
        let mut signs = SIGNS.iter().chain(&[")"]);
        signs.find(|sign| rest.starts_with(**sign)).map(|s| s.len())
    };
    let mut found = Vec::new();
    let mut position = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if let Some(length) = sign(rest) {
            length
        } else {
            let ends = |(at, c): (usize, char)| {
                (c.is_whitespace() || sign(&rest[at..]).is_some()).then_some(at)
            };
            rest.char_indices().find_map(ends).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(length);
        if !first.is_whitespace() {
            found.push(Token {
                text: token,
                position,
            });
        }
        position += token.chars().count();
        rest = after;
    }
    found
}

type Stop = (usize, Wanted);

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    place: usize,
    /// The position after the last character.
    end: usize,
    terms: usize,
}

impl<'t> Parser<'t> {
    fn whole(&mut self) -> Result<Expression, Stop> {
        let expression = self.any(0)?;
        match self.peek() {
            None => Ok(expression),
            Some(_) => Err((self.position(), Wanted::Nothing)),
        }
    }

    fn peek(&self) -> Option<&'t str> {
        self.tokens.get(self.place).map(|token| token.text)
    }

    fn position(&self) -> usize {
        let token = self.tokens.get(self.place);
        token.map_or(self.end, |token| token.position)
    }

    /// The keyword that is valid at a position and closest to the text there, where a term is expected.
    fn near(&self, position: usize, wanted: &Wanted) -> Option<&'static str> {
        let place = self.tokens.iter().position(|t| t.position == position);
        let place = place.filter(|_| *wanted == Wanted::Term)?;
        let before = place.checked_sub(1).map(|before| self.tokens[before].text);
        let follows_a_term =
            before.is_some_and(|b| !JOINTS.contains(&b) && b != "not" && !is_sign(b));
        let may_join = before == Some(")") || follows_a_term;
        let joints = if may_join { &JOINTS[..] } else { &[] };
        near(self.tokens[place].text, &[&TERMS[..], joints].concat())
    }

    fn next_is(&mut self, texts: &[&str]) -> bool {
        let found = self.peek().is_some_and(|text| texts.contains(&text));
        self.place += usize::from(found);
        found
    }

    fn any(&mut self, depth: usize) -> Result<Expression, Stop> {
        let mut either = self.all(depth)?;
        while self.next_is(&["or", "|", "||"]) {
            either = either.or(self.all(depth)?);
        }
        Ok(either)
    }

    fn all(&mut self, depth: usize) -> Result<Expression, Stop> {
        let mut both = self.term(depth)?;
        loop {
            let joined = self.next_is(&["and", "&", "&&"]);
            let ended = matches!(self.peek(), None | Some(")" | "or" | "|" | "||"));
            if !joined && ended {
                return Ok(both);
            }
            both = both.and(self.term(depth)?);
        }
    }

    fn term(&mut self, depth: usize) -> Result<Expression, Stop> {
        let position = self.position();
        self.terms += 1;
        if depth > MOST_DEPTH || self.terms > MOST_TERMS {
            return Err((position, Wanted::Shorter));
        }
        if self.next_is(&["not", "!"]) {
            return Ok(Expression::Not(Box::new(self.term(depth + 1)?)));
        }
        if self.next_is(&["("]) {
            let inner = self.any(depth + 1)?;
            return match self.next_is(&[")"]) {
                true => Ok(inner),
                false => Err((self.position(), Wanted::Closing)),
            };
        }
        for (word, end) in [("src", End::Local), ("dst", End::Remote)] {
            if self.next_is(&[word]) {
                return self.address(end);
            }
        }
        for (word, end) in [("sport", End::Local), ("dport", End::Remote)] {
            if self.next_is(&[word]) {
                return self.port(end);
            }
        }
        Err((position, Wanted::Term))
    }

    fn port(&mut self, end: End) -> Result<Expression, Stop> {
        let found = Compare::ALL.iter().find(|(words, _)| self.next_is(words));
        // As in ss, a port without operator means equality.
        let compare = found.map_or(Compare::Equal, |(_, compare)| *compare);
        let position = self.position();
        let text = self.peek().ok_or((position, Wanted::Port))?;
        let port = port_number(text.strip_prefix(':').unwrap_or(text));
        let port = port.ok_or((position, Wanted::Port))?;
        self.place += 1;
        let within = |bound| Expression::Port { end, bound, port };
        let not = |expression| Expression::Not(Box::new(expression));
        Ok(match compare {
            Compare::Equal => Expression::port_is(end, port),
            Compare::Unequal => not(Expression::port_is(end, port)),
            Compare::AtLeast => within(Bound::AtLeast),
            Compare::AtMost => within(Bound::AtMost),
            Compare::Above => not(within(Bound::AtMost)),
            Compare::Below => not(within(Bound::AtLeast)),
        })
    }

    fn address(&mut self, end: End) -> Result<Expression, Stop> {
        let unequal = self.next_is(&["!=", "ne", "neq"]);
        if !unequal && !self.next_is(&["=", "==", "eq"]) {
            let ordered = ["<", ">", "<=", ">=", "lt", "gt", "le", "ge", "leq", "geq"];
            if self.peek().is_some_and(|text| ordered.contains(&text)) {
                return Err((self.position(), Wanted::Equality));
            }
        }
        let position = self.position();
        let text = self.peek().ok_or((position, Wanted::Address))?;
        let meant = ends(text, end).map_err(|wanted| (position, wanted))?;
        self.place += 1;
        Ok(if unequal {
            Expression::Not(Box::new(meant))
        } else {
            meant
        })
    }
}

/// A comparison with a port.
#[derive(Clone, Copy)]
enum Compare {
    Equal,
    Unequal,
    AtLeast,
    AtMost,
    Above,
    Below,
}

impl Compare {
    /// The spellings of each.
    const ALL: [(&'static [&'static str], Compare); 6] = [
        (&["=", "==", "eq"], Compare::Equal),
        (&["!=", "ne", "neq"], Compare::Unequal),
        (&[">=", "ge", "geq"], Compare::AtLeast),
        (&["<=", "le", "leq"], Compare::AtMost),
        (&[">", "gt"], Compare::Above),
        (&["<", "lt"], Compare::Below),
    ];
}

/// Digits only: a port has no sign.
fn port_number(text: &str) -> Option<u16> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(())?;
    text.parse().ok()
}

/// `ADDRESS[/PREFIX][:PORT]`, where `*` is any address.
fn ends(text: &str, end: End) -> Result<Expression, Wanted> {
    let (address, port) = split_port(text);
    let port = match port {
        Some(port) => Some(port_number(port).ok_or(Wanted::Port)?),
        None => None,
    };
    let of_port = port.map(|port| Expression::port_is(end, port));
    if address.is_empty() || address == "*" {
        // Any address of any family: every port is at least 0.
        let any = Expression::Port {
            end,
            bound: Bound::AtLeast,
            port: 0,
        };
        return match of_port {
            None if address.is_empty() => Err(Wanted::Address),
            None => Ok(any),
            Some(of_port) => Ok(of_port),
        };
    }
    let (address, prefix) = match address.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (address, None),
    };
    let inner = address.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
    let address: IpAddr = inner
        .unwrap_or(address)
        .parse()
        .map_err(|_| Wanted::Address)?;
    let most_bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix_bits = match prefix {
        None => most_bits,
        Some(prefix) => port_number(prefix)
            .and_then(|bits| u8::try_from(bits).ok())
            .filter(|bits| *bits <= most_bits)
            .ok_or(Wanted::Prefix { most_bits })?,
    };
    let of_address = Expression::Address {
        end,
        address,
        prefix_bits,
    };
    Ok(match of_port {
        Some(of_port) => of_address.and(of_port),
        None => of_address,
    })
}

/// The part before a port, and the port. IPv6 addresses contain colons, so a port can follow one only after brackets.
fn split_port(text: &str) -> (&str, Option<&str>) {
    let before = match text.rsplit_once(':') {
        Some((before, port)) => (before, port),
        None => return (text, None),
    };
    let (address, port) = before;
    let bracketed = address.contains(']');
    let plain = address.is_empty()
        || address == "*"
        || address
            .split('/')
            .next()
            .is_some_and(|a| a.parse::<Ipv4Addr>().is_ok() || !a.contains(':'));
    if bracketed || plain {
        (address, Some(port))
    } else {
        (text, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (usize, Wanted) {
        let error = text.parse::<Expression>().unwrap_err();
        assert!(!error.to_string().contains('\n'), "{error}");
        (error.position, error.wanted)
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, expected) in [
            ("", (1, Wanted::Term)),
            ("dst", (4, Wanted::Address)),
            ("dst 10.0.0.256", (5, Wanted::Address)),
            ("dst 10.0.0.0/33", (5, Wanted::Prefix { most_bits: 32 })),
            ("dst fd00::/129", (5, Wanted::Prefix { most_bits: 128 })),
            ("dst > 10.0.0.0", (5, Wanted::Equality)),
            ("dport = http", (9, Wanted::Port)),
            ("dport = 65536", (9, Wanted::Port)),
            ("dport = +1", (9, Wanted::Port)),
            ("sport = 1 and", (14, Wanted::Term)),
            ("( sport = 1", (12, Wanted::Closing)),
            ("sport = 1 )", (11, Wanted::Nothing)),
            ("sport = 1 or or", (14, Wanted::Term)),
            ("sport = 1 state", (11, Wanted::Term)),
            ("src :", (5, Wanted::Port)),
            ("ä sport = 1", (1, Wanted::Term)),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
        let deep = "(".repeat(100_000);
        assert_eq!(refused(&deep).1, Wanted::Shorter);
        let long = "sport 1 ".repeat(1000);
        assert_eq!(refused(&long).1, Wanted::Shorter);
    }

    #[test]
    fn the_nearest_word_is_named_that_may_stand_there() {
        for (text, expected) in [
            ("dprt = 3260", Some("dport")),
            ("dest 10.0.0.1", Some("dst")),
            ("sport = 1 nad dport = 2", Some("and")),
            ("( sport = 1 ) o dport = 2", Some("or")),
            ("sport = 1 and dpor = 2", Some("dport")),
            ("anb dport = 2", None),
            ("http = 2", None),
            ("sport = 1 state", None),
            ("dport = http", None),
            ("sport = 1 and", None),
        ] {
            let error = text.parse::<Expression>().unwrap_err();
            assert_eq!(error.near, expected, "{text}: {error}");
            let told = expected.map_or(String::new(), |near| format!("did you mean `{near}`?"));
            assert!(error.to_string().ends_with(&told), "{error}");
        }
    }

    #[test]
    fn of_a_long_expression_the_place_of_the_mistake_is_shown() {
        let long = "sport 1 and ".repeat(200) + "dprt 2 " + &"and sport 1 ".repeat(20);
        let error = long.parse::<Expression>().unwrap_err();
        assert_eq!(error.position, 2401);
        assert!(error.text.contains("and dprt 2 and"), "{error}");
        assert!(error.text.starts_with('…') && error.text.ends_with('…'));
        let word = "ä".repeat(10_000).parse::<Expression>().unwrap_err();
        for told in [error.to_string(), word.to_string()] {
            assert!(told.chars().count() < 300, "{told}");
        }
    }

    #[test]
    fn whatever_is_given_never_panics() {
        use proptest::prelude::*;
        let words = prop::sample::select(vec![
            "src", "dst", "sport", "dport", "and", "or", "not", "!", "(", ")", "=", "!=", "<",
            "10.0.0.1", "[::1]:5", "::/0", "*", ":9", "7", "/", "]:", "x",
        ]);
        let texts = prop::collection::vec((words, any::<bool>()), 0..20);
        proptest!(|(texts in texts, odd in ".{0,8}")| {
            let text: String = texts
                .iter()
                .map(|(word, apart)| if *apart { format!("{word} ") } else { (*word).to_owned() })
                .collect();
            let _ = text.parse::<Expression>();
            let _ = format!("{text}{odd}").parse::<Expression>();
        });
    }
}
