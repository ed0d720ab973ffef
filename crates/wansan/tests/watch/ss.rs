//! What a watch says of a connection beside what `ss -tin` says: the same kernel's numbers, at the same
//! moment.

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use wansan_lab::world::Node;
use wansan_path::Change;
use wansan_tcp::watch::Watch;
use wansan_trace::clock;
use wansan_trace::event::{Tcp, TcpEvent};

use crate::world::{LONG, Observed, PORT, Sight, build, check, emulate, order, path, under_way};

/// What `ss` prints of the client's connection.
struct Ss(String);

impl Ss {
    fn ask(client: &Node) -> Result<Ss, String> {
        let ss = client.namespace().run(|| {
            let arguments = ["-tinH", "dport", "=", ":3260"];
            Command::new("ss").args(arguments).output()
        });
        let ss = ss.map_err(|error| format!("ss: {error}"))?;
        Ok(Ss(String::from_utf8_lossy(&ss.stdout).into_owned()))
    }

    /// A word before a colon, and what follows it.
    fn word(&self, name: &str) -> Option<&str> {
        let words = self.0.split_whitespace();
        words
            .filter_map(|word| word.split_once(':'))
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }

    /// A number, which `ss` leaves out when it is 0.
    fn number(&self, name: &str) -> u64 {
        let number = self.word(name).and_then(|value| value.parse().ok());
        number.unwrap_or(0)
    }

    /// A rate behind its name, in bits per second; `ss` leaves one out that is 0 or unlimited.
    fn rate(&self, name: &str) -> Option<u64> {
        let mut words = self.0.split_whitespace().skip_while(|word| *word != name);
        words.nth(1)?.strip_suffix("bps")?.parse().ok()
    }

    /// Whole milliseconds that a sender spent in some way, which `ss` leaves out when there are none.
    fn spent_ms(&self, name: &str) -> u64 {
        let value = self.word(name).and_then(|value| value.split_once("ms"));
        value.map_or(0, |(ms, _)| ms.parse().unwrap_or(0))
    }

    /// Checks that the times of a record, which pass while a sender has something to do, lie between what
    /// was said before and after it.
    fn passes(&self, seen: &Tcp, after: &Ss) -> Result<(), String> {
        for (name, spent_ns) in [
            ("busy", seen.busy_ns),
            ("rwnd_limited", seen.rwnd_limited_ns),
            ("sndbuf_limited", seen.sndbuf_limited_ns),
        ] {
            let between = self.spent_ms(name)..=after.spent_ms(name);
            let spent_ms = spent_ns / 1_000_000;
            check(
                between.contains(&spent_ms),
                format!(
                    "{name} is {between:?} ms in ss and {spent_ms} ms here: {}",
                    after.0
                ),
            )?;
        }
        Ok(())
    }

    /// Segments that are resent and on their way, and those that ever were.
    fn sent_again(&self) -> (u64, u64) {
        let both = self.word("retrans").and_then(|value| value.split_once('/'));
        both.and_then(|(now, ever)| Some((now.parse().ok()?, ever.parse().ok()?)))
            .unwrap_or_default()
    }

    /// All that does not change by time alone.
    fn standing(&self) -> Vec<&str> {
        let passes = ["last", "busy:", "rwnd_limited:", "sndbuf_limited:"];
        let words = self.0.split_whitespace();
        words
            .filter(|word| !passes.iter().any(|begin| word.starts_with(begin)))
            .collect()
    }

