//! The Parquet files of a run folder, one per record kind.
