/* ECN-Echo on the receiver's request (RFC 3168 §6.1.3): the congestion control of a *receiving*
 * socket, which inspects each arriving segment and, when its owner's law says so, makes the stack
 * send ECE until the sender answers with CWR. What the socket sends itself is governed by the
 * kernel's Reno.
 *
 * The kernel reports arriving segments (`cwnd_event`) only to controls that need ECN, and only
 * where ECN was negotiated. The law, and why it spares a window, is in
 * docs/internals/relay-control.md. The simulator, which has no kernel, implements it in
 * crates/split/src/ece.rs: change both together. */
#include "control.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The kernel reports arriving segments, and makes everything sent ECN-capable: so only connections
 * with ECN get this control (signal.rs). */
#define TCP_CONG_NEEDS_ECN 2
/* In `ecn_flags` (net/tcp_ecn.h): ECE is sent until CWR arrives. */
#define TCP_ECN_DEMAND_CWR 4

#define SECOND_NS 1000000000ULL
/* Arrival rates are measured over a round trip, but at least over this time: a train of segments
 * merged into one is no rate. */
#define LEAST_ROUND_NS 1000000ULL
/* Drained bytes since the owner's last report are extrapolated for this long, in addition to bytes
 * that leave by themselves; an owner silent for longer may be as late in forwarding bytes. */
#define MOST_DRAIN_NS 2000000ULL
/* A sender that reduces its window by PRR (RFC 6937) takes a round trip for it; the reduction shows
 * in the next one. */
#define ROUNDS_OF_A_CUT 2
/* Minimum window of a sender, in segments per round trip. */
#define LEAST_WINDOW 2
/* The next segment with data answers a signal, so the answer's delay includes any pause of the
 * sender. At most this multiple of the minimum counts as a round trip, which leaves room for queues
 * on the path. */
#define MOST_ROUND_TRIPS 4
/* The kernel's minimum round-trip time, in us, before it has measured one: where the handshake was
 * retransmitted, or used a SYN cookie. RFC 6298 (2.1) assumes a second then. */
#define NO_ROUND_TRIP 0xffffffffU

/* linux/bpf.h */
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1

enum tcp_ca_event {
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* The owner's order (ece.rs). */
struct order {
	/* Number of ECE signals requested, whatever the backlog. */
	__u64 asked;
	/* Of the bytes received here, those forwarded on the other side … */
	__u64 passed_bytes;
	/* … at this time (CLOCK_MONOTONIC). */
	__u64 passed_ns;
	/* Of the others, those that leave by themselves, without the owner. */
	__u64 going_bytes;
	/* Their drain rate. */
	__u64 drain_bytes_per_s;
	/* Signal above this backlog; 0: never. */
	__u64 bound_bytes;
	/* Minimum backlog to remain at the lowest point after a reduction. */
	__u64 least_bytes;
};

/* The outcome (ece.rs). */
struct told {
	/* Segments inspected. */
	__u64 seen;
	/* ECE signals started. */
	__u64 signals;
	/* CWR answers. */
	__u64 answers;
	/* Segments above the bound without a signal: the last reduction was still taking effect … */
	__u64 recovering;
	/* … another one would have starved the outgoing side … */
	__u64 spared;
	/* … the sender could not have slowed down enough. */
	__u64 powerless;
	/* The largest backlog. */
	__u64 backlog_max_bytes;
	/* From the last signal to its answer. */
	__u64 loop_ns;
	/* In the last complete round. */
	__u64 arrival_bytes_per_s;
	/* The rest is private to this program. */
	__u64 asked;
	__u64 signalled_ns;
	__u64 round_ns;
	__u64 round_bytes;
	__u64 rounds;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct order);
} ece_orders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct told);
} ece_told SEC(".maps");

static __always_inline __u64 longer(__u64 one, __u64 other)
{
	return one > other ? one : other;
}

/* A round-trip time of this connection: that of the last answer, within bounds, or that of the
 * handshake. A socket that only receives has no other of its own; `rcv_rtt_est` includes the
 * sender's pauses. */
static __always_inline __u64 round_trip_ns(const struct tcp_sock *tp, const struct told *told)
{
	__u32 shortest_us = tp->rtt_min.s[0].v;
	__u64 shortest = SECOND_NS;
	__u64 most = SECOND_NS;
	__u64 loop;

	if (shortest_us != NO_ROUND_TRIP) {
		shortest = (__u64)shortest_us * 1000;
		most = MOST_ROUND_TRIPS * shortest;
	}
	loop = told->loop_ns ?: shortest;
	return longer(loop < most ? loop : most, 1000);
}

static __always_inline void signal(struct tcp_sock *tp, struct told *told, __u64 now)
{
	if (tp->ecn_flags & TCP_ECN_DEMAND_CWR)
		return;
	tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	told->signals++;
	told->signalled_ns = now;
}

