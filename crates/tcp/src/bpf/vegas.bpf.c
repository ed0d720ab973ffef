/* TCP Vegas (L. Brakmo, L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global
 * Internet", IEEE JSAC 13(8), 1995): from the round-trip times it reckons how many of its segments
 * wait in queues on the path, and holds that number between two bounds. */
#include "control.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Segments in queues: below ALPHA the window grows, above BETA it shrinks (§3.2 of the paper). */
#define ALPHA 2
#define BETA 4
/* More than so many end slow start (§3.3). */
#define GAMMA 1

struct vegas {
	struct growth growth;
	/* The shortest round-trip time ever, in us; 0: none measured yet. */
	__u32 base_rtt;
	/* The shortest of this round, in us: delayed ACKs only make others longer. 0: none yet. */
	__u32 round_rtt;
	/* The round ends when this is acknowledged. */
	__u32 round_end;
	/* Slow start doubles the window in every other round, to measure in between. */
	__u32 grows;
};

static __always_inline struct vegas *vegas_of(struct sock *sk)
{
	return (struct vegas *)tcp_sk(sk)->inet_conn.icsk_ca_priv;
}

/* Sequence numbers begin anywhere (RFC 9293 §3.4.1), so 0 is no end of a first round: seen from
 * half of all numbers it is ahead, and the round would not end before a gigabyte or two. */
SEC("struct_ops")
void BPF_PROG(vegas_init, struct sock *sk)
{
	vegas_of(sk)->round_end = tcp_sk(sk)->snd_nxt;
}

SEC("struct_ops")
void BPF_PROG(vegas_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct vegas *vegas = vegas_of(sk);
	__s32 measured = sample->rtt_us;

	if (measured < 0)
		return;
	/* 0 stands for "none". */
	__u32 rtt = greater(measured, 1);
	if (!vegas->base_rtt || rtt < vegas->base_rtt)
		vegas->base_rtt = rtt;
	if (!vegas->round_rtt || rtt < vegas->round_rtt)
		vegas->round_rtt = rtt;
}

/* From here on the window follows the round-trip times, wherever it goes: it must not come below
 * ssthresh, which would be slow start again. The next loss sets a new one. */
static __always_inline void leave_slow_start(struct tcp_sock *tp, __u32 window)
{
	tp->snd_ssthresh = LEAST_SSTHRESH;
	set_window(tp, greater(window, LEAST_SSTHRESH));
}

/* Once in a round: what the round's time says of the queues. */
static __always_inline void judge_round(struct tcp_sock *tp, struct vegas *vegas)
{
	__u32 window = tp->snd_cwnd;
	__u32 base = vegas->base_rtt;
	__u32 rtt = vegas->round_rtt;

	if (!rtt)
		return;
	/* Diff = (Expected - Actual) * BaseRTT = w * (1 - BaseRTT / RTT). */
	__u64 queued = (__u64)window * (rtt - base) / rtt;
	if (in_slow_start(tp)) {
		vegas->grows = !vegas->grows;
		/* What has gathered in queues by doubling is taken back at once, not by a segment in each
		 * round. */
		if (queued > GAMMA)
			leave_slow_start(tp, window - queued + GAMMA);
	} else if (queued < ALPHA) {
		set_window(tp, window + 1);
	} else if (queued > BETA) {
		leave_slow_start(tp, window - 1);
	}
}

SEC("struct_ops")
void BPF_PROG(vegas_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas *vegas = vegas_of(sk);

	if (!window_is_tried(tp))
		return;
	if ((__s32)(ack - vegas->round_end) > 0) {
		judge_round(tp, vegas);
		vegas->round_end = tp->snd_nxt;
		vegas->round_rtt = 0;
	}
	if (in_slow_start(tp) && vegas->grows)
		slow_start(tp, &vegas->growth, acked);
}

/* A loss is answered as Reno does. */
SEC("struct_ops")
__u32 BPF_PROG(vegas_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return reduced(tp, &vegas_of(sk)->growth, (tp->snd_cwnd + 1) / 2);
}

SEC("struct_ops")
__u32 BPF_PROG(vegas_undo_cwnd, struct sock *sk)
{
	return restored(tcp_sk(sk));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops wansan_vegas = {
	.init = (void *)vegas_init,
	.ssthresh = (void *)vegas_ssthresh,
	.cong_avoid = (void *)vegas_cong_avoid,
	.pkts_acked = (void *)vegas_pkts_acked,
	.undo_cwnd = (void *)vegas_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "wansan_vegas",
};
