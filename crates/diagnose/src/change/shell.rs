//! Words in shell commands.

/// Whether text consists of the characters of iSCSI names (RFC 3722) and of kernel object names, none of which is
/// special to a shell.
pub(crate) fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-/@%+=,".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

/// Quotes text as one word.
pub(super) fn quoted(text: &str) -> String {
    match is_plain(text) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole() {
        assert_eq!(quoted("10.0.0.1:3260"), "10.0.0.1:3260");
        assert_eq!(quoted("[fd00::1]:3260"), "'[fd00::1]:3260'");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
        assert_eq!(quoted(""), "''");
    }
}
