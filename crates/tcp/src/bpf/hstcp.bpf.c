/* HighSpeed TCP (RFC 3649): the increase a(w) grows and the decrease b(w) shrinks with the window. */
#include "control.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* A row per sixteenth of a doubling of the window, up to 2^21 segments. */
#define ROWS_PER_DOUBLING_LOG2 4
#define ROWS_PER_DOUBLING (1 << ROWS_PER_DOUBLING_LOG2)
#define DOUBLINGS 21
#define ROWS (DOUBLINGS * ROWS_PER_DOUBLING + 1)
/* Interpolation steps between two rows. */
#define STEPS_LOG2 8

/* Unit of the decrease: log2 of the parts of a window. */
#define DECREASE_LOG2 16

struct row {
	/* a(w): growth per round trip, in segments / PARTS. */
	__u32 increase;
	/* b(w): reduction of the window per loss event, in 1 / 2^DECREASE_LOG2. */
	__u32 decrease;
};

/* RFC 3649's parameters as set by the loader, kept for display (control/data.rs), and the table
 * derived from them. */
struct law {
	/* Low_Window, High_Window, Low_P, High_P, High_Decrease: the bits of doubles. */
	__u64 given[5];
	/* Up to this many segments it is Reno. */
	__u64 low_window;
	struct row rows[ROWS];
};

const volatile struct law law SEC(".rodata.law") = {};

static __always_inline __u32 log2_of(__u32 value)
{
	__u32 log = 0;

	if (value >> 16) { value >>= 16; log += 16; }
	if (value >> 8) { value >>= 8; log += 8; }
	if (value >> 4) { value >>= 4; log += 4; }
	if (value >> 2) { value >>= 2; log += 2; }
	return log + (value >> 1);
}

/* The row of that index, or the last one beyond the table. */
static __always_inline const volatile struct row *row_at(__u64 row)
{
	/* The verifier tracks the very register that is compared. */
	barrier_var(row);
	if (row > ROWS - 1)
		row = ROWS - 1;
	barrier_var(row);
	return &law.rows[row];
}

/* a(w) and b(w), as in RFC 3649 §5. */
static __always_inline struct row law_at(__u32 window)
{
	struct row at = { .increase = PARTS, .decrease = 1 << (DECREASE_LOG2 - 1) };

	if (window <= law.low_window)
		return at;
	__u64 log = log2_of(window);
	__u64 place = ((__u64)window << (ROWS_PER_DOUBLING_LOG2 + STEPS_LOG2)) >> log;
	__u64 row = (log << ROWS_PER_DOUBLING_LOG2) +
		    ((place >> STEPS_LOG2) & (ROWS_PER_DOUBLING - 1));
	__s64 step = place & ((1 << STEPS_LOG2) - 1);
	const volatile struct row *from = row_at(row);
	const volatile struct row *to = row_at(row + 1);
	__s64 increase = from->increase;
	__s64 decrease = from->decrease;

	at.increase = increase + (((to->increase - increase) * step) >> STEPS_LOG2);
	at.decrease = decrease + (((to->decrease - decrease) * step) >> STEPS_LOG2);
	return at;
}

SEC("struct_ops")
void BPF_PROG(hstcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	acked = left_by_slow_start(tp, growth_of(sk), acked);
	grow(tp, growth_of(sk), acked, law_at(tp->snd_cwnd).increase);
}

SEC("struct_ops")
__u32 BPF_PROG(hstcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 window = tp->snd_cwnd;
	__u64 cut = window * law_at(window).decrease;

	return reduced(tp, growth_of(sk), (cut + (1 << DECREASE_LOG2) - 1) >> DECREASE_LOG2);
}

SEC("struct_ops")
__u32 BPF_PROG(hstcp_undo_cwnd, struct sock *sk)
{
	return restored(tcp_sk(sk));
}

/* The law at a window, for the tests: in, the window; out, the row. */
struct question {
	__u32 window;
	struct row row;
};

SEC("syscall")
int hstcp_law_at(struct question *question)
{
	question->row = law_at(question->window);
	return 0;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops wansan_hstcp = {
	.ssthresh = (void *)hstcp_ssthresh,
	.cong_avoid = (void *)hstcp_cong_avoid,
	.undo_cwnd = (void *)hstcp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "wansan_hstcp",
};
