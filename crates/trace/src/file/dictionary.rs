//! Dictionary-encoded column chunks: a page with each distinct value once, and one with the dictionary index of each
//! row (Parquet's `RLE_DICTIONARY`).
//!
//! The encoder of the `parquet` crate detects equal values by their bytes. Rows have numbers or codes, which are faster
//! to compare.

use bytes::Bytes;
use foldhash::HashMap;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// Codes below this have their indices in an array.
const NEAR: u64 = 1 << 16;
/// Marks a code that is not in the dictionary.
const NOWHERE: u32 = u32::MAX;
/// Number of indices packed as one group.
const GROUP: usize = 8;

/// The values of one column in one row group.
#[derive(Default)]
pub(super) struct Dictionary {
    /// The distinct values, in order of first occurrence.
    codes: Vec<u64>,
    /// The index of each code below [`NEAR`].
    near: Vec<u32>,
    /// The indices of other codes.
    far: HashMap<u64, u32>,
    /// The index for each row.
    places: Vec<u32>,
}

impl Dictionary {
    /// Adds rows by their codes.
    pub(super) fn add(&mut self, codes: &[u64]) {
        self.places.reserve(codes.len());
        for &code in codes {
            let place = self.place(code);
            self.places.push(place);
        }
    }

    fn place(&mut self, code: u64) -> u32 {
        let next = self.codes.len() as u32;
        let known = match code {
            ..NEAR => {
                let code = code as usize;
                if code >= self.near.len() {
                    self.near.resize(code + 1, NOWHERE);
                }
                &mut self.near[code]
            }
            NEAR.. => self.far.entry(code).or_insert(NOWHERE),
        };
        if *known == NOWHERE {
            *known = next;
            self.codes.push(code);
        }
        *known
    }

