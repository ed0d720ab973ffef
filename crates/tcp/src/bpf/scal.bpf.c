/* Scalable TCP (T. Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks",
 * 2003): the window grows by a fraction of the acknowledged data, so that the time between losses
 * does not depend on the rate. */
#include "control.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The paper's a = 0.01: one segment per hundred acknowledged. */
#define ACKED_FOR_A_SEGMENT 100
/* The paper's b = 0.125. */
#define DECREASE_DIVISOR 8
/* The paper's lwnd: up to this many segments it is Reno. */
#define LEGACY_WINDOW 16

SEC("struct_ops")
void BPF_PROG(scal_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	acked = left_by_slow_start(tp, growth_of(sk), acked);
	__u64 parts = (__u64)tp->snd_cwnd * PARTS / ACKED_FOR_A_SEGMENT;
	grow(tp, growth_of(sk), acked, tp->snd_cwnd > LEGACY_WINDOW ? parts : PARTS);
}

SEC("struct_ops")
__u32 BPF_PROG(scal_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 window = tp->snd_cwnd;
	__u32 divisor = window > LEGACY_WINDOW ? DECREASE_DIVISOR : 2;

	return reduced(tp, growth_of(sk), (window + divisor - 1) / divisor);
}

SEC("struct_ops")
__u32 BPF_PROG(scal_undo_cwnd, struct sock *sk)
{
	return restored(tcp_sk(sk));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops wansan_scal = {
	.ssthresh = (void *)scal_ssthresh,
	.cong_avoid = (void *)scal_cong_avoid,
	.undo_cwnd = (void *)scal_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "wansan_scal",
};
