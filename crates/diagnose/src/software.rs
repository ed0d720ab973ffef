//! Identifies the software at an end of a session: by the process that owns the socket, or by the iSCSI name.

use serde::Serialize;

/// iSCSI software: a variant for each kind that has setting names of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Software {
    /// The Linux kernel's initiator, with open-iscsi.
    OpenIscsi,
    /// The Linux kernel's target.
    Lio,
    /// tgtd.
    Tgt,
    /// QEMU, with libiscsi.
    Qemu,
    /// Another program with libiscsi.
    Libiscsi,
    /// wansan.
    Wansan,
    /// Windows' initiator.
    Windows,
    /// VMware ESXi's software initiator.
    Esxi,
    /// TrueNAS' and FreeBSD's target.
    Ctl,
    /// Not known.
    Unknown,
}

/// Names of software for output.
impl Software {
    /// The name that its users know.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Software::OpenIscsi => "open-iscsi",
            Software::Lio => "LIO",
            Software::Tgt => "tgt",
            Software::Qemu => "QEMU",
            Software::Libiscsi => "libiscsi",
            Software::Wansan => "wansan",
            Software::Windows => "Windows",
            Software::Esxi => "ESXi",
            Software::Ctl => "FreeBSD's CTL (TrueNAS)",
            Software::Unknown => "unknown software",
        }
    }

    /// Whether it is known to run on Linux.
    #[must_use]
    pub const fn is_on_linux(self) -> bool {
        !matches!(
            self,
            Software::Windows | Software::Esxi | Software::Ctl | Software::Unknown
        )
    }

    /// Identifies the owner of an initiator's socket on this host by its process name.
    #[must_use]
    pub fn of_initiator(process: Option<&str>) -> Software {
        match process {
            // iscsid creates the socket and keeps it open for the kernel.
            Some("iscsid") => Software::OpenIscsi,
            Some("wansan") => Software::Wansan,
            Some(name) if name.starts_with("qemu") => Software::Qemu,
            Some(_) => Software::Libiscsi,
            None => Software::Unknown,
        }
    }

    /// Identifies the owner of a target's socket on this host. The kernel's sockets have no owner.
    #[must_use]
    pub fn of_target(process: Option<&str>, is_lio: bool) -> Software {
        match process {
            Some("tgtd") => Software::Tgt,
            Some("wansan") => Software::Wansan,
            None if is_lio => Software::Lio,
            Some(_) | None => Software::Unknown,
        }
    }

    /// The software whose default names share this iSCSI name's prefix.
    #[must_use]
    pub fn of_name(name: &str) -> Software {
        const PREFIXES: [(&str, Software); 8] = [
            ("iqn.1991-05.com.microsoft:", Software::Windows),
            ("iqn.1993-08.org.debian:", Software::OpenIscsi),
            ("iqn.1994-05.com.redhat:", Software::OpenIscsi),
            ("iqn.1996-04.de.suse:", Software::OpenIscsi),
            ("iqn.1998-01.com.vmware:", Software::Esxi),
            ("iqn.2003-01.org.linux-iscsi.", Software::Lio),
            ("iqn.2005-10.org.freenas.ctl:", Software::Ctl),
            ("iqn.2008-11.org.linux-kvm:", Software::Qemu),
        ];
        let known = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
        known.map_or(Software::Unknown, |(_, software)| *software)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_is_told_by_its_process_and_by_its_names() {
        assert_eq!(Software::of_initiator(Some("iscsid")), Software::OpenIscsi);
        assert_eq!(Software::of_initiator(Some("qemu-img")), Software::Qemu);
        assert_eq!(Software::of_initiator(Some("fio")), Software::Libiscsi);
        assert_eq!(Software::of_initiator(None), Software::Unknown);
        assert_eq!(Software::of_target(None, true), Software::Lio);
        assert_eq!(Software::of_target(Some("tgtd"), true), Software::Tgt);
        let windows = Software::of_name("iqn.1991-05.com.microsoft:host");
        assert_eq!(windows, Software::Windows);
        assert_eq!(
            Software::of_name("iqn.2026-01.example:disk"),
            Software::Unknown
        );
    }
}
