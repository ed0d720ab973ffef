/* Shared by all congestion controls here: slow start (RFC 5681 §3.1) and limited slow start (RFC
 * 3742), growth by fractions of a segment, and undoing a spurious reduction.
 *
 * The kernel calls `cong_avoid` for each ACK while the window may grow, calls `ssthresh` once per
 * loss event, and itself reduces the window to the result (RFC 6937). */
#pragma once

#include "kernel.h"

#define TCP_CONG_NON_RESTRICTED 1 /* any process, in any network namespace, may choose it */
#define TCP_CA_NAME_MAX 16

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*cwnd_event)(struct sock *sk, __u32 event);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[TCP_CA_NAME_MAX];
	__u32 flags;
};

/* How windows grow, set by the loader (control/data.rs). */
struct growth_rule {
	/* Above this many segments slow start adds at most half of it per round trip (RFC 3742 §2);
	 * 0: no limit. */
	__u32 max_ssthresh;
	/* 1: in congestion avoidance each ACK counts as one packet, whatever it acknowledges. */
	__u32 per_ack;
};

const volatile struct growth_rule growth_rule SEC(".rodata.growth") = {};

/* The smallest ssthresh, in segments (RFC 5681 equation 4). */
#define LEAST_SSTHRESH 2

/* Unit of growth, in fractions of a segment. */
#define PARTS 1024

/* Accumulated growth of less than a segment. */
struct growth {
	__u64 credit;
};

static __always_inline struct growth *growth_of(struct sock *sk)
{
	return (struct growth *)tcp_sk(sk)->inet_conn.icsk_ca_priv;
}

static __always_inline __u32 greater(__u32 one, __u32 other)
{
	return one > other ? one : other;
}

static __always_inline __u32 smaller(__u32 one, __u32 other)
{
	return one < other ? one : other;
}

static __always_inline bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* A window that the sender does not fill has not been validated, so it must not grow (RFC 7661
 * §4.3). In slow start half of it is enough: it doubles before the data that fills it has been
 * sent. */
static __always_inline bool window_is_tried(const struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline void set_window(struct tcp_sock *tp, __u32 segments)
{
	tp->snd_cwnd = smaller(segments, tp->snd_cwnd_clamp);
}

/* Grows by one segment per acknowledged segment, or by 1/K of one above `max_ssthresh`, up to
 * ssthresh; returns the number of acknowledged packets left for congestion avoidance. */
static __always_inline __u32 slow_start(struct tcp_sock *tp, struct growth *growth, __u32 acked)
{
	__u32 window = tp->snd_cwnd;
	__u32 room = tp->snd_ssthresh - window;
	__u32 max_ssthresh = growth_rule.max_ssthresh;
	__u32 half = max_ssthresh / 2;

	if (half && window > max_ssthresh) {
		__u32 k = window / half;
		__u64 credit = growth->credit + acked;

		set_window(tp, window + smaller(credit / k, room));
		growth->credit = credit % k;
		return 0;
	}
	set_window(tp, window + smaller(acked, room));
	return acked - smaller(acked, room);
}

/* Common to all laws: no growth of an unvalidated window, slow start below ssthresh; returns the
 * number of acknowledged packets left for congestion avoidance. */
static __always_inline __u32 left_by_slow_start(struct tcp_sock *tp, struct growth *growth,
						__u32 acked)
{
	if (!window_is_tried(tp))
		return 0;
	return in_slow_start(tp) ? slow_start(tp, growth, acked) : acked;
}

/* Congestion avoidance: grows by `parts` / PARTS segments per acknowledged window, of which these
 * were `acked` packets. */
static __always_inline void grow(struct tcp_sock *tp, struct growth *growth, __u32 acked,
				 __u64 parts)
{
	__u32 window = greater(tp->snd_cwnd, 1);
	__u64 whole = (__u64)window * PARTS;
	__u64 credit = growth->credit + parts * (growth_rule.per_ack ? 1 : acked);

	if (!acked)
		return;
	set_window(tp, window + (__u32)(credit / whole));
	growth->credit = credit % whole;
}

/* The window after a loss event that reduces it by `cut`. */
static __always_inline __u32 reduced(struct tcp_sock *tp, struct growth *growth, __u32 cut)
{
	growth->credit = 0;
	return greater(tp->snd_cwnd - smaller(cut, tp->snd_cwnd), LEAST_SSTHRESH);
}

/* The window before a spurious loss event. */
static __always_inline __u32 restored(const struct tcp_sock *tp)
{
	return greater(tp->snd_cwnd, tp->prior_cwnd);
}
