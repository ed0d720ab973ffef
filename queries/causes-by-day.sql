-- What the I/Os of each day waited for, by cause, in milliseconds for each I/O: what has become worse.
with totals as (
    select date, sum(ios) as ios
    from sessions
    group by date
)
select
    waits.date,
    waits.cause,
    round(sum(waits.ios * waits.wait_ns) / max(totals.ios) / 1e6, 4) as ms_for_each_io
from waits
join totals on totals.date = waits.date
where totals.ios > 0
group by waits.date, waits.cause
having sum(waits.wait_ns) > 0
order by waits.date, ms_for_each_io desc, waits.cause;
