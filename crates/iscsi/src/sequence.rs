//! Serial numbers: CmdSN, StatSN and their limits (RFC 7143 §4.2.2).

use core::fmt;

/// A 32-bit serial number: CmdSN, ExpCmdSN, MaxCmdSN, StatSN or ExpStatSN.
///
/// Serial numbers wrap, so they are ordered only while less than 2^31 apart (RFC 1982 with
/// SERIAL_BITS = 32, as RFC 7143 §4.2.2.1 requires). Hence there is no `Ord`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sn(pub u32);

impl Sn {
    /// Whether `self` comes before `other` (RFC 1982 §3.2). False both ways for two numbers exactly
    /// 2^31 apart, whose order is undefined.
    #[inline]
    #[must_use]
    pub const fn lt(self, other: Sn) -> bool {
        let ahead = other.0.wrapping_sub(self.0);
        ahead != 0 && ahead < 1 << 31
    }

    /// Whether `self` is `other` or comes before it.
    #[inline]
    #[must_use]
    pub const fn le(self, other: Sn) -> bool {
        other.0.wrapping_sub(self.0) < 1 << 31
    }

    /// The number `count` places after `self` (RFC 1982 §3.1).
    #[inline]
    #[must_use]
    pub const fn add(self, count: u32) -> Sn {
        Sn(self.0.wrapping_add(count))
    }

    /// The number `count` places before `self`, such as the MaxCmdSN of a closed window, which is
    /// ExpCmdSN − 1.
    #[inline]
    #[must_use]
    pub const fn sub(self, count: u32) -> Sn {
        Sn(self.0.wrapping_sub(count))
    }

    /// The next number.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Sn {
        self.add(1)
    }

    /// The distance from `earlier` up to `self`, modulo 2^32.
    #[inline]
    #[must_use]
    pub const fn distance(self, earlier: Sn) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

impl fmt::Display for Sn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers around the wrap and around half the circle occur far more often than by chance.
    fn serial() -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            (0_u32..4).prop_map(|n| n.wrapping_sub(2)),
            (0_u32..4).prop_map(|n| (1_u32 << 31).wrapping_add(n).wrapping_sub(2)),
        ]
    }

    proptest! {
        /// The model never wraps: 64-bit counters, of which the wire carries the low half.
        #[test]
        fn order_agrees_with_counters_that_never_wrap(
            turns in 0_u64..1 << 20,
            low in serial(),
            step in serial().prop_filter("defined order", |step| *step < 1 << 31),
        ) {
            let earlier = (turns << 32) + u64::from(low);
            let later = earlier + u64::from(step);
            let (a, b) = (Sn(earlier as u32), Sn(later as u32));
            prop_assert_eq!(a.add(step), b);
            prop_assert_eq!(b.sub(step), a);
            prop_assert_eq!(b.distance(a), step);
            prop_assert_eq!(a.lt(b), earlier < later);
            prop_assert_eq!(a.le(b), earlier <= later);
            prop_assert_eq!(b.lt(a), false);
            prop_assert_eq!(b.le(a), earlier == later);
            prop_assert_eq!(a.next(), a.add(1));
        }

        #[test]
        fn half_the_circle_apart_has_no_order(low in serial()) {
            let (a, b) = (Sn(low), Sn(low).add(1 << 31));
            prop_assert!(!a.lt(b) && !b.lt(a) && !a.le(b) && !b.le(a));
        }
    }
}
