//! What a round's session negotiates and what its target serves, drawn from the round's seed.

use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use wansan_iscsi::initiator::Schedule;
use wansan_iscsi::keys::{DigestKind, Wanted};
use wansan_san::url::IscsiUrl;
use wansan_san::{DelayedAck, InitiatorConfig, Route};

use crate::caller::TASKS;
use crate::kinds::Kind;
use crate::model::BLOCK_BYTES;

/// Blocks of the disk: few enough that most are written several times in a round.
pub(crate) const BLOCKS: usize = 4096;

/// How long the initiator tries to come back.
pub(crate) const REPLACEMENT_TIMEOUT: Duration = Duration::from_secs(120);

/// The terms of one round.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) connections: usize,
    /// Each of them is a session of its own.
    pub(crate) is_multipath: bool,
    schedule: Schedule,
    wanted: Wanted,
    /// How long a byte is on its way, in each direction.
    pub(crate) delay: Duration,
    /// The disk is a file, which survives its target; else it is memory.
    pub(crate) is_file: bool,
    /// How slow the disk is, as `--lun` takes it.
    pub(crate) service_time: &'static str,
    isid: [u8; 6],
}

impl Terms {
    /// Draws the terms that rounds of `kind` may have.
    pub(crate) fn draw(random: &mut Pcg64Mcg, kind: Kind) -> Self {
        let mut below = |bound: u64| random.next_u64() % bound;
        let digest = |is_on| match is_on {
            true => vec![DigestKind::Crc32c],
            false => vec![DigestKind::None],
        };
        let with_digests = kind.needs_digests();
        let (connections, level) = match (1 + below(4) as usize, below(3) as u8) {
            _ if kind.needs_level_2() => (4, 2),
            (1, level) if kind.needs_routes() => (2, level),
            drawn => drawn,
        };
        let may_be_multipath = connections > 1 && !kind.needs_level_2();
        let is_multipath = kind.needs_routes() || may_be_multipath && below(2) == 0;
        let wanted = Wanted {
            header_digest: digest(with_digests || below(2) == 0),
            data_digest: digest(with_digests || below(2) == 0),
            max_connections: connections as u16,
            initial_r2t: below(2) == 0,
            immediate_data: below(2) == 0,
            max_recv_data_bytes: [4096, 65_536, 262_144][below(3) as usize],
            max_burst_bytes: [16_384, 65_536, 1_048_576][below(3) as usize],
            first_burst_bytes: [4096, 16_384][below(2) as usize],
            max_outstanding_r2t: [1, 4, 16][below(3) as usize],
            data_pdu_in_order: below(2) == 0,
            data_sequence_in_order: below(2) == 0,
            error_recovery_level: level,
            ..Wanted::default()
        };
        Terms {
            connections,
            is_multipath,
            schedule: [
                Schedule::RoundRobin,
                Schedule::LeastInFlight,
                Schedule::LeastBytes,
                Schedule::Earliest,
            ][below(4) as usize],
            wanted,
            delay: [
                Duration::ZERO,
                Duration::from_millis(1),
                Duration::from_millis(5),
            ][below(3) as usize],
            is_file: kind.needs_a_file() || below(3) == 0,
            service_time: [
                "",
                ",service-time=1ms,servers=16",
                // What a lost session has at it outlives several logins.
                ",service-time=20ms,servers=64",
            ][below(if is_multipath { 3 } else { 2 }) as usize],
            isid: {
                // A random ISID (RFC 7143 §11.12.5): rounds share nothing.
                let [a, b, c, d, e, ..] = below(u64::MAX).to_le_bytes();
                [0x80, a, b, c, d, e]
            },
        }
    }

    /// The disk as `--lun` takes it, at `path` if it is a file.
    pub(crate) fn lun(&self, path: &str) -> String {
        let size = BLOCKS * BLOCK_BYTES;
        if self.is_file {
            format!("file:{path},size={size}B{}", self.service_time)
        } else {
            format!("memory:{size}B{}", self.service_time)
        }
    }

    /// The initiator's part, over connections to the portal of `url`.
    pub(crate) fn initiator(&self, url: &IscsiUrl) -> InitiatorConfig {
        InitiatorConfig {
            name: "iqn.2026-11.net.example:caller".to_owned(),
            isid: self.isid,
            wanted: self.wanted.clone(),
            chap: None,
            tasks: TASKS,
            routes: vec![Route::to(url); self.connections],
            multipath: self.is_multipath,
            reservation: None,
            schedule: self.schedule,
            congestion_control: None,
            delayed_ack: DelayedAck::On,
            patience: Duration::from_secs(30),
            replacement_timeout: REPLACEMENT_TIMEOUT,
            tcp_interval: Duration::from_secs(1),
        }
    }

    /// Another initiator, whose one connection goes straight to the target.
    pub(crate) fn other_initiator(&self, url: &IscsiUrl) -> InitiatorConfig {
        let mut config = self.initiator(url);
        config.name.push_str("-check");
        config.routes.truncate(1);
        config.multipath = false;
        config.wanted = Wanted {
            data_digest: vec![DigestKind::Crc32c],
            ..Wanted::default()
        };
        config
    }

    /// In words, for a failure.
    pub(crate) fn in_words(&self) -> String {
        let digests = [&self.wanted.header_digest, &self.wanted.data_digest]
            .map(|digest| digest == &[DigestKind::Crc32c]);
        format!(
            "{} {}(s), ErrorRecoveryLevel {}, digests {digests:?}, {}{}, delay {:?}, \
             InitialR2T {}, ImmediateData {}, MaxBurst {}, FirstBurst {}, in order {} {}",
            self.connections,
            if self.is_multipath {
                "session"
            } else {
                "connection"
            },
            self.wanted.error_recovery_level,
            if self.is_file { "file" } else { "memory" },
            self.service_time,
            self.delay,
            self.wanted.initial_r2t,
            self.wanted.immediate_data,
            self.wanted.max_burst_bytes,
            self.wanted.first_burst_bytes,
            self.wanted.data_pdu_in_order,
            self.wanted.data_sequence_in_order,
        )
    }
}
