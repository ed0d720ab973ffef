/* Traces each command of the kernel's target (LIO) from its start until its store has completed it.
 *
 * As in block.bpf.c, an outstanding command has an entry in a table indexed by a hash of its address. */
#include "../../../tcp/src/bpf/kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define BPF_RB_NO_WAKEUP 1
#define CDB_BYTES 16

struct se_cmd {
	__u64 tag;
	__u64 orig_fe_lun;
	unsigned char *t_task_cdb;
} __attribute__((preserve_access_index));

struct command {
	__u64 address;
	__u64 began_ns;
	__u64 done_ns;
	__u64 tag;
	__u64 lun;
	__u8 cdb[CDB_BYTES];
};

/* Commands that are not reported. */
__u64 lost SEC(".data.lost") = 0;

/* Since when no command was missed, in bpf_ktime_get_ns() time: the reader sets it before it resumes the programs. */
__u64 since_ns SEC(".data.since") = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} ring SEC(".maps");

#define PLACE_BITS 14
struct command commands[1 << PLACE_BITS];

/* An object's key, as in block.bpf.c. */
static __always_inline __u64 identity(const void *object)
{
	__u64 distance = (__u64)object;

	asm volatile("%0 -= %1" : "+r"(distance) : "r"(commands));
	return distance;
}

/* Whether an entry is that of `address`, or, for `address` 0, free. A command started before a pause may have ended
 * meanwhile, and its memory may have been reused: its entry counts as free. */
static __always_inline bool is_held_by(const struct command *command, __u64 address)
{
	bool is_current = command->address && command->began_ns >= since_ns;

	return is_current ? command->address == address : !address;
}

/* The entry of `holder`: one of two. */
static __always_inline struct command *held_by(__u64 address, __u64 holder)
{
	__u32 at = address * 0x9e3779b97f4a7c15ull >> (64 - PLACE_BITS);

	if (is_held_by(&commands[at], holder))
		return &commands[at];
	at ^= 1;
	return is_held_by(&commands[at], holder) ? &commands[at] : 0;
}

SEC("tp_btf/target_sequencer_start")
int BPF_PROG(command_began, struct se_cmd *cmd)
{
	__u64 address = identity(cmd);
	struct command *command = held_by(address, address);

	/* A command that ended without an event, such as an aborted one, is replaced by the next at its address. */
	if (!command)
		command = held_by(address, 0);
	if (!command) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	command->address = address;
	command->began_ns = bpf_ktime_get_ns();
	command->tag = cmd->tag;
	command->lun = cmd->orig_fe_lun;
	bpf_probe_read_kernel(command->cdb, sizeof(command->cdb), cmd->t_task_cdb);
	return 0;
}

SEC("tp_btf/target_cmd_complete")
int BPF_PROG(command_done, struct se_cmd *cmd)
{
	__u64 address = identity(cmd);
	struct command *command = held_by(address, address);

	if (!command)
		return 0;
	command->done_ns = bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&ring, command, sizeof(*command), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&lost, 1);
	command->address = 0;
	return 0;
}
