/* Traces each I/O of some disks through the block and SCSI layers, and reports it on completion.
 *
 * An outstanding I/O has an entry in a table indexed by a hash of its request's address: this avoids map lookups, so that
 * an I/O costs a few hundred nanoseconds. Records go to a ring that is drained at intervals; I/Os for which the table or
 * the ring is full are counted. Only tracepoints are used: kernels in lockdown mode refuse programs attached to
 * functions. */
#include "../../../tcp/src/bpf/kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The reader polls: waking it for each record would cost more than the record. */
#define BPF_RB_NO_WAKEUP 1
/* A device's number in the kernel's encoding (MKDEV). */
#define MINOR_BITS 20
#define CDB_BYTES 16

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gendisk {
	int major;
	int first_minor;
};

struct block_device {
	struct gendisk *bd_disk;
};

struct bvec_iter {
	__u64 bi_sector;
};

struct bio {
	struct block_device *bi_bdev;
	struct bvec_iter bi_iter;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	struct bio *bio;
	__u32 cmd_flags;
	__u32 __data_len;
	__u64 __sector;
	__u64 start_time_ns;
};

struct scsi_cmnd {
	unsigned char cmnd[32];
};

#pragma clang attribute pop

/* An I/O; a time is 0 until its event. */
struct io {
	__u64 request;
	__u64 submitted_ns;
	__u64 allocated_ns;
	__u64 issued_ns;
	__u64 dispatched_ns;
	__u64 done_ns;
	__u64 completed_ns;
	__u64 sector;
	__u32 bytes;
	__u32 disk;
	__u32 operation;
	__u32 dispatches;
	__u8 cdb[CDB_BYTES];
};

/* A bio that waits for its request. */
struct waiting {
	__u64 bio;
	__u64 sector;
	__u64 time_ns;
};

/* A bitmap indexed by a hash of the disks' numbers; the reader drops I/Os of other disks with the same hash. */
#define DISK_BITS 10
const volatile __u64 disks[(1 << DISK_BITS) / 64] = {};

/* I/Os that are not reported. */
__u64 lost SEC(".data.lost") = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} ring SEC(".maps");

#define PLACE_BITS 14
struct io ios[1 << PLACE_BITS];
struct waiting bios[1 << PLACE_BITS];

/* An object's key: its distance from a table. The verifier accepts the difference of two pointers as a number, but not
 * a pointer. */
static __always_inline __u64 identity(const void *object)
{
	__u64 distance = (__u64)object;

	asm volatile("%0 -= %1" : "+r"(distance) : "r"(ios));
	return distance;
}

static __always_inline __u32 place(__u64 address, __u32 bits)
{
	return address * 0x9e3779b97f4a7c15ull >> (64 - bits);
}

/* The number of a watched disk, or 0. */
static __always_inline __u32 watched(const struct gendisk *disk)
{
	__u32 number, bit;

	if (!disk)
		return 0;
	number = (__u32)disk->major << MINOR_BITS | disk->first_minor;
	bit = place(number, DISK_BITS);
	return disks[bit / 64] >> bit % 64 & 1 ? number : 0;
}

/* The entry of `holder`: one of two. */
static __always_inline struct io *held_by(__u64 request, __u64 holder)
{
	__u32 at = place(request, PLACE_BITS);

	if (ios[at].request == holder)
		return &ios[at];
	at ^= 1;
	return ios[at].request == holder ? &ios[at] : 0;
}

/* SCSI commands follow their requests in memory (blk_mq_rq_to_pdu). */
static __always_inline struct io *of_command(const struct scsi_cmnd *command)
{
	__u64 request = identity(command) - bpf_core_type_size(struct request);

	return held_by(request, request);
}

/* A bio arrives at a disk. */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(bio_submitted, struct bio *bio)
{
	__u64 known_by = identity(bio);
	struct waiting *waiting;

	if (!watched(bio->bi_bdev->bd_disk))
		return 0;
	waiting = &bios[place(known_by, PLACE_BITS)];
	waiting->bio = known_by;
	waiting->sector = bio->bi_iter.bi_sector;
	waiting->time_ns = bpf_ktime_get_ns();
	return 0;
}

/* A request is issued to the driver, or issued again after the driver rejected it. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(request_issued, struct request *rq)
{
	__u32 disk = watched(rq->q->disk);
	__u64 request = identity(rq), bio;
	struct waiting *waiting;
	struct io *io;

	if (!disk)
		return 0;
	io = held_by(request, request);
	if (io && io->allocated_ns == rq->start_time_ns)
		return 0;
	if (!io)
		io = held_by(request, 0);
	if (!io) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	io->request = request;
	io->submitted_ns = 0;
	io->allocated_ns = rq->start_time_ns;
	io->issued_ns = bpf_ktime_get_ns();
	io->dispatched_ns = 0;
	io->done_ns = 0;
	io->sector = rq->__sector;
	io->bytes = rq->__data_len;
	io->disk = disk;
	io->operation = rq->cmd_flags;
	io->dispatches = 0;
	bio = identity(rq->bio);
	waiting = &bios[place(bio, PLACE_BITS)];
	/* A request merged into another one leaves a stale entry. */
	if (waiting->bio == bio && waiting->sector == io->sector) {
		io->submitted_ns = waiting->time_ns;
		waiting->bio = 0;
	}
	return 0;
}

SEC("tp_btf/scsi_dispatch_cmd_start")
int BPF_PROG(command_dispatched, struct scsi_cmnd *command)
{
	struct io *io = of_command(command);

	if (!io)
		return 0;
	io->dispatched_ns = bpf_ktime_get_ns();
	io->dispatches++;
	bpf_probe_read_kernel(io->cdb, sizeof(io->cdb), command->cmnd);
	return 0;
}

SEC("tp_btf/scsi_dispatch_cmd_done")
int BPF_PROG(command_done, struct scsi_cmnd *command)
{
	struct io *io = of_command(command);

	if (io)
		io->done_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(request_completed, struct request *rq, int error, unsigned int bytes)
{
	__u64 request = identity(rq);
	struct io *io;

	/* A partial completion: the rest follows. */
	if (bytes < rq->__data_len)
		return 0;
	io = held_by(request, request);
	if (!io)
		return 0;
	/* Its memory may have been reused for another I/O while tracing was paused. */
	if (io->allocated_ns == rq->start_time_ns) {
		io->completed_ns = bpf_ktime_get_ns();
		if (bpf_ringbuf_output(&ring, io, sizeof(*io), BPF_RB_NO_WAKEUP))
			__sync_fetch_and_add(&lost, 1);
	}
	io->request = 0;
	return 0;
}
