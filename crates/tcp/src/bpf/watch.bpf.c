/* Reports every change of TCP's windows, and its cause: open and close of a connection, each
 * congestion state entered, each retransmission, each reduction undone, and the window and
 * threshold whenever they have changed since the last segment.
 *
 * Records go to a ring buffer that is drained at intervals; records that do not fit are counted.
 * Only tracepoints are used: kernels in lockdown reject programs attached to functions. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TCP_ESTABLISHED 1
#define TCP_CLOSE 7
#define TCP_CA_CWR 2
#define TCP_CA_LOSS 4
#define TCP_ECN_OK 1
#define AF_INET6 10
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1
/* The reader polls: waking it for each record would cost more than the record. */
#define BPF_RB_NO_WAKEUP 1

/* Offset of the flags in a TCP header (RFC 9293 §3.1), and ECE among them. */
#define FLAGS_BYTE 13
#define ECE 0x40

#define NAME_BYTES 16 /* of a congestion control's name */

/* Kernel stack frames searched for the function that reduced a window. */
#define FRAMES 12

struct tcp_congestion_ops {
	char name[NAME_BYTES];
} __attribute__((preserve_access_index));

enum kind {
	CHANGE,
	STATE,
	RETRANSMIT,
	BEGIN,
	END,
	UNDO,
};

/* The state of a connection. */
struct record {
	__u64 time_ns;
	__u64 cookie;
	__u64 acked_bytes;
	__u64 pacing_bytes_per_s;
	__u32 kind;
	/* For STATE: the state entered; otherwise the present one. */
	__u32 congestion_state;
	__u32 cwnd_packets;
	__u32 ssthresh_packets;
	__u32 mss_bytes;
	__u32 in_flight_packets;
	/* Eighths of a microsecond. */
	__u32 srtt;
	__u32 rwnd_bytes;
	__u32 unsent_bytes;
	__u32 retransmits;
	__u32 delivered_ce;
	__u32 timeouts;
};

struct begun {
	struct record record;
	__u16 local_port;
	__u16 remote_port;
	__u32 interface;
	__u64 family;
	__be32 local[4];
	__be32 remote[4];
	char congestion_control[NAME_BYTES];
};

struct state_entered {
	struct record record;
	/* Whether the last received segment had ECE set. */
	__u64 ece;
	/* Return addresses, innermost first; 0 after the last. */
	__u64 callers[FRAMES];
};

/* The number of the watched network namespace. */
const volatile __u32 namespace_number = 0;

/* Records dropped because the ring buffer was full. */
__u64 lost_records = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

/* The last observed state of a socket. */
struct told {
	__u32 cwnd_packets;
	__u32 ssthresh_packets;
	__u32 undo_marker;
	__u32 ece;
	__u32 delivered_ce;
};

/* Fast path for most segments: one word per socket in a table that stays in the cache, with its
 * windows as last observed, or 0 where a full check is needed. */
#define GLANCES 4096
__u64 glances[GLANCES];

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct told);
} sockets SEC(".maps");

static __always_inline struct tcp_sock *watched(const struct sock *sk)
{
	if (sk->__sk_common.skc_net.net->ns.inum != namespace_number)
		return 0;
	return bpf_skc_to_tcp_sock((void *)sk);
}

