# Sums perf's samples (number, thread, object, symbol) of the target and of the load generator by what they were in, and
# prints the time that each takes for an I/O. The first rule that a symbol meets counts.

function what(object, symbol) {
  if (object !~ /kernel/) {
    if (symbol ~ /mem(move|cpy|set)/) return "copying, between store, buffers and commands"
    if (object ~ /vdso/ || symbol ~ /clock_gettime/) return "reading the clock"
    if (object ~ /libc|ld-linux/) return "the C library, its system calls"
    if (symbol ~ /wansan_iscsi/) return "iSCSI and SCSI"
    if (symbol ~ /wansan_(san|server|workload)|wansan::/) return "drivers, store and load"
    return "other code of wansan"
  }
  if (symbol ~ /copy_(user|to|from)|rep_movs|rep_stos|copyin|copyout|clear_(page|user)|memcpy|memset|skb_copy|csum/) return "kernel: copying"
  if (symbol ~ /entry_SYSCALL|syscall_|do_syscall|sys_|sysret|fdget|__fget|sock_(send|recv)msg|sockfd|exit_to_user|x64_/) return "kernel: entering and leaving"
  if (symbol ~ /tcp|inet_|ip_|ipv4|nf_|dst_|sk_|sock_|skb|net_rx|netif|napi|dev_|loopback|xmit|qdisc|bictcp|cubic|bbr/) return "kernel: TCP, IP and loopback"
  if (symbol ~ /sched|wake|futex|switch|ep_|epoll|idle|pick_|enqueue|dequeue|update_|select_|rq_|ttwu|finish_task|hrtimer|timerqueue/) return "kernel: waiting and waking"
  if (symbol ~ /alloc|free|slab|page|folio|kmem|charge|mem_cgroup|refill|___|get_obj|put_/) return "kernel: memory"
  if (symbol ~ /softirq|irq|interrupt|apic|hv_|pv_|spin|lock/) return "kernel: interrupts and locks"
  return "kernel: other"
}

/^[[:space:]]*[0-9]/ {
  # The target's threads have names of their own.
  end = $2 ~ /:(target|store)-[0-9]/ ? "target" : "bench"
  samples[what($3, $4), end] += $1
  known[what($3, $4)] += $1
  total[end] += $1
}

END {
  if (!(iops > 0)) { print "the load has not run" > "/dev/stderr"; exit 2 }
  ns = 1e9 / rate / (iops * time_s)
  printf "\n%d in flight: %d I/O/s, one in %d ns\n", parallel, iops, 1e9 / iops
  printf "%-46s %12s %12s\n", "processor time of one 4 KiB read, in ns", "target", "bench"
  command = "sort -t '\t' -k 1,1nr | cut -f 2"
  for (name in known)
    printf "%d\t%-46s %12d %12d\n", known[name], name, samples[name, "target"] * ns, samples[name, "bench"] * ns | command
  close(command)
  printf "%-46s %12d %12d\n", "all", total["target"] * ns, total["bench"] * ns
}
