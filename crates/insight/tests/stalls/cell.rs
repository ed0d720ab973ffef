//! Random cells.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use wansan_insight::traffic::FlowDirection;

use super::end::{Manner, Nagle};
use super::world::Script;

/// Random choices.
pub(crate) struct Dice(pub(crate) Pcg64Mcg);

impl Dice {
    /// An integer from `least` to `most`, both inclusive.
    pub(crate) fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.next_u64() % (most - least + 1)
    }

    /// A random element of `of`.
    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.within(0, of.len() as u64 - 1) as usize]
    }

    /// True with a probability of `percent` %.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.within(1, 100) <= percent
    }
}

/// A world with random impairments, or none.
pub(crate) fn script(dice: &mut Dice) -> Script {
    const MS: u64 = 1_000_000;
    let delay_ns = dice.within(1, 60) * MS + dice.within(0, 999) * 1000;
    let mss = dice.one(&[536, 1448, 1460, 8948]);
    let ack_delay_ns = dice.one(&[None, Some(40 * MS), Some(100 * MS), Some(200 * MS)]);
    let block_bytes = match dice.within(0, 3) {
        0 => dice.within(1, 4) * 512,
        1 => dice.within(1, 16) * 1024,
        2 => dice.within(1, 64) * 1024,
        // The answer fills its segments.
        _ => (dice.within(1, 12) * mss - 48).next_multiple_of(4),
    };
    let round_trip_ns = 2 * delay_ns;
    let timeout_ns = 400 * MS + 2 * round_trip_ns;
    let manner = |nagle, ack_delay_ns, buffer_bytes| Manner {
        mss,
        nagle,
        ack_delay_ns,
        buffer_bytes,
        timeout_ns,
    };
    let nagle = dice.one(&[Nagle::Off, Nagle::BehindAny, Nagle::BehindShort]);
    let large = 8 << 20;
    let buffer_bytes = if dice.chance(15) {
        dice.within(2, 12) * mss
    } else {
        large
    };
    let pause_ns = dice.chance(10).then(|| dice.within(50, 300) * MS);
    let buffer_bytes = match pause_ns {
        // The buffer must fill before everything has arrived.
        Some(_) => (block_bytes / 2).max(2 * mss).min(buffer_bytes),
        None => buffer_bytes,
    };
    let ios = dice.within(6, 16) as u32;
    let idle_ns = timeout_ns + dice.within(100, 2000) * MS;
    let think = dice.chance(30).then(|| (dice.within(2, 5) as u32, idle_ns));
    let lost = dice.chance(25).then(|| {
        let way = dice.one(&[
            FlowDirection::ToInitiator,
            FlowDirection::ToInitiator,
            FlowDirection::ToTarget,
        ]);
        let most = match way {
            FlowDirection::ToTarget => u64::from(ios),
            FlowDirection::ToInitiator => u64::from(ios) * (block_bytes / mss + 1),
        };
        let times = if dice.chance(15) { 2 } else { 1 };
        (way, dice.within(1, most) as usize, times)
    });
    Script {
        initiator: manner(Nagle::Off, ack_delay_ns, buffer_bytes),
        target: manner(nagle, dice.one(&[None, Some(40 * MS)]), large),
        delay_ns,
        // From 1 Gbit/s up.
        ns_per_byte: dice.one(&[0.08, 0.8, 8.0]),
        ios,
        block_bytes,
        service_ns: dice.within(10, 3000) * 1000,
        separate_status: dice.chance(60),
        join_sends: dice.chance(30),
        think,
        pause_ns,
        lost,
    }
}
