-- How long the I/Os of each day were inside each layer: between two layers stands what waits above the lower one.
with passages as (
    select date, layer, max(time_ns) - min(time_ns) as inside_ns
    from io
    group by host, date, session, run, task, layer
    having count(*) = 2
)
select
    date,
    layer,
    count(*) as ios,
    round(avg(inside_ns) / 1e6, 4) as mean_ms,
    round(max(inside_ns) / 1e6, 4) as longest_ms
from passages
group by date, layer
order by date, mean_ms desc, layer;
