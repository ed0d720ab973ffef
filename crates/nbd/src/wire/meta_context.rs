//! Metadata contexts during the handshake ("Metadata querying").

use super::ParseError;
use super::bytes::{Fields, push_counted};
use super::string::string;

/// The namespace of the standard's own contexts; as a query of `NBD_OPT_LIST_META_CONTEXT` it means all of them ("The
/// `base:` metadata namespace").
pub const BASE: &str = "base:";

/// The context that says what is allocated ("`base:allocation` metadata context").
pub const BASE_ALLOCATION: &str = "base:allocation";

/// Which contexts a client means: the data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaQuery<'a> {
    /// Name of the export.
    pub export: &'a str,
    /// Names of contexts, or patterns of them.
    pub queries: Vec<&'a str>,
}

impl<'a> MetaQuery<'a> {
    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Length`] and [`ParseError::String`].
    pub fn parse(data: &'a [u8]) -> Result<Self, ParseError> {
        let message = "a query of metadata contexts";
        let bytes = data.len();
        let length = ParseError::Length { message, bytes };
        let mut fields = Fields(data);
        let export = string(message, fields.counted().ok_or(length)?)?;
        let count = fields.u32().ok_or(length)?;
        // The count is only a claim: each query takes memory when it is there.
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(string(message, fields.counted().ok_or(length)?)?);
        }
        if !fields.0.is_empty() {
            return Err(length);
        }
        Ok(MetaQuery { export, queries })
    }

    /// Appends it.
    pub fn emit(&self, to: &mut Vec<u8>) {
        push_counted(to, self.export.as_bytes());
        to.extend_from_slice(&(self.queries.len() as u32).to_be_bytes());
        for query in &self.queries {
            push_counted(to, query.as_bytes());
        }
    }
}

/// A context that a server has: the data of `NBD_REP_META_CONTEXT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaContext<'a> {
    /// What the context is called in `NBD_CMD_BLOCK_STATUS` and its replies; 0 in lists.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
}

impl<'a> MetaContext<'a> {
    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Length`] and [`ParseError::String`].
    pub fn parse(data: &'a [u8]) -> Result<Self, ParseError> {
        let message = "NBD_REP_META_CONTEXT";
        let bytes = data.len();
        let mut fields = Fields(data);
        let id = fields.u32().ok_or(ParseError::Length { message, bytes })?;
        let name = string(message, fields.0)?;
        Ok(MetaContext { id, name })
    }

    /// Appends it.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.id.to_be_bytes());
        to.extend_from_slice(self.name.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trips(
            id: u32,
            export in "[^\0]{0,40}",
            queries in proptest::collection::vec("[^\0]{0,40}", 0..5),
        ) {
            let queries = queries.iter().map(String::as_str).collect();
            let query = MetaQuery { export: &export, queries };
            let mut data = Vec::new();
            query.emit(&mut data);
            prop_assert_eq!(MetaQuery::parse(&data), Ok(query.clone()));
            data.push(0);
            prop_assert!(MetaQuery::parse(&data).is_err());
            data.truncate(data.len() - 2);
            prop_assert!(MetaQuery::parse(&data).is_err());
            let context = MetaContext { id, name: &export };
            let mut data = Vec::new();
            context.emit(&mut data);
            prop_assert_eq!(MetaContext::parse(&data), Ok(context));
        }
    }
}
