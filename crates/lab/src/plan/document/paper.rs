//! `[paper]`: the publication whose experiment a plan reproduces, and its figures.

use wansan_settings::settings;

settings! {
    /// `[paper]`: the publication that the plan reproduces.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PaperTable {
        /// Authors, title and year
        pub title: String;
        /// The figures or tables
        pub figure: Option<String>;
        /// Its qualitative results
        pub remarks: Vec<String> = Vec::new(), "sentences";
        /// Where this experiment differs, and why
        pub differs: Vec<String> = Vec::new(), "sentences";
        /// Published numbers, to print beside the measured ones
        pub known: Vec<KnownTable> = Vec::new(), of KnownTable;
    }
}

settings! {
    /// `[[paper.known]]`: one published number.
    #[derive(Debug, Clone, PartialEq)]
    pub struct KnownTable {
        /// Dotted name in results.json, as in `[[expect]]`
        pub metric: String;
        /// The cells that it applies to: those with these parameters; all by default
        pub r#where: toml::Table = toml::Table::new();
        /// The number is a ratio to the metric's mean over the cells with these parameters
        pub relative_to: Option<toml::Table>;
        /// The number
        pub value: toml::Value, "value";
    }
}
