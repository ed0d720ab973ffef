//! Integers in network byte order.

/// Two bytes at an offset of a header.
pub(super) fn u16_at<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes(array_at(header, at))
}

/// Four bytes at an offset of a header.
pub(super) fn u32_at<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes(array_at(header, at))
}

/// Eight bytes at an offset of a header.
pub(super) fn u64_at<const N: usize>(header: &[u8; N], at: usize) -> u64 {
    u64::from_be_bytes(array_at(header, at))
}

fn array_at<const N: usize, const BYTES: usize>(header: &[u8; N], at: usize) -> [u8; BYTES] {
    let mut field = [0; BYTES];
    field.copy_from_slice(&header[at..at + BYTES]);
    field
}

/// Puts a field into a header.
pub(super) fn put<const N: usize, const BYTES: usize>(
    header: &mut [u8; N],
    at: usize,
    field: [u8; BYTES],
) {
    header[at..at + BYTES].copy_from_slice(&field);
}

/// What is left of data whose fields have lengths of their own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next two bytes, if they are there.
    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next four bytes, if they are there.
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next eight bytes, if they are there.
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn array<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    /// The next `bytes` bytes, if they are there.
    pub(super) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(field)
    }

    /// A length of 32 bits, and as many bytes.
    pub(super) fn counted(&mut self) -> Option<&'a [u8]> {
        let bytes = self.u32()?;
        self.take(usize::try_from(bytes).ok()?)
    }
}

/// Appends a length of 32 bits, and the bytes.
pub(super) fn push_counted(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    to.extend_from_slice(bytes);
}
