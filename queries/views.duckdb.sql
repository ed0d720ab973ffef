-- The tables of a lake for DuckDB, started in the lake's folder: duckdb -init views.duckdb.sql < limits.sql
create or replace view sessions as select * from read_parquet('sessions/**/*.parquet', hive_partitioning = true, hive_types_autocast = false);
create or replace view waits as select * from read_parquet('waits/**/*.parquet', hive_partitioning = true, hive_types_autocast = false);
create or replace view io as select * from read_parquet('io/**/*.parquet', hive_partitioning = true, hive_types_autocast = false);
