//! manifest.json: everything that a reader needs to trust or repeat a result.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::table::tables;

tables! {
    /// The content of manifest.json.
    Manifest {
        /// The plan's name.
        plan: String,
        /// The plan's file.
        plan_file: String,
        /// Whether that is its quick form.
        quick: bool,
        /// The plan with every default in it.
        document: Value,
        /// The files that the plan names, by their names in it.
        files: BTreeMap<String, FileFacts>,
        /// The parameters set over the plan in the advised phase.
        advised: BTreeMap<String, String>,
        /// The random seed.
        seed: Option<u32>,
        /// wansan's version.
        wansan_version: Option<String>,
        /// The commit that it was built from, or `unknown`.
        wansan_commit: Option<String>,
        /// How the lab got the privilege to create namespaces.
        rights: String,
        /// The machine.
        machine: Machine,
        /// Readings of both clocks, to convert between them: records are CLOCK_MONOTONIC.
        clock_anchors: Vec<ClockAnchor>,
        /// Offloads disabled on every link, by ethtool's names.
        offloads_off: Vec<String>,
        /// The largest super-frame that a host leaves to its link to segment (Linux: `gso_max_size`); the emulator
        /// segments it. With netem, hosts send packets one by one.
        super_frame_max_bytes: u32,
        /// The definition of a byte on a path.
        path_bytes: String,
        /// The real computers that serve as hosts; none in other worlds.
        hosts: Vec<HostFacts>,
        /// Measurements of their paths before the first cell, in both directions.
        measured_paths: Vec<MeasuredPath>,
        /// The workers of a cluster that ran its cells; none if the lab ran them itself.
        workers: Vec<WorkerFacts>,
        /// The world of each cell.
        cells: Vec<CellFacts>,
    }

    /// A real computer that serves as a host.
    HostFacts {
        /// Its name in the plan.
        host: String,
        /// Its destination for `ssh`.
        ssh: String,
        /// The numeric user ID of the programs there.
        uid: u32,
        /// The version of `wansan` there.
        wansan_version: String,
        /// The commit that it was built from, or `unknown`.
        wansan_commit: String,
        /// The SHA-256 of its program, in hexadecimal.
        wansan_sha256: String,
        /// The computer.
        machine: Machine,
    }

    /// A worker of a cluster.
    WorkerFacts {
        /// Its address.
        worker: String,
        /// The version of `wansan` there.
        wansan_version: String,
        /// The commit that it was built from, or `unknown`.
        wansan_commit: String,
        /// The SHA-256 of its program, in hexadecimal.
        wansan_sha256: String,
        /// The computer.
        machine: Machine,
        /// A reading of both its clocks: records of cells in its namespaces use its CLOCK_MONOTONIC.
        clock_anchor: ClockAnchor,
    }

    /// Measurement of a path between two real hosts in one direction before the first cell: one TCP connection
    /// without other load (`wansan stream send`).
    MeasuredPath {
        /// Its name in the plan.
        path: String,
        /// The host that sent.
        from: String,
        /// The host that received.
        to: String,
        /// The minimum RTT of a mark in the stream.
        rtt_min_ns: Option<u64>,
        /// The median RTT, while the stream filled the path.
        rtt_p50_ns: Option<u64>,
        /// The throughput of the stream.
        bytes_per_s: Option<f64>,
        /// Retransmitted segments.
        retransmits: u64,
        /// Their share of all segments, assumed to be full (1,448 bytes): approximately the loss rate.
        lost_share: Option<f64>,
        /// The duration of the stream, in seconds.
        elapsed_s: f64,
    }

    /// The clock of a real host during a cell, by which its records are converted.
    ClockFacts {
        /// The host.
        host: String,
        /// A reference time of its CLOCK_MONOTONIC.
        at_ns: u64,
        /// Its offset from the lab's clock at that time; positive if it is ahead.
        ahead_ns: i64,
        /// Its drift against the lab's clock, in ns per second.
        drift_ppb: f64,
        /// The method: `packets`, from I/Os that two hosts observed; or `exchanges` over ssh.
        by: String,
        /// The other host, or `lab`.
        relative_to: String,
        /// The maximum error of the conversion to that host's clock, if both clocks run evenly.
        error_ns: u64,
    }

    /// A file that the plan names.
    FileFacts {
        /// The SHA-256 of its content, in hexadecimal.
        sha256: String,
        /// The path of its copy, relative to the run's folder.
        copy: String,
    }

    /// Facts about the machine. Unknown ones are empty.
    Machine {
        /// Kernel name, release and version, as uname(2) gives them.
        kernel: String,
        /// Architecture.
        architecture: String,
        /// The CPU model.
        cpu: String,
        /// The number of CPUs available to the lab.
        cpus: u64,
        /// Memory in bytes.
        memory_bytes: u64,
        /// The kernel's clock source.
        clock_source: String,
        /// The kernel's scheduler tick rate, if its configuration can be read, and other scheduling settings, by
        /// the names of their files.
        scheduling: BTreeMap<String, String>,
        /// Available congestion controls (`net.ipv4.tcp_available_congestion_control`).
        congestion_controls_available: String,
        /// Those that unprivileged processes may use (`net.ipv4.tcp_allowed_congestion_control`).
        congestion_controls_allowed: String,
    }

    /// CLOCK_MONOTONIC and CLOCK_REALTIME read together.
    ClockAnchor {
        /// CLOCK_MONOTONIC.
        monotonic_ns: u64,
        /// CLOCK_REALTIME, since 1970.
        realtime_ns: u64,
        /// The time to read both: the anchor's uncertainty.
        uncertainty_ns: u64,
    }

    /// The world of one cell.
    CellFacts {
        /// The cell's number.
        cell: u64,
        /// The worker that ran it; null if the lab did.
        worker: Option<String>,
        /// The congestion control of its connections.
        congestion_control: ControlFacts,
        /// Its hosts and routers.
        nodes: Vec<NodeFacts>,
        /// The clocks of real hosts.
        clocks: Vec<ClockFacts>,
        /// The command line of every program, by host.
        programs: BTreeMap<String, String>,
        /// Its tunnels.
        tunnels: Vec<TunnelFacts>,
        /// The emulator's accuracy in each direction of each path.
        paths: Vec<PathFacts>,
        /// netem's configuration in the WAN's namespace, if it emulated the paths.
        netem_commands: Vec<String>,
        /// Frames lost because the emulator was not scheduled in time.
        emulator_ring_drops: u64,
        /// Frames without a destination.
        emulator_strays: u64,
        /// Frames dropped because they could not be segmented into wire packets.
        emulator_offloaded: u64,
        /// Frames that the kernel refused to send.
        emulator_send_failures: u64,
        /// CPU time of the emulator.
        emulator_cpu_ns: u64,
        /// The scheduling policy of the emulator's thread.
        emulator_scheduling: String,
    }

    /// The congestion control of a cell's connections.
    ControlFacts {
        /// Its name.
        name: String,
        /// `lab`: wansan's, loaded by the lab for the run; `before`: wansan's, already loaded;
        /// `simulator`: any in a simulated world; `kernel`: any other.
        origin: String,
        /// Its parameters: null for the kernel's, and if they cannot be read.
        parameters: Option<Value>,
    }

    /// One host or router of a cell's world.
    NodeFacts {
        /// Its name.
        name: String,
        /// `host` or `router`.
        role: String,
        /// Its address for other hosts.
        address: String,
        /// All its addresses by interface.
        addresses: BTreeMap<String, Vec<String>>,
        /// Its routes beyond its neighbours, in the syntax of `ip route`.
        routes: Vec<String>,
        /// Its rules, in the syntax of `ip rule`.
        rules: Vec<String>,
        /// The kernel settings in force in its namespace.
        settings: BTreeMap<String, String>,
    }

    /// An established tunnel.
    TunnelFacts {
        /// Its name.
        name: String,
        /// `wireguard` or `ipsec`.
        vpn: String,
        /// The cipher of IPsec; null for WireGuard.
        cipher: Option<String>,
        /// The program at both ends.
        program: String,
        /// The device at the near router; none in a simulated world. IPsec tunnels that end at one router share its device.
        near_device: String,
        /// The device at the far router.
        far_device: String,
        /// The longest packet that fits through it without fragmentation of the outer packet.
        mtu_bytes: u32,
        /// The encapsulation overhead of the longest packet.
        overhead_bytes: u32,
    }

    /// One direction of a path.
    PathFacts {
        /// Its name.
        name: String,
        /// The requested one-way delay.
        delay_ns: u64,
        /// Lateness of frames: median.
        lateness_p50_ns: u64,
        /// Lateness of frames: 99th percentile.
        lateness_p99_ns: u64,
        /// Lateness of frames: maximum.
        lateness_max_ns: u64,
        /// Packets that came in.
        in_packets: u64,
        /// Packets that came out.
        out_packets: u64,
        /// Packets dropped by the queue.
        queue_drops: u64,
        /// Packets dropped by the loss element.
        loss_drops: u64,
    }
}
