//! What a server says of its exports during the handshake.

use super::error::ClientError;
use super::event::{ExportInfo, Listing};
use crate::wire::{
    BASE_ALLOCATION, BlockSizes, ExportEntry, Info, MetaContext, Replies, SizeAndFlags,
    TransmissionFlags,
};
use crate::{Abilities, Export};

/// How many exports are listed at most.
pub const MAX_LISTED: usize = 4096;

/// What is known of the export to be opened.
#[derive(Debug)]
pub(super) struct Facts {
    /// As the caller asked for it, until the server says another.
    name: String,
    description: String,
    block: BlockSizes,
    size_and_flags: Option<SizeAndFlags>,
    /// The metadata context `base:allocation`.
    pub(super) context_id: Option<u32>,
}

impl Facts {
    pub(super) fn new(name: &str) -> Self {
        Facts {
            name: name.to_owned(),
            description: String::new(),
            block: BlockSizes::DEFAULT,
            size_and_flags: None,
            context_id: None,
        }
    }

    /// The name that was asked for.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// `NBD_REP_INFO`.
    pub(super) fn learn(&mut self, data: &[u8]) -> Result<(), ClientError> {
        match Info::parse(data)? {
            Info::Export(export) => self.size_and_flags = Some(export),
            Info::Name(name) => name.clone_into(&mut self.name),
            Info::Description(description) => description.clone_into(&mut self.description),
            Info::BlockSize(block) => {
                block.check()?;
                self.block = block;
            }
            Info::Other(_) => {}
        }
        Ok(())
    }

    /// The answer to `NBD_OPT_EXPORT_NAME`.
    pub(super) fn learn_old(&mut self, export: SizeAndFlags) {
        self.size_and_flags = Some(export);
    }

    /// `NBD_REP_META_CONTEXT`.
    pub(super) fn choose(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let context = MetaContext::parse(data)?;
        if context.name != BASE_ALLOCATION || self.context_id.is_some() {
            return Err(ClientError::WrongContext {
                name: context.name.to_owned(),
            });
        }
        self.context_id = Some(context.id);
        Ok(())
    }

    /// What the caller is told of the export, now that it is open.
    pub(super) fn info(&self, replies: Replies) -> Result<ExportInfo, ClientError> {
        let Some(SizeAndFlags { size_bytes, flags }) = self.size_and_flags else {
            return Err(ClientError::NoExportInfo);
        };
        if !flags.has(TransmissionFlags::HAS_FLAGS) {
            return Err(ClientError::NoFlags(flags.to_wire()));
        }
        Ok(ExportInfo {
            export: Export {
                name: self.name.clone(),
                description: self.description.clone(),
                size_bytes,
                block: self.block,
                abilities: Abilities::from_flags(flags),
            },
            replies,
            block_status: self.context_id.is_some(),
        })
    }
}

/// Adds an export to a list: `NBD_REP_SERVER`.
pub(super) fn list(exports: &mut Vec<Listing>, data: &[u8]) -> Result<(), ClientError> {
    if exports.len() == MAX_LISTED {
        return Err(ClientError::LongList);
    }
    let entry = ExportEntry::parse(data)?;
    exports.push(Listing {
        name: entry.name.to_owned(),
        description: entry.description.to_owned(),
    });
    Ok(())
}