    /// Checks that a record says the same.
    fn is(&self, seen: &Tcp) -> Result<(), String> {
        // ss prints times in ms to the microsecond.
        let ms = |ns: u64| {
            let text = format!("{:.3}", ns as f64 / 1e6);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        let rtt = self.word("rtt").and_then(|rtt| rtt.split('/').next());
        for (name, found, expected) in [
            ("rtt", rtt, ms(seen.srtt_ns)),
            ("minrtt", self.word("minrtt"), ms(seen.min_rtt_ns)),
        ] {
            check(
                found == Some(&expected),
                format!("{name} is {found:?} in ss and {expected} here: {}", self.0),
            )?;
        }
        let threshold = Some(seen.ssthresh_packets).filter(|packets| *packets < i32::MAX as u32);
        let (sent_again, ever_again) = self.sent_again();
        let gone = self.number("sacked") + self.number("lost");
        for (name, found, expected) in [
            ("cwnd", self.number("cwnd"), seen.cwnd_packets),
            ("ssthresh", self.number("ssthresh"), threshold.unwrap_or(0)),
            ("mss", self.number("mss"), seen.mss_bytes),
            ("snd_wnd", self.number("snd_wnd"), seen.rwnd_bytes),
            ("retrans", ever_again, seen.retransmits),
            ("notsent", self.number("notsent"), seen.unsent_bytes),
            (
                "unacked - sacked - lost + retrans",
                self.number("unacked") - gone + sent_again,
                seen.in_flight_packets,
            ),
        ] {
            check(
                found == u64::from(expected),
                format!("{name} is {found} in ss and {expected} here: {}", self.0),
            )?;
        }
        for (name, bytes_per_s) in [
            ("pacing_rate", seen.pacing_bytes_per_s),
            ("delivery_rate", seen.delivery_bytes_per_s),
        ] {
            let said = Some(bytes_per_s).filter(|rate| ![0, u64::MAX].contains(rate));
            let expected = said.map(|rate| rate * 8);
            let found = self.rate(name);
            check(
                found == expected,
                format!(
                    "{name} is {found:?} bit/s in ss and {expected:?} here: {}",
                    self.0
                ),
            )?;
        }
        let acked = self.number("bytes_acked");
        check(
            acked == seen.acked_bytes,
            format!("{acked} bytes acked, {} here", seen.acked_bytes),
        )
    }
}

/// The first sample that was taken from now on.
fn sample(watch: &Watch) -> Result<Tcp, String> {
    let now = clock::now();
    let fresh = |record: &&Tcp| record.event == TcpEvent::Sample && record.time >= now;
    let mut told = Observed::default();
    told.until(watch, |told| told.records.iter().any(|r| fresh(&r)))?;
    let found = told.records.iter().find(fresh);
    found.copied().ok_or_else(|| told.summary())
}

/// A connection that has moved data and rests now: the kernel's numbers stand still.
pub(crate) fn at_rest(sight: Sight) -> Result<(), String> {
    let world = build(false)?;
    let emulator = emulate(&world, &path())?;
    let [storage, client] = world.nodes() else {
        return Err("two hosts".to_owned());
    };
    let address = storage.address();
    let listener = storage
        .namespace()
        .run(move || TcpListener::bind((address, PORT)))
        .map_err(|error| error.to_string())?;
    let mut sender = client
        .namespace()
        .run(move || TcpStream::connect((address, PORT)))
        .map_err(|error| error.to_string())?;
    let (mut receiver, _) = listener.accept().map_err(|error| error.to_string())?;
    let moved = vec![3; 300_000];
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; 300_000];
        std::io::Read::read_exact(&mut receiver, &mut got).map(|()| receiver)
    });
    std::io::Write::write_all(&mut sender, &moved).map_err(|error| error.to_string())?;
    let _receiver = reader.join().map_err(|_| "the reader panicked")?;
    let watch = client
        .namespace()
        .run(move || sight.watch(sight.config()))?;
    let mut told = Observed::default();
    let all = |told: &Observed| {
        let acked = |record: &Tcp| record.acked_bytes >= 300_000 && record.in_flight_packets == 0;
        told.records.iter().any(acked)
    };
    told.until(&watch, all)?;
    let before = Ss::ask(client)?;
    let seen = sample(&watch)?;
    before.is(&seen)?;
    check(
        before.rate("pacing_rate").is_some(),
        "no rate in what ss says",
    )?;
    check(before.spent_ms("busy") > 0, "no time in what ss says")?;
    before.passes(&seen, &Ss::ask(client)?)?;
    emulator.stop().map(drop).map_err(|error| error.to_string())
}

/// So often are counters that only grow asked for by both in turns.
const TURNS: usize = 20;

/// While data moves, what only grows is never less than `ss` said before, nor more than it says
/// after. When the path falls silent with a window of data on it, everything stands still between two
/// timeouts, and then all is the same.
pub(crate) fn in_motion(sight: Sight) -> Result<(), String> {
    let world = build(false)?;
    let emulator = emulate(&world, &path())?;
    let client = &world.nodes()[1];
    let (watch, mut told, sender) = under_way(&world, sight)?;
    let mut before = Ss::ask(client)?;
    let first = before.number("bytes_acked");
    for _ in 0..TURNS {
        let seen = sample(&watch)?;
        let after = Ss::ask(client)?;
        let acked = before.number("bytes_acked")..=after.number("bytes_acked");
        let again = before.sent_again().1..=after.sent_again().1;
        check(
            acked.contains(&seen.acked_bytes) && again.contains(&seen.retransmits.into()),
            format!("{acked:?} bytes acked and {again:?} sent again in ss, here {seen:?}"),
        )?;
        before.passes(&seen, &after)?;
        before = after;
    }
    check(before.number("bytes_acked") > first, "nothing moved")?;

    order(&emulator, Change::Down)?;
    told.until(&watch, |told| told.count(TcpEvent::Loss) > 0)?;
    let began = std::time::Instant::now();
    loop {
        let before = Ss::ask(client)?;
        let seen = sample(&watch)?;
        let after = Ss::ask(client)?;
        // A timeout may come between, after ever longer waits.
        if before.standing() == after.standing() {
            check(seen.in_flight_packets > 0, "nothing is on its way")?;
            before.is(&seen)?;
            before.passes(&seen, &after)?;
            break;
        }
        check(began.elapsed() < LONG, format!("no rest: {}", after.0))?;
    }
    // It tries without effect until the kernel gives up; nobody waits for that.
    drop(sender);
    Ok(())
}