    /// Encodes the chunk, with its metadata for the file's footer. `put` appends the value of a code in Parquet's
    /// `PLAIN` encoding.
    pub(super) fn encode(
        &self,
        column: ColumnDescPtr,
        put: impl Fn(u64, &mut Vec<u8>),
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut values = Vec::new();
        for &code in &self.codes {
            put(code, &mut values);
        }
        let dictionary = |buf| Page::DictionaryPage {
            buf,
            num_values: self.codes.len() as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let data = |buf| Page::DataPage {
            buf,
            num_values: self.places.len() as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let pages = [
            compressed(&values, dictionary)?,
            compressed(&runs(&self.places, self.codes.len()), data)?,
        ];
        let mut chunk = TrackedWrite::new(Vec::new());
        let mut uncompressed_bytes = 0;
        let mut offsets = Vec::new();
        for page in pages {
            let written = SerializedPageWriter::new(&mut chunk).write_page(page)?;
            uncompressed_bytes += written.uncompressed_size;
            offsets.push(written.offset as i64);
        }
        let chunk = chunk.into_inner()?;
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(Compression::SNAPPY)
            .set_encodings(vec![
                Encoding::PLAIN,
                Encoding::RLE,
                Encoding::RLE_DICTIONARY,
            ])
            .set_total_compressed_size(chunk.len() as i64)
            .set_total_uncompressed_size(uncompressed_bytes as i64)
            .set_num_values(self.places.len() as i64)
            .set_dictionary_page_offset(Some(offsets[0]))
            .set_data_page_offset(offsets[1])
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: chunk.len() as u64,
            rows_written: self.places.len() as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((Bytes::from(chunk), close))
    }
}

fn compressed(
    bytes: &[u8],
    page: impl FnOnce(Bytes) -> Page,
) -> Result<CompressedPage, ParquetError> {
    let compressed = snap::raw::Encoder::new().compress_vec(bytes);
    let compressed = compressed.map_err(|error| ParquetError::External(Box::new(error)))?;
    Ok(CompressedPage::new(page(compressed.into()), bytes.len()))
}

/// Encodes indices into `values` values as a data page: their bit width, then alternating runs of repeated and of
/// packed indices.
fn runs(places: &[u32], values: usize) -> Vec<u8> {
    let width = usize::BITS - values.saturating_sub(1).max(1).leading_zeros();
    let mut page = vec![width as u8];
    let mut rest = places;
    while !rest.is_empty() {
        let same = repeats(rest);
        if same >= GROUP {
            put_number(&mut page, (same as u64) << 1);
            let value = rest[0].to_le_bytes();
            page.extend_from_slice(&value[..width.div_ceil(u8::BITS) as usize]);
            rest = &rest[same..];
        } else {
            let mut groups = rest.chunks(GROUP);
            let packed = 1 + { groups.by_ref().skip(1) }
                .take_while(|group| repeats(group) < GROUP)
                .count();
            let (run, after) = rest.split_at(rest.len().min(packed * GROUP));
            put_number(&mut page, (packed as u64) << 1 | 1);
            pack(&mut page, run, width);
            rest = after;
        }
    }
    page
}

/// Length of the first run of equal indices.
fn repeats(places: &[u32]) -> usize {
    let Some(first) = places.first() else {
        return 0;
    };
    let other = places.iter().position(|place| place != first);
    other.unwrap_or(places.len())
}

/// Seven bits per byte, lowest first (ULEB128).
fn put_number(page: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        page.push(number as u8 | 0x80);
        number >>= 7;
    }
    page.push(number as u8);
}

/// Packs indices from the lowest bit on; pads the last group.
fn pack(page: &mut Vec<u8>, places: &[u32], width: u32) {
    for group in places.chunks(GROUP) {
        let (mut bits, mut held) = (0_u64, 0);
        let mut put = |place: u32| {
            bits |= u64::from(place) << held;
            held += width;
            while held >= u8::BITS {
                page.push(bits as u8);
                bits >>= u8::BITS;
                held -= u8::BITS;
            }
        };
        group.iter().copied().for_each(&mut put);
        (group.len()..GROUP).for_each(|_| put(0));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes a page of [`runs`] according to Parquet's document "Encodings".
    fn read(page: &[u8], rows: usize) -> Vec<u32> {
        let width = usize::from(page[0]);
        let mut rest = &page[1..];
        let mut places = Vec::new();
        while places.len() < rows {
            let (mut header, mut shift) = (0_usize, 0);
            loop {
                let byte = rest[0];
                rest = &rest[1..];
                header |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            match header & 1 {
                0 => {
                    let mut value = [0; 4];
                    let bytes = width.div_ceil(8);
                    value[..bytes].copy_from_slice(&rest[..bytes]);
                    rest = &rest[bytes..];
                    places.extend(vec![u32::from_le_bytes(value); header >> 1]);
                }
                _ => {
                    let bytes = (header >> 1) * width;
                    let bit = |at: usize| u32::from(rest[at / 8] >> (at % 8) & 1);
                    let value = |place: usize| {
                        (0..width).fold(0, |value, it| value | bit(place * width + it) << it)
                    };
                    places.extend((0..(header >> 1) * GROUP).map(value));
                    rest = &rest[bytes..];
                }
            }
        }
        assert!(rest.is_empty(), "{} bytes are left", rest.len());
        places.truncate(rows);
        places
    }

    proptest! {
        #[test]
        fn any_places_come_back(
            stretches in prop::collection::vec((any::<u32>(), 1..40_usize), 1..60),
            values in prop_oneof![1..5_usize, 1..300_000_usize],
        ) {
            let stretches = stretches.into_iter();
            let places: Vec<u32> = stretches
                .flat_map(|(value, often)| vec![value % values as u32; often])
                .collect();
            prop_assert_eq!(read(&runs(&places, values), places.len()), places);
        }
    }

    #[test]
    fn each_value_has_one_place() {
        let mut dictionary = Dictionary::default();
        dictionary.add(&[7, u64::MAX, 7, NEAR, 0]);
        dictionary.add(&[NEAR - 1, u64::MAX]);
        assert_eq!(dictionary.codes, [7, u64::MAX, NEAR, 0, NEAR - 1]);
        assert_eq!(dictionary.places, [0, 1, 0, 2, 3, 4, 1]);
    }

    #[test]
    fn what_repeats_takes_no_room() {
        let places = [[0; 1000], [1; 1000]].concat();
        assert!(runs(&places, 2).len() < 10);
    }
}