static __always_inline struct told *told_of(struct tcp_sock *tp)
{
	return bpf_sk_storage_get(&sockets, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

static __always_inline __u64 cookie_of(const struct sock *sk)
{
	return sk->__sk_common.skc_cookie.counter;
}

/* The word for the windows of a socket. Cookies are unique, so another socket in the same slot is
 * not mistaken for this one. */
static __always_inline __u64 windows_word(__u64 cookie, const struct tcp_sock *tp)
{
	return ((__u64)tp->snd_cwnd << 32 | tp->snd_ssthresh) + cookie * 0x9e3779b97f4a7c15ull;
}

static __always_inline void lose(void)
{
	__sync_fetch_and_add(&lost_records, 1);
}

static __always_inline void fill(struct record *record, struct tcp_sock *tp, __u32 kind)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	record->time_ns = bpf_ktime_get_ns();
	record->cookie = bpf_get_socket_cookie(tp);
	record->acked_bytes = tp->bytes_acked;
	record->pacing_bytes_per_s = sk->sk_pacing_rate;
	record->kind = kind;
	record->congestion_state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	record->cwnd_packets = tp->snd_cwnd;
	record->ssthresh_packets = tp->snd_ssthresh;
	record->mss_bytes = tp->mss_cache;
	record->in_flight_packets =
		tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
	record->srtt = tp->srtt_us;
	record->rwnd_bytes = tp->snd_wnd;
	record->unsent_bytes = tp->write_seq - tp->snd_nxt;
	record->retransmits = tp->total_retrans;
	record->delivered_ce = tp->delivered_ce;
	record->timeouts = 0;
	if (bpf_core_field_exists(tp->total_rto_recoveries))
		record->timeouts = tp->total_rto_recoveries;
}

static __always_inline void tell(struct tcp_sock *tp, __u32 kind)
{
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record) {
		lose();
		return;
	}
	fill(record, tp, kind);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Whether a reduction has been undone: the state needed to undo it is cleared, and the window or
 * the threshold is above its value after the reduction. */
static __always_inline bool is_undone(const struct told *told, const struct tcp_sock *tp)
{
	return told->undo_marker && !tp->undo_marker &&
	       (tp->snd_ssthresh > told->ssthresh_packets || tp->snd_cwnd > told->cwnd_packets);
}

static __always_inline void remember(struct told *told, const struct tcp_sock *tp)
{
	told->cwnd_packets = tp->snd_cwnd;
	told->ssthresh_packets = tp->snd_ssthresh;
	told->undo_marker = tp->undo_marker;
	told->delivered_ce = tp->delivered_ce;
}

/* Whether the segment being processed has ECE set. tcp_probe does not report segments received
 * after this end has sent everything (FIN-WAIT), but their acknowledgements are counted before. */
static __always_inline bool echoes(const struct told *told, const struct tcp_sock *tp)
{
	return told->ece || told->delivered_ce != tp->delivered_ce;
}

/* A segment was received: the windows are as left by earlier ones. This runs for each segment that
 * any connection of the machine receives, so unchanged state must be detected quickly. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(segment_came, struct sock *sk, struct sk_buff *skb)
{
	struct tcp_sock *tp = watched(sk);
	__u64 cookie, windows, *glance;
	struct told *told;
	__u8 flags = 0;

	if (!tp)
		return 0;
	cookie = cookie_of(sk);
	windows = windows_word(cookie, tp);
	glance = &glances[cookie % GLANCES];
	if (*glance == windows)
		return 0;
	told = told_of(tp);
	if (!told)
		return 0;
	if (tp->ecn_flags & TCP_ECN_OK) {
		bpf_probe_read_kernel(&flags, sizeof(flags), skb->data + FLAGS_BYTE);
		told->ece = flags & ECE;
		told->delivered_ce = tp->delivered_ce;
	} else if (cookie && !tp->undo_marker) {
		*glance = windows;
	}
	if (told->cwnd_packets == tp->snd_cwnd && told->ssthresh_packets == tp->snd_ssthresh &&
	    told->undo_marker == tp->undo_marker)
		return 0;
	if (is_undone(told, tp))
		tell(tp, UNDO);
	else if (told->cwnd_packets != tp->snd_cwnd || told->ssthresh_packets != tp->snd_ssthresh)
		tell(tp, CHANGE);
	remember(told, tp);
	return 0;
}

/* The function that set it distinguishes ECN-Echo from a full queue of the local host. */
SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(state_set, struct sock *sk, __u32 state)
{
	struct tcp_sock *tp = watched(sk);
	struct state_entered *entered;
	struct told *told;
	__u32 before;

	if (!tp)
		return 0;
	before = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	/* Each timeout is one, even consecutive ones. */
	if (state == before && state != TCP_CA_LOSS)
		return 0;
	told = told_of(tp);
	if (!told)
		return 0;
	/* An undo is visible only by comparison with the state remembered here. */
	glances[cookie_of(sk) % GLANCES] = 0;
	if (is_undone(told, tp))
		tell(tp, UNDO);
	entered = bpf_ringbuf_reserve(&ring, sizeof(*entered), 0);
	if (!entered) {
		lose();
		return 0;
	}
	fill(&entered->record, tp, STATE);
	entered->record.congestion_state = state;
	entered->ece = echoes(told, tp);
	__builtin_memset(entered->callers, 0, sizeof(entered->callers));
	if (state == TCP_CA_CWR)
		bpf_get_stack(ctx, entered->callers, sizeof(entered->callers), 0);
	bpf_ringbuf_submit(entered, BPF_RB_NO_WAKEUP);
	remember(told, tp);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(segment_sent_again, struct sock *sk)
{
	struct tcp_sock *tp = watched(sk);

	if (tp)
		tell(tp, RETRANSMIT);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(connection_state_set, struct sock *sk, int before, int state)
{
	struct sock_common *common;
	struct tcp_sock *tp;
	struct begun *begun;

	if (state != TCP_ESTABLISHED && state != TCP_CLOSE)
		return 0;
	tp = watched(sk);
	if (!tp)
		return 0;
	if (state == TCP_CLOSE) {
		tell(tp, END);
		return 0;
	}
	begun = bpf_ringbuf_reserve(&ring, sizeof(*begun), 0);
	if (!begun) {
		lose();
		return 0;
	}
	fill(&begun->record, tp, BEGIN);
	common = &tp->inet_conn.icsk_inet.sk.__sk_common;
	begun->family = common->skc_family;
	begun->local_port = common->skc_num;
	begun->remote_port = __builtin_bswap16(common->skc_dport);
	begun->interface = common->skc_bound_dev_if;
	bpf_probe_read_kernel_str(begun->congestion_control, sizeof(begun->congestion_control),
				  tp->inet_conn.icsk_ca_ops->name);
	if (begun->family == AF_INET6) {
		for (int i = 0; i < 4; i++) {
			begun->local[i] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			begun->remote[i] = common->skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		begun->local[0] = common->skc_rcv_saddr;
		begun->remote[0] = common->skc_daddr;
	}
	bpf_ringbuf_submit(begun, BPF_RB_NO_WAKEUP);
	return 0;
}
