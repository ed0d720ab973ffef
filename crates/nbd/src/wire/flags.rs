//! Sets of flags ("Flag fields").

flags! {
    /// What a server's greeting says ("Handshake flags").
    HandshakeFlags: u16 {
        /// `NBD_FLAG_FIXED_NEWSTYLE`: the server answers options that it does not know.
        FIXED_NEWSTYLE = 0,
        /// `NBD_FLAG_NO_ZEROES`: the server can leave out the padding after `NBD_OPT_EXPORT_NAME`.
        NO_ZEROES = 1,
    }
}

flags! {
    /// What a client answers to the greeting ("Client flags").
    ClientFlags: u32 {
        /// `NBD_FLAG_C_FIXED_NEWSTYLE`.
        FIXED_NEWSTYLE = 0,
        /// `NBD_FLAG_C_NO_ZEROES`: no padding after `NBD_OPT_EXPORT_NAME`.
        NO_ZEROES = 1,
    }
}

flags! {
    /// What an export can do ("Transmission flags").
    TransmissionFlags: u16 {
        /// `NBD_FLAG_HAS_FLAGS`: always set.
        HAS_FLAGS = 0,
        /// `NBD_FLAG_READ_ONLY`.
        READ_ONLY = 1,
        /// `NBD_FLAG_SEND_FLUSH`.
        SEND_FLUSH = 2,
        /// `NBD_FLAG_SEND_FUA`.
        SEND_FUA = 3,
        /// `NBD_FLAG_ROTATIONAL`.
        ROTATIONAL = 4,
        /// `NBD_FLAG_SEND_TRIM`.
        SEND_TRIM = 5,
        /// `NBD_FLAG_SEND_WRITE_ZEROES`.
        SEND_WRITE_ZEROES = 6,
        /// `NBD_FLAG_SEND_DF`: reads can ask for one chunk of content; only with structured replies.
        SEND_DF = 7,
        /// `NBD_FLAG_CAN_MULTI_CONN`.
        CAN_MULTI_CONN = 8,
        /// `NBD_FLAG_SEND_CACHE`.
        SEND_CACHE = 10,
        /// `NBD_FLAG_SEND_FAST_ZERO`.
        SEND_FAST_ZERO = 11,
        /// `NBD_FLAG_BLOCK_STATUS_PAYLOAD`: `NBD_CMD_BLOCK_STATUS` can name contexts; only with extended headers.
        BLOCK_STATUS_PAYLOAD = 12,
    }
}

flags! {
    /// How a command is to be carried out ("Command flags").
    CommandFlags: u16 {
        /// `NBD_CMD_FLAG_FUA`: what is written is on stable storage before the reply.
        FUA = 0,
        /// `NBD_CMD_FLAG_NO_HOLE`: `NBD_CMD_WRITE_ZEROES` must not make a hole.
        NO_HOLE = 1,
        /// `NBD_CMD_FLAG_DF`: `NBD_CMD_READ` wants one chunk of content.
        DF = 2,
        /// `NBD_CMD_FLAG_REQ_ONE`: `NBD_CMD_BLOCK_STATUS` wants one extent.
        REQ_ONE = 3,
        /// `NBD_CMD_FLAG_FAST_ZERO`: `NBD_CMD_WRITE_ZEROES` fails rather than be as slow as a write.
        FAST_ZERO = 4,
        /// `NBD_CMD_FLAG_PAYLOAD_LEN`: the length is that of a payload; only with extended headers.
        PAYLOAD_LEN = 5,
    }
}

flags! {
    /// Flags of a chunk ("Structured and extended header reply flags").
    ChunkFlags: u16 {
        /// `NBD_REPLY_FLAG_DONE`: it is the last one of its reply.
        DONE = 0,
    }
}

flags! {
    /// What `base:allocation` says of an extent ("`base:allocation` metadata context").
    StateFlags: u64 {
        /// `NBD_STATE_HOLE`: nothing is allocated for it.
        HOLE = 0,
        /// `NBD_STATE_ZERO`: it reads as zeros.
        ZERO = 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_sets() {
        let flags = CommandFlags::FUA.with(CommandFlags::NO_HOLE);
        assert_eq!(flags.to_wire(), 0b11);
        assert!(flags.has(CommandFlags::FUA) && !flags.has(CommandFlags::DF));
        assert_eq!(flags.without(CommandFlags::FUA), CommandFlags::NO_HOLE);
        assert_eq!(flags.with_if(false, CommandFlags::DF), flags);
        assert_eq!(CommandFlags::from_wire(0x8000).to_wire(), 0x8000);
        assert_eq!(TransmissionFlags::BLOCK_STATUS_PAYLOAD.to_wire(), 1 << 12);
    }
}
