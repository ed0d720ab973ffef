//! `[paper]`: the publication whose experiment a plan rebuilds, and numbers that it gives.

use wansan_settings::settings;

settings! {
    /// `[paper]`: what the plan rebuilds.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PaperTable {
        /// Authors, title and year
        pub title: String;
        /// Which of its figures or tables
        pub figure: Option<String>;
        /// What it says without a number that could stand beside ours
        pub remarks: Vec<String> = Vec::new(), "sentences";
        /// Where ours is different, and why
        pub differs: Vec<String> = Vec::new(), "sentences";
        /// Numbers that it gives, to stand beside ours
        pub known: Vec<KnownTable> = Vec::new(), of KnownTable;
    }
}

settings! {
    /// `[[paper.known]]`: one number that the paper gives.
    #[derive(Debug, Clone, PartialEq)]
    pub struct KnownTable {
        /// Dotted way into results.json, as in `[[expect]]`
        pub metric: String;
        /// Which cells it is of: all, or those with these parameters
        pub r#where: toml::Table = toml::Table::new();
        /// The number is a ratio to the metric's mean over the cells with these parameters
        pub relative_to: Option<toml::Table>;
        /// The number
        pub value: toml::Value, "value";
    }
}
