//! The table of a record kind, which defines its struct, its row in memory, its file columns and its JSON.

/// Bit position in a row of each part of a field: widest parts first, so that none crosses a word boundary and there
/// are no gaps.
pub(crate) const fn place(fields: &[[u32; 3]], field: usize) -> [u32; 3] {
    let mut places = [0; 3];
    let mut part = 0;
    while part < 3 {
        let bits = fields[field][part];
        let mut other = 0;
        while other < 3 * fields.len() {
            let other_bits = fields[other / 3][other % 3];
            if other_bits > bits || (other_bits == bits && other < 3 * field + part) {
                places[part] += other_bits;
            }
            other += 1;
        }
        part += 1;
    }
    places
}

/// Words in a row of these fields.
pub(crate) const fn words(fields: &[[u32; 3]]) -> usize {
    let mut bits = 0;
    let mut part = 0;
    while part < 3 * fields.len() {
        bits += fields[part / 3][part % 3];
        part += 1;
    }
    bits.div_ceil(u64::BITS) as usize
}

/// Stores a field's parts in a row of zeros.
#[inline(always)]
pub(crate) fn put(row: &mut [u64], bits: [u32; 3], places: [u32; 3], parts: [u64; 3]) {
    for part in 0..3 {
        if bits[part] > 0 {
            row[(places[part] / u64::BITS) as usize] |= parts[part] << (places[part] % u64::BITS);
        }
    }
}

/// Extracts a field's parts from a row; bits above a part belong to others.
#[inline(always)]
pub(crate) fn take(row: &[u64], bits: [u32; 3], places: [u32; 3]) -> [u64; 3] {
    let mut parts = [0; 3];
    for part in 0..3 {
        if bits[part] > 0 {
            parts[part] = row[(places[part] / u64::BITS) as usize] >> (places[part] % u64::BITS);
        }
    }
    parts
}

/// Implements packing for a struct with these fields, the first of which is its time. `group` returns a number for a
/// record, of which the lower bits choose its group.
macro_rules! packed {
    (
        $type:ident { $($field:ident: $kind:ty),* $(,)? }
        grouped by $group:expr,
        unfolds to $record:ident by $unfold:expr
    ) => {
        const _: () = {
            use $crate::field::Field;
            use $crate::record::{place, put, take, words};

            #[expect(non_camel_case_types, reason = "the fields' places by their names")]
            enum Place { $($field),* }
            const BITS: &[[u32; 3]] = &[$(<$kind as Field>::PARTS),*];

            impl $crate::log::Words for $type {
                type Row = [u64; words(BITS)];
                #[inline(always)]
                fn row(&self) -> Self::Row {
                    let mut row = [0; words(BITS)];
                    $(
                        put(
                            &mut row,
                            <$kind as Field>::PARTS,
                            const { place(BITS, Place::$field as usize) },
                            Field::parts(self.$field),
                        );
                    )*
                    row
                }
                fn of_row(row: &Self::Row) -> Self {
                    $type { $($field: Field::of_parts(take(
                        row,
                        <$kind as Field>::PARTS,
                        const { place(BITS, Place::$field as usize) },
                    ))),* }
                }
                #[inline(always)]
                fn group(&self) -> usize {
                    let group: fn(&$type) -> usize = $group;
                    group(self) % $crate::log::GROUPS
                }
                fn time(&self) -> $crate::Instant {
                    self.time
                }
                type Record = $record;
                fn unfold(self) -> impl Iterator<Item = $record> {
                    $unfold(self)
                }
            }
        };
    };
}

/// Defines a record kind: the name of its files, the field that names the record's object, if any, which of its records
/// are alike ([`crate::log::Words::group`]), and its fields, the first of which is the time. Each field is followed by its
/// column's value pattern; `none` with the smallest value that means none, which is `null` in JSON; and `; added` if files
/// of earlier versions lack the column.
macro_rules! record {
    (
        $(#[doc = $about:literal])*
        $kind:ident in $file:literal $(named by $naming:ident)? grouped by $group:expr => {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $type:ty => $habit:ident $(none $none:expr)? $(; $added:ident)?
            ),* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $kind {
            $($(#[doc = $doc])* pub $field: $type),*
        }

        impl $kind {
            /// A record with all fields unknown.
            pub const BLANK: $kind = $kind {
                $($field: <$type as $crate::field::Field>::BLANK),*
            };
        }

        $crate::record::packed!(
            $kind { $($field: $type),* } grouped by $group, unfolds to $kind by std::iter::once
        );

        const _: () = {
            use $crate::field::Field;
            use $crate::kind::{Column, Habit, Kind, name_of_column};

            impl Kind for $kind {
                const NAME: &'static str = $file;
                const ABOUT: &'static str = concat!($($about),*);
                const BLANK: Self = $kind::BLANK;
                $(fn name_mut(&mut self) -> Option<&mut $crate::NameId> {
                    Some(&mut self.$naming)
                })?
                fn time(&self) -> $crate::Instant {
                    self.time
                }
                fn columns() -> Vec<Column<Self>> {
                    vec![$(Column {
                        name: name_of_column!($field: $type),
                        about: concat!($($doc),*),
                        cell: <$type as Field>::CELL,
                        habit: Habit::$habit,
                        is_time: <$type as Field>::IS_TIME,
                        may_lack: false $(|| stringify!($added) == "added")?,
                        json: <$type as Field>::JSON,
                        may_be_null: false $(|| { let _ = $none; true })?,
                        get: |rows, names, codes| {
                            for (code, row) in codes.iter_mut().zip(rows) {
                                *code = row.record.$field.code(names)?;
                            }
                            Some(())
                        },
                        set: |row, code, names| row.record.$field = Field::of_code(code, names),
                    }),*]
                }
            }

            impl serde::Serialize for $kind {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    use serde::ser::SerializeMap;
                    let mut map = serializer.serialize_map(None)?;
                    $(if <$type as Field>::JSON.is_some() {
                        let is_none = false $(|| self.$field >= $none)?;
                        let value = (!is_none).then_some($crate::field::InJson(self.$field));
                        map.serialize_entry(name_of_column!($field: $type), &value)?;
                    })*
                    map.end()
                }
            }
        };
    };
}

pub(crate) use {packed, record};
