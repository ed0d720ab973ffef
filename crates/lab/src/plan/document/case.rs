//! `[[case]]`: values that go together under one name.

use wansan_settings::settings;

settings! {
    /// `[[case]]`: a named set of values. The sweep's axis `case` lists the names.
    #[derive(Debug, Clone, PartialEq)]
    pub struct CaseTable {
        /// Its name, as the axis and `where` write it
        pub name: String;
        /// The parameters that it sets, by their dotted names
        pub set: toml::Table;
    }
}
