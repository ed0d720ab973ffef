//! The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.

use super::bytes::{Fields, push_counted};
use super::string::string;
use super::{InfoCode, ParseError};

/// Which export a client means, and what it wants to know of it: the data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice<'a> {
    /// Name of the export; an empty one means the default export.
    pub name: &'a str,
    /// Information requests; the server says `NBD_INFO_EXPORT` in any case.
    pub infos: Vec<InfoCode>,
}

impl<'a> Choice<'a> {
    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Length`] and [`ParseError::String`].
    pub fn parse(data: &'a [u8]) -> Result<Self, ParseError> {
        let message = "NBD_OPT_GO or NBD_OPT_INFO";
        let bytes = data.len();
        let length = ParseError::Length { message, bytes };
        let mut fields = Fields(data);
        let name = fields.counted().ok_or(length)?;
        let count = usize::from(fields.u16().ok_or(length)?);
        if fields.0.len() != 2 * count {
            return Err(length);
        }
        let mut infos = Vec::with_capacity(count);
        while let Some(info) = fields.u16() {
            infos.push(InfoCode::from_wire(info));
        }
        Ok(Choice {
            name: string(message, name)?,
            infos,
        })
    }

    /// Appends it.
    pub fn emit(&self, to: &mut Vec<u8>) {
        push_counted(to, self.name.as_bytes());
        to.extend_from_slice(&(self.infos.len() as u16).to_be_bytes());
        for info in &self.infos {
            to.extend_from_slice(&info.to_wire().to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trips(
            name in "[^\0]{0,40}",
            infos in proptest::collection::vec(0..6u16, 0..9),
        ) {
            let infos = infos.into_iter().map(InfoCode::from_wire).collect();
            let choice = Choice { name: &name, infos };
            let mut data = Vec::new();
            choice.emit(&mut data);
            prop_assert_eq!(Choice::parse(&data), Ok(choice.clone()));
            data.push(0);
            prop_assert!(Choice::parse(&data).is_err());
            data.truncate(data.len() - 2);
            prop_assert!(Choice::parse(&data).is_err());
        }
    }
}
