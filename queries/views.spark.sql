-- The tables of a lake for Spark, started in the lake's folder: spark-sql -i views.spark.sql -f limits.sql
set spark.sql.sources.partitionColumnTypeInference.enabled = false;
create or replace temporary view sessions using parquet options (path 'sessions');
create or replace temporary view waits using parquet options (path 'waits');
create or replace temporary view io using parquet options (path 'io');
