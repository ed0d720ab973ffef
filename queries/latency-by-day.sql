-- The latency of the I/Os of each host and day, from every I/O's own records. An initiator may use a task's tag again: an I/O
-- is an entry whose tag comes next with an exit.
with crossings as (
    select
        host,
        date,
        direction,
        time_ns,
        lead(case when direction = 'leave' then time_ns end) over of_tag as left_ns
    from io
    where layer = 'app'
    window of_tag as (partition by host, date, session, run, task order by time_ns, direction)
),
ios as (
    select host, date, left_ns - time_ns as latency_ns
    from crossings
    where direction = 'enter' and left_ns is not null
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
