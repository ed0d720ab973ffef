//! manifest.json: everything that a later reader needs to trust a result or to repeat it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::table::tables;

tables! {
    /// The content of manifest.json.
    Manifest {
        /// The plan's name.
        plan: String,
        /// The file that it was read from.
        plan_file: String,
        /// Whether that is its quick form.
        quick: bool,
        /// The plan with every default in it.
        document: Value,
        /// The files that the plan names, by their names in it.
        files: BTreeMap<String, FileFacts>,
        /// The parameters set over the plan in the advised phase.
        advised: BTreeMap<String, String>,
        /// Where all randomness began.
        seed: Option<u32>,
        /// wansan's version.
        wansan_version: Option<String>,
        /// The commit that it was built from, or `unknown`.
        wansan_commit: Option<String>,
        /// How the lab got the right to make namespaces.
        rights: String,
        /// The machine.
        machine: Machine,
        /// Readings of both clocks, to convert between them: records are CLOCK_MONOTONIC.
        clock_anchors: Vec<ClockAnchor>,
        /// Switched off on every link, by ethtool's names.
        offloads_off: Vec<String>,
        /// The longest super-frame that a host leaves to its link to segment; the emulator cuts it
        /// into packets. As Linux has it, `gso_max_size`. By netem, hosts send packets one by one.
        super_frame_max_bytes: u32,
        /// What a byte on a path is.
        path_bytes: String,
        /// The real computers that are its hosts; none in another world.
        hosts: Vec<HostFacts>,
        /// What their paths were like before the first cell, measured in both directions.
        measured_paths: Vec<MeasuredPath>,
        /// The workers of an engine that have run its cells; none where the lab has.
        workers: Vec<WorkerFacts>,
        /// What was built and measured in each cell.
        cells: Vec<CellFacts>,
    }

    /// A real computer that is a host.
    HostFacts {
        /// Its name in the plan.
        host: String,
        /// What `ssh` calls it.
        ssh: String,
        /// The user that programs ran as there, by number.
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

    /// A worker of an engine.
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
        /// A reading of both its clocks: records of cells in its namespaces are of its CLOCK_MONOTONIC.
        clock_anchor: ClockAnchor,
    }

    /// What a path between two real hosts was like in one direction before the first cell: one TCP connection
    /// without any other load (`wansan stream send`).
    MeasuredPath {
        /// Its name in the plan.
        path: String,
        /// The host that sent.
        from: String,
        /// The host that received.
        to: String,
        /// The shortest round trip of a mark in the stream.
        rtt_min_ns: Option<u64>,
        /// The median of those, while the stream filled the path.
        rtt_p50_ns: Option<u64>,
        /// What the stream reached.
        bytes_per_s: Option<f64>,
        /// Segments that were sent again.
        retransmits: u64,
        /// Their share of all segments, each taken to be full (1,448 bytes): what was lost, about.
        lost_share: Option<f64>,
        /// For how long it sent, in seconds.
        elapsed_s: f64,
    }

    /// What the clock of a real host showed while a cell ran. Its records are converted by it.
    ClockFacts {
        /// The host.
        host: String,
        /// A moment of its CLOCK_MONOTONIC.
        at_ns: u64,
        /// By how much that was ahead of the lab's then.
        ahead_ns: i64,
        /// By how much it gained on the lab's, in ns for each second.
        drift_ppb: f64,
        /// What that is estimated from: `packets`, what two hosts saw of the same I/Os; or `exchanges` over ssh.
        by: String,
        /// The other host that saw these, or `lab`.
        relative_to: String,
        /// By how much the conversion to that one's clock may be wrong at most, as long as both clocks are even.
        error_ns: u64,
    }

    /// A file that the plan names.
    FileFacts {
        /// The SHA-256 of what is in it, in hexadecimal.
        sha256: String,
        /// Where its copy is, from the run's folder.
        copy: String,
    }

    /// What is known about the machine. What it does not tell is empty.
    Machine {
        /// Kernel name, release and version, as uname(2) gives them.
        kernel: String,
        /// Architecture.
        architecture: String,
        /// The processor's name.
        cpu: String,
        /// How many processors the lab may use.
        cpus: u64,
        /// Memory in bytes.
        memory_bytes: u64,
        /// The kernel's clock source.
        clock_source: String,
        /// How often a second the kernel's scheduler ticks, where its configuration can be read, and
        /// what else is known about scheduling, by the names of the files that say it.
        scheduling: BTreeMap<String, String>,
        /// Congestion controls that the kernel has (`net.ipv4.tcp_available_congestion_control`).
        congestion_controls_available: String,
        /// Those that any process may choose (`net.ipv4.tcp_allowed_congestion_control`).
        congestion_controls_allowed: String,
    }

    /// CLOCK_MONOTONIC and CLOCK_REALTIME at one moment.
    ClockAnchor {
        /// CLOCK_MONOTONIC.
        monotonic_ns: u64,
        /// CLOCK_REALTIME, since 1970.
        realtime_ns: u64,
        /// How long reading both took: the anchor's uncertainty.
        uncertainty_ns: u64,
    }

    /// The world of one cell.
    CellFacts {
        /// The cell's number.
        cell: u64,
        /// The worker of an engine that has run it; null where the lab has.
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
        /// What the emulator achieved on each direction of each path.
        paths: Vec<PathFacts>,
        /// How netem was set up in the wan's namespace, if it carried the packets.
        netem_commands: Vec<String>,
        /// Frames lost because the emulator did not run for too long.
        emulator_ring_drops: u64,
        /// Frames that had nowhere to go.
        emulator_strays: u64,
        /// Frames of which no wire packets could be made, dropped.
        emulator_offloaded: u64,
        /// Frames that the kernel refused to send.
        emulator_send_failures: u64,
        /// Processor time of the emulator.
        emulator_cpu_ns: u64,
        /// How the emulator's thread was scheduled.
        emulator_scheduling: String,
    }

    /// The congestion control of a cell's connections.
    ControlFacts {
        /// Its name.
        name: String,
        /// `lab`: one of ours, which the lab loaded for the run; `before`: one of ours that was loaded
        /// already; `simulator`: any of a simulated world; `kernel`: any other.
        origin: String,
        /// What it was loaded with: null of the kernel's, and where that cannot be seen.
        parameters: Option<Value>,
    }

    /// One host or router of a cell's world.
    NodeFacts {
        /// Its name.
        name: String,
        /// `host` or `router`.
        role: String,
        /// The address that others reach it at.
        address: String,
        /// All its addresses by interface.
        addresses: BTreeMap<String, Vec<String>>,
        /// Its routes to what lies behind its neighbours, as `ip route` has them.
        routes: Vec<String>,
        /// Its rules, as `ip rule` has them.
        rules: Vec<String>,
        /// The kernel settings in force in its namespace.
        settings: BTreeMap<String, String>,
    }

    /// A tunnel that is up.
    TunnelFacts {
        /// Its name.
        name: String,
        /// `wireguard` or `ipsec`.
        vpn: String,
        /// How IPsec encrypts; null of WireGuard.
        cipher: Option<String>,
        /// What serves it at both ends.
        program: String,
        /// The device at the near router; none in a simulated world. IPsec tunnels that end at one router share its device.
        near_device: String,
        /// The device at the far router.
        far_device: String,
        /// The longest packet that goes through it, so that no outer packet is fragmented.
        mtu_bytes: u32,
        /// By how much the longest packet grows.
        overhead_bytes: u32,
    }

    /// One direction of a path.
    PathFacts {
        /// Its name.
        name: String,
        /// The requested one-way delay.
        delay_ns: u64,
        /// How much later half of the frames left than they should have.
        lateness_p50_ns: u64,
        /// The same for 99 of 100 frames.
        lateness_p99_ns: u64,
        /// The same for all frames.
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
