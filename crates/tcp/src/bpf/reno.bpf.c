/* Reno: additive increase, multiplicative decrease (RFC 5681 §3.1). */
#include "control.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("struct_ops")
void BPF_PROG(reno_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	acked = left_by_slow_start(tp, growth_of(sk), acked);
	/* Equation 3: one segment per round trip. */
	grow(tp, growth_of(sk), acked, PARTS);
}

/* Equation 4: half of the window. */
SEC("struct_ops")
__u32 BPF_PROG(reno_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return reduced(tp, growth_of(sk), (tp->snd_cwnd + 1) / 2);
}

SEC("struct_ops")
__u32 BPF_PROG(reno_undo_cwnd, struct sock *sk)
{
	return restored(tcp_sk(sk));
}

SEC(".struct_ops.link")
struct tcp_congestion_ops wansan_reno = {
	.ssthresh = (void *)reno_ssthresh,
	.cong_avoid = (void *)reno_cong_avoid,
	.undo_cwnd = (void *)reno_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "wansan_reno",
};
