-- What limits the LUNs of each host this week: how many of them each limit holds back most, and its share of all the
-- time that their I/Os took.
with by_limit as (
    select host, session, limited_by, sum(ios * wait_ns) as waited_ns
    from waits
    where cast(date as date) > current_date - 7
    group by host, session, limited_by
),
ranked as (
    select
        *,
        row_number() over (partition by host, session order by waited_ns desc, limited_by) as place
    from by_limit
)
select
    host,
    limited_by,
    sum(case when place = 1 then 1 else 0 end) as luns,
    round(100 * sum(waited_ns) / sum(sum(waited_ns)) over (partition by host), 1) as percent
from ranked
group by host, limited_by
having sum(waited_ns) > 0
order by host, percent desc, limited_by;
