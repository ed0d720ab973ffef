-- The latency of the I/Os of each host and day, from every I/O's own records.
with ios as (
    select host, date, max(time_ns) - min(time_ns) as latency_ns
    from io
    where layer = 'app'
    group by host, date, session, run, task
    having count(*) = 2
)
select
    host,
    date,
    count(*) as ios,
    round(avg(latency_ns) / 1e6, 4) as mean_ms,
    round(percentile_cont(0.5) within group (order by latency_ns) / 1e6, 4) as p50_ms,
    round(percentile_cont(0.99) within group (order by latency_ns) / 1e6, 4) as p99_ms
from ios
group by host, date
order by host, date;
