-- What limits each LUN this week, the LUNs first whose I/Os spent most time on it. A LUN is a session: wansan's
-- initiators have one for each disk.
with by_limit as (
    select host, session, limited_by, sum(ios * wait_ns) as waited_ns
    from waits
    where cast(date as date) > current_date - 7
    group by host, session, limited_by
),
ranked as (
    select
        *,
        waited_ns / sum(waited_ns) over (partition by host, session) as share,
        row_number() over (partition by host, session order by waited_ns desc, limited_by) as place
    from by_limit
),
luns as (
    select host, session, max(target) as target, sum(ios) as ios, max(latency_p99_ns) as latency_p99_ns
    from sessions
    where cast(date as date) > current_date - 7
    group by host, session
)
select
    ranked.host,
    ranked.session,
    luns.target,
    ranked.limited_by,
    round(100 * ranked.share, 1) as percent,
    luns.ios,
    round(luns.latency_p99_ns / 1e6, 3) as worst_p99_ms
from ranked
join luns on luns.host = ranked.host and luns.session = ranked.session
where ranked.place = 1
order by ranked.waited_ns desc, ranked.host, ranked.session
limit 400;