/* Handles the answer to a signal. */
static __always_inline void hear(const struct tcp_sock *tp, struct told *told, __u64 now)
{
	if (!told->signalled_ns || tp->ecn_flags & TCP_ECN_DEMAND_CWR)
		return;
	told->loop_ns = now - told->signalled_ns;
	told->signalled_ns = 0;
	told->answers++;
	told->round_ns = now;
	told->round_bytes = tp->bytes_received;
	told->rounds = 0;
}

/* Measures the arrival rate, round by round. */
static __always_inline void measure(const struct tcp_sock *tp, struct told *told, __u64 now)
{
	__u64 passed = now - told->round_ns;
	__u64 round = longer(round_trip_ns(tp, told), LEAST_ROUND_NS);

	if (passed < round)
		return;
	/* A pause is not a slow arrival. */
	if (passed < longer(2 * round, SECOND_NS))
		told->arrival_bytes_per_s =
			(tp->bytes_received - told->round_bytes) * SECOND_NS / passed;
	told->round_ns = now;
	told->round_bytes = tp->bytes_received;
	told->rounds++;
}

/* Bytes that have arrived and not left: by the owner's last report, and estimated since. */
static __always_inline __u64 backlog_bytes(const struct tcp_sock *tp, const struct order *order,
					   __u64 now)
{
	__u64 since = now > order->passed_ns ? now - order->passed_ns : 0;
	__u64 unread = (__u32)(tp->rcv_nxt - tp->copied_seq);
	__u64 most = longer(order->going_bytes, order->drain_bytes_per_s * MOST_DRAIN_NS / SECOND_NS);
	__u64 left;

	/* More would not fit in 64 bits. */
	if (since > SECOND_NS)
		since = SECOND_NS;
	left = order->drain_bytes_per_s * since / SECOND_NS;
	if (left > most)
		left = most;
	left += order->passed_bytes;
	return longer(tp->bytes_received > left ? tp->bytes_received - left : 0, unread);
}

/* By how much the backlog falls before a sender that halves its window and then adds a segment per
 * round trip (RFC 5681) sends again as fast as it drains. CUBIC and HighSpeed TCP take less. */
static __always_inline __u64 deficit_bytes(const struct told *told, const struct order *order,
					   __u64 round_trip, __u64 mss)
{
	__u64 half = told->arrival_bytes_per_s / 2;

	if (half >= order->drain_bytes_per_s)
		return 0;
	__u64 lack = (order->drain_bytes_per_s - half) * round_trip / SECOND_NS;
	return lack * (lack + mss) / (2 * mss);
}

static __always_inline void judge(struct tcp_sock *tp, const struct order *order, struct told *told,
				  __u64 now)
{
	__u64 backlog = backlog_bytes(tp, order, now);
	__u64 round_trip = round_trip_ns(tp, told);
	__u64 mss = longer(tp->advmss, 1);

	told->backlog_max_bytes = longer(told->backlog_max_bytes, backlog);
	if (backlog <= order->bound_bytes || tp->ecn_flags & TCP_ECN_DEMAND_CWR)
		return;
	if (told->rounds < ROUNDS_OF_A_CUT || told->arrival_bytes_per_s <= order->drain_bytes_per_s)
		told->recovering++;
	else if (order->drain_bytes_per_s * round_trip < LEAST_WINDOW * mss * SECOND_NS)
		told->powerless++;
	else if (backlog < deficit_bytes(told, order, round_trip, mss) + order->least_bytes)
		told->spared++;
	else
		signal(tp, told, now);
}

SEC("struct_ops")
void BPF_PROG(ece_cwnd_event, struct sock *sk, __u32 event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct order *order;
	struct told *told;
	__u64 now;

	if (event != bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_NO_CE) &&
	    event != bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_IS_CE))
		return;
	order = bpf_sk_storage_get(&ece_orders, sk, 0, 0);
	if (!order)
		return;
	told = bpf_sk_storage_get(&ece_told, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!told)
		return;
	now = bpf_ktime_get_ns();
	told->seen++;
	hear(tp, told, now);
	measure(tp, told, now);
	if (told->asked != order->asked) {
		told->asked = order->asked;
		signal(tp, told, now);
	}
	if (order->bound_bytes)
		judge(tp, order, told, now);
}

SEC("struct_ops")
__u32 BPF_PROG(ece_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
void BPF_PROG(ece_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(ece_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops wansan_ece = {
	.ssthresh = (void *)ece_ssthresh,
	.cong_avoid = (void *)ece_cong_avoid,
	.undo_cwnd = (void *)ece_undo_cwnd,
	.cwnd_event = (void *)ece_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "wansan_ece",
};
