/* What every congestion control here shares: slow start (RFC 5681 §3.1) and its limited form
 * (RFC 3742), growth by parts of a segment, and undoing a reduction that was none.
 *
 * The kernel calls `cong_avoid` for each ACK while it may raise the window, asks `ssthresh` once for
 * each loss event, and takes the window down to that by itself (RFC 6937). */
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

/* How windows grow, set by who loads the program (control/data.rs). */
struct growth_rule {
	/* Above so many segments slow start adds no more than half of it in a round trip
	 * (RFC 3742 §2); 0: there is no such bound. */
	__u32 max_ssthresh;
	/* 1: in congestion avoidance each ACK counts as one packet, whatever it acknowledges. */
	__u32 per_ack;
};

const volatile struct growth_rule growth_rule SEC(".rodata.growth") = {};

/* The smallest ssthresh, in segments (RFC 5681 equation 4). */
#define LEAST_SSTHRESH 2

/* Parts of a segment in which growth is reckoned. */
#define PARTS 1024

/* What is kept of the growth that does not make up a whole segment yet. */
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

/* A window that the sender does not fill has not been tried, so it must not grow (RFC 7661 §4.3). In
 * slow start half of it is enough: it doubles before what fills it has been sent. */
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

/* Grows by a segment for each that is acknowledged, or by 1/K of one above `max_ssthresh`, up to
 * ssthresh; returns how many acknowledged packets are left for congestion avoidance. */
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

/* What every law does before it grows by its own: nothing with a window that has not been tried, slow
 * start below ssthresh; returns how many acknowledged packets are left for congestion avoidance. */
static __always_inline __u32 left_by_slow_start(struct tcp_sock *tp, struct growth *growth,
						__u32 acked)
{
	if (!window_is_tried(tp))
		return 0;
	return in_slow_start(tp) ? slow_start(tp, growth, acked) : acked;
}

/* Congestion avoidance: grows by `parts` / PARTS segments in the time in which a whole window is
 * acknowledged, of which these were `acked` packets. */
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

/* What is left of the window at a loss event that takes `cut` from it. */
static __always_inline __u32 reduced(struct tcp_sock *tp, struct growth *growth, __u32 cut)
{
	growth->credit = 0;
	return greater(tp->snd_cwnd - smaller(cut, tp->snd_cwnd), LEAST_SSTHRESH);
}

/* The window from before a loss event that was none. */
static __always_inline __u32 restored(const struct tcp_sock *tp)
{
	return greater(tp->snd_cwnd, tp->prior_cwnd);
}
