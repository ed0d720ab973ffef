-- How long the I/Os of each day were inside each layer: between two layers stands what waits above the lower one. An initiator
-- may use a task's tag again: a passage is an entry whose tag comes next with an exit.
with crossings as (
    select
        date,
        layer,
        direction,
        time_ns,
        lead(case when direction = 'leave' then time_ns end) over of_tag as left_ns
    from io
    window of_tag as (partition by host, date, session, run, task, layer order by time_ns, direction)
),
passages as (
    select date, layer, left_ns - time_ns as inside_ns
    from crossings
    where direction = 'enter' and left_ns is not null
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
