//! The self-description of a unit and its device, byte by byte.

use super::*;
use crate::scsi::capacity::Capacity;
use crate::scsi::inquiry::Inquiry;
use crate::scsi::report_luns::LunList;
use crate::scsi::vpd::Identification;
use crate::scsi::{DeviceError, FieldPointer, SenseKey};

#[test]
fn test_unit_ready_is_good() {
    assert_eq!(data(&device(), &[0x00]), [0; 0]);
}

#[test]
fn unknown_commands_get_fixed_sense() {
    for opcode in [0x04, 0x42, 0x48, 0x7f, 0x9c, 0xa4, 0xb0, 0xff] {
        let refused = sense(&device(), &[opcode]);
        assert_eq!(
            refused.fixed(),
            [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0]
        );
    }
}

#[test]
fn naca_is_refused_where_control_stands() {
    for (cdb, control) in [
        (&[0x00, 0, 0, 0, 0, 0x04][..], 5),
        (&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0x04], 9),
        (&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x04], 11),
        (&[0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0x04], 15),
    ] {
        assert_eq!(
            sense(&device(), cdb),
            Sense::invalid_field(control, Some(2))
        );
    }
}

#[test]
fn standard_inquiry() {
    let bytes = data(&device(), &[0x12, 0, 0, 0, 255, 0]);
    assert_eq!(bytes.len(), 96);
    assert_eq!(bytes[..8], [0x00, 0x00, 0x06, 0x12, 91, 0x18, 0, 0x02]);
    assert_eq!(&bytes[8..32], b"wansan  virtual disk    ");
    assert_eq!(
        bytes[58..66],
        [0x00, 0xa0, 0x04, 0x60, 0x04, 0xc0, 0x09, 0x60]
    );

    let inquiry = Inquiry::parse(&bytes).expect("our own answer");
    assert!(inquiry.is_disk());
    assert_eq!(
        (&*inquiry.vendor, &*inquiry.product),
        ("wansan", "virtual disk")
    );
    assert!(env!("CARGO_PKG_VERSION").starts_with(&inquiry.revision));
    assert!(Inquiry::parse(&bytes[..35]).is_err());
}

#[test]
fn inquiry_refuses_what_it_does_not_know() {
    let page_without_evpd = sense(&device(), &[0x12, 0, 0x80, 0, 255, 0]);
    assert_eq!(page_without_evpd, Sense::invalid_field(2, None));
    let unknown_page = sense(&device(), &[0x12, 1, 0xb3, 0, 255, 0]);
    assert_eq!(unknown_page, Sense::invalid_field(2, None));
    let command_support = sense(&device(), &[0x12, 2, 0, 0, 255, 0]);
    assert_eq!(command_support, Sense::invalid_field(1, Some(1)));
}

fn vpd(device: &TargetDevice, page: u8) -> Vec<u8> {
    data(device, &[0x12, 1, page, 0x04, 0, 0])
}

#[test]
fn vpd_lists_its_pages_and_has_them() {
    let pages = vpd(&device(), 0x00);
    assert_eq!(
        pages,
        [0, 0, 0, 7, 0x00, 0x80, 0x83, 0x8f, 0xb0, 0xb1, 0xb2]
    );
    for page in &pages[4..] {
        let bytes = vpd(&device(), *page);
        assert_eq!(bytes[..2], [0, *page]);
        assert_eq!(
            usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
            bytes.len() - 4
        );
    }
}

#[test]
fn serial_numbers_are_stable_and_differ() {
    // Known values: initiators identify disks by them, so they must never change.
    assert_eq!(unit(0, 8, 512).identity.serial(), "78e4c80efc15bb48");
    assert_eq!(unit(1, 8, 512).identity.serial(), "f6ba59f21da8c903");
    assert_eq!(
        vpd(&device(), 0x80),
        [&[0, 0x80, 0, 16], b"78e4c80efc15bb48".as_slice()].concat()
    );
}

#[test]
fn device_identification() {
    let bytes = vpd(&device(), 0x83);
    let mut rest = &bytes[4..];
    let mut designators = Vec::new();
    while let [code_set, kind, 0, length, ..] = *rest {
        let (designator, after) = rest.split_at(4 + usize::from(length));
        designators.push((code_set, kind, &designator[4..]));
        rest = after;
    }
    assert!(rest.is_empty());

    let serial = unit(0, 8, 512).identity.serial();
    let naa = format!("3{}", &serial[..15]);
    let naa = u64::from_str_radix(&naa, 16)
        .expect("hexadecimal")
        .to_be_bytes();
    let t10 = format!("wansan  {serial}");
    // With its NUL the name of 28 bytes takes 32; that of the port has 9 more, and takes 40.
    let device_name = format!("{NAME}\0\0\0\0");
    let port_name = format!("{NAME},t,0x0001\0\0\0");
    assert_eq!(
        designators,
        [
            (0x01, 0x03, &naa[..]),
            (0x02, 0x01, t10.as_bytes()),
            (0x51, 0x94, &[0, 0, 0, 1]),
            (0x51, 0x95, &[0, 0, 0, 1]),
            (0x53, 0x98, port_name.as_bytes()),
            (0x53, 0xa8, device_name.as_bytes()),
        ]
    );
}

#[test]
fn an_initiator_reads_what_a_unit_is_called() {
    let data = vpd(&device(), 0x83);
    let known = Identification::parse(&data).unwrap();
    assert_eq!(known.port_group, Some(1));
    assert_eq!(known.names.len(), 2, "the NAA and the T10 name: {known:?}");
    let mut other = unit(0, 8, 512);
    other.identity.target_name.push_str("-other");
    let other = Identification::parse(&vpd(&device_of(other), 0x83)).unwrap();
    let is_shared = |name| other.names.contains(name);
    assert!(!known.names.iter().any(is_shared));
    for cut in 4..data.len() {
        let some = Identification::parse(&data[..cut]).unwrap();
        assert!(known.names.starts_with(&some.names), "{cut}");
    }
    assert!(Identification::parse(&data[..3]).is_err());
}

#[test]
fn a_name_too_long_for_iscsi_is_cut() {
    let mut long = unit(0, 8, 512);
    long.identity.target_name = "x".repeat(100_000);
    let bytes = vpd(&device_of(long), 0x83);
    // The port's name: 223 bytes, `,t,0x0001`, a NUL, and padding.
    assert!(bytes.windows(235).any(|w| w.ends_with(b"x,t,0x0001\0\0\0")));
    assert!(bytes.len() < 600);
}

#[test]
fn block_pages() {
    let limits = vpd(&device(), 0xb0);
    assert_eq!(limits[..4], [0, 0xb0, 0, 0x3c]);
    assert_eq!(limits[6..8], [0, 8], "granularity: a physical block");
    assert_eq!(limits[8..12], [0, 0, 0x80, 0], "16 MiB at most");
    assert_eq!(limits[12..16], [0, 0, 0x08, 0], "1 MiB as asked for");
    assert_eq!(limits[4..6], [1, 255], "WSNZ, COMPARE AND WRITE");
    assert!(limits[16..36].iter().all(|byte| *byte == 0), "not thin");
    assert_eq!(
        limits[36..44],
        [0, 0, 0, 0, 0, 0, 0x80, 0],
        "WRITE SAME: 16 MiB"
    );
    let thin = vpd(&thin_device(), 0xb0);
    assert_eq!(thin[20..28], [255, 255, 255, 255, 0, 0, 1, 0], "UNMAP");
    assert_eq!(
        thin[28..36],
        [0, 0, 0, 8, 0x80, 0, 0, 0],
        "in physical blocks"
    );
    assert_eq!(vpd(&thin_device(), 0xb2), [0, 0xb2, 0, 4, 0, 0xe4, 2, 0]);

    let characteristics = vpd(&device(), 0xb1);
    assert_eq!(characteristics[..6], [0, 0xb1, 0, 0x3c, 0, 1]);
    assert_eq!(vpd(&device(), 0xb2), [0, 0xb2, 0, 4, 0, 0, 0, 0]);
}

#[test]
fn capacity() {
    let small = device();
    let ten = data(&small, &[0x25]);
    assert_eq!(ten, [0, 0x1f, 0xff, 0xff, 0, 0, 2, 0]);
    let sixteen = data(
        &small,
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0],
    );
    assert_eq!(
        sixteen[..16],
        [0, 0, 0, 0, 0, 0x1f, 0xff, 0xff, 0, 0, 2, 0, 0, 3, 0, 0]
    );
    assert_eq!(sixteen.len(), 32);
    let capacity = Capacity::parse_16(&sixteen).expect("our own answer");
    assert_eq!(capacity.size_bytes(), 1 << 30);
    assert_eq!(capacity.physical_block_exponent, 3);
    let short = Capacity::parse_10(&ten).expect("our own answer");
    assert_eq!(short.map(|c| c.blocks), Some(1 << 21));

    let large = device_of(unit(0, 1 << 32, 4096));
    assert_eq!(
        data(&large, &[0x25]),
        [0xff, 0xff, 0xff, 0xff, 0, 0, 0x10, 0]
    );
    assert_eq!(
        sense(&large, &[0x9e, 0x11]),
        Sense::invalid_field(1, Some(4)),
        "READ LONG is another service action"
    );
    let thin = data(
        &thin_device(),
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0],
    );
    assert_eq!(thin[14], 0xc0, "LBPME, LBPRZ");
}

#[test]
fn mode_sense_six() {
    let caching = [
        0x08, 0x12, 0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let control = [0x0a, 0x0a, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0];
    let exceptions = [0x1c, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let descriptor = [0, 0x20, 0, 0, 0, 0, 2, 0];
    let device = device();

    let all = data(&device, &[0x1a, 0, 0x3f, 0, 255, 0]);
    let expected = [
        &[55, 0, 0x10, 8],
        &descriptor[..],
        &caching,
        &control,
        &exceptions,
    ]
    .concat();
    assert_eq!(all, expected);
    assert_eq!(data(&device, &[0x1a, 0, 0x3f, 0xff, 255, 0]), expected);
    assert_eq!(
        data(&device, &[0x1a, 0x08, 0x0a, 0, 255, 0]),
        [&[15, 0, 0x10, 0], &control[..]].concat(),
        "DBD"
    );
    assert_eq!(
        data(&device, &[0x1a, 0x08, 0x48, 0, 255, 0])[4..],
        [
            0x08, 0x12, 0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        ],
        "WCE is changeable"
    );
    assert_eq!(
        data(&device, &[0x1a, 0x08, 0x4a, 0, 255, 0])[4..],
        [0x0a, 0x0a, 0, 0, 0x08, 0, 0, 0, 0, 0, 0, 0],
        "SWP is changeable"
    );
    assert_eq!(
        data(&device, &[0x1a, 0x08, 0x88, 0, 255, 0])[4..],
        caching,
        "the defaults are the current values"
    );
}

#[test]
fn mode_sense_tells_how_writes_are_treated() {
    let device = device_of(LogicalUnit {
        write_cache: false,
        ..unit(0, 100, 512)
    });
    let bytes = data(&device, &[0x1a, 0x08, 0x08, 0, 255, 0]);
    assert_eq!(bytes[2], 0x10, "DPOFUA without WP");
    assert_eq!(bytes[6], 0, "WCE");
}

#[test]
fn mode_sense_ten() {
    let device = device_of(unit(0, 1 << 33, 4096));
    let short = data(&device, &[0x5a, 0, 0x1c, 0, 0, 0, 0, 0, 255, 0]);
    assert_eq!(short[..8], [0, 26, 0, 0x10, 0, 0, 0, 8]);
    assert_eq!(short[8..16], [0xff, 0xff, 0xff, 0xff, 0, 0, 0x10, 0]);
    let long = data(&device, &[0x5a, 0x10, 0x1c, 0, 0, 0, 0, 0, 255, 0]);
    assert_eq!(long[..8], [0, 34, 0, 0x10, 1, 0, 0, 16]);
    assert_eq!(
        long[8..24],
        [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0]
    );
    let none = data(&device, &[0x5a, 0x18, 0x1c, 0, 0, 0, 0, 0, 255, 0]);
    assert_eq!(none[..8], [0, 18, 0, 0x10, 0, 0, 0, 0]);
}

#[test]
fn mode_sense_refuses_what_it_does_not_have() {
    for (opcode, dbd) in [(0x1a, 0), (0x5a, 8)] {
        let saved = sense(&device(), &[opcode, dbd, 0xc8]);
        assert_eq!(saved, illegal(AdditionalSense::SAVING_NOT_SUPPORTED));
        let page = sense(&device(), &[opcode, dbd, 0x19]);
        assert_eq!(page, Sense::invalid_field(2, Some(5)));
        let subpage = sense(&device(), &[opcode, dbd, 0x0a, 0x01]);
        assert_eq!(subpage, Sense::invalid_field(3, None));
    }
}

#[test]
fn request_sense_in_both_formats() {
    let fixed = data(&device(), &[0x03, 0, 0, 0, 252, 0]);
    assert_eq!(
        fixed,
        [0x70, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    let descriptor = data(&device(), &[0x03, 1, 0, 0, 252, 0]);
    assert_eq!(descriptor, [0x72, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn report_luns_from_every_lun() {
    let units = [300, 0, 7].map(|number| unit(number, 8, 512));
    let device = TargetDevice::new(units.to_vec()).expect("three numbers");
    let cdb = padded(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    let well_known = Lun([0xc1, 1, 0, 0, 0, 0, 0, 0]);
    for lun in [Lun::default(), well_known, Lun([0, 99, 0, 0, 0, 0, 0, 0])] {
        let bytes = good_data(device.decode(lun, &cdb, &mut nexus(&device)));
        let mut expected = vec![0, 0, 0, 24, 0, 0, 0, 0];
        expected.extend([0; 8]);
        expected.extend([0, 7, 0, 0, 0, 0, 0, 0]);
        expected.extend([0x41, 44, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes, expected);

        let list = LunList::parse(&bytes).expect("our own answer");
        let numbers = list.luns.iter().map(|lun| lun.number());
        assert_eq!(numbers.collect::<Vec<_>>(), [Some(0), Some(7), Some(300)]);
        let cut = LunList::parse(&bytes[..20]).expect("a list that is cut off");
        assert_eq!((cut.luns.len(), cut.total), (1, 3));
    }
    let well_known_only = data(&device, &[0xa0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(well_known_only, [0; 8]);
    assert_eq!(
        sense(&device, &[0xa0, 0, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0]),
        Sense::invalid_field(2, None)
    );
    assert!(LunList::parse(&[0; 7]).is_err());
    assert!(LunList::parse(&[0, 0, 0, 9, 0, 0, 0, 0]).is_err());
    assert_eq!(
        LunList::parse(&[0xff, 0xff, 0xff, 0xf8, 0, 0, 0, 0]).map(|list| list.luns),
        Ok(Vec::new()),
        "a length that lies takes no memory"
    );
}

#[test]
fn numbers_lead_to_their_units() {
    let units = [300, 0, 7].map(|number| unit(number, 8, 512));
    let device = TargetDevice::new(units.to_vec()).expect("three numbers");
    for (place, number) in [0, 7, 300].into_iter().enumerate() {
        let lun = Lun::single_level(number).expect("a small number");
        assert_eq!(device.place(lun), Some(place));
        assert_eq!(device.units()[place].identity.number, number);
    }
    assert_eq!(device.place(Lun([0, 1, 0, 0, 0, 0, 0, 0])), None);

    let twice = vec![unit(3, 8, 512), unit(3, 8, 512)];
    let refused = |units| TargetDevice::new(units).map(drop);
    assert_eq!(refused(twice), Err(DeviceError::Duplicate(3)));
    let high = vec![unit(16384, 8, 512)];
    assert_eq!(refused(high), Err(DeviceError::Number(16384)));
}

#[test]
fn a_lun_without_a_unit_says_so() {
    let device = device();
    let lun = Lun([0, 1, 0, 0, 0, 0, 0, 0]);
    let at = |cdb: &[u8]| device.decode(lun, &padded(cdb), &mut nexus(&device));

    let inquiry = good_data(at(&[0x12, 0, 0, 0, 255, 0]));
    assert_eq!(inquiry[0], 0x7f);
    assert!(!Inquiry::parse(&inquiry).expect("our own answer").is_disk());

    let unsupported = illegal(AdditionalSense::UNIT_NOT_SUPPORTED);
    assert_eq!(good_data(at(&[0x03, 0, 0, 0, 252, 0])), unsupported.fixed());
    for cdb in [
        &[0x00][..],
        &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0],
        &[0x12, 1, 0, 0, 255, 0],
        &[0xff],
    ] {
        assert_eq!(bad_sense(at(cdb)), unsupported);
    }
}

#[test]
fn unit_attentions_go_before_commands() {
    let device = device();
    let (mut nexus, other) = (nexus(&device), nexus(&device));
    assert!(device.clear(0, other.id()).is_down());
    assert!(device.reset(0, other.id()).is_down());
    let mut at = |cdb: &[u8]| device.decode(Lun::default(), &padded(cdb), &mut nexus);
    // INQUIRY and REPORT LUNS are answered and leave it pending.
    good_data(at(&[0x12, 0, 0, 0, 36, 0]));
    good_data(at(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0]));
    let reported = bad_sense(at(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0]));
    assert_eq!(reported.key, SenseKey::UnitAttention);
    assert_eq!(reported.additional, AdditionalSense::BUS_DEVICE_RESET);
    // REQUEST SENSE takes the next one as data.
    let taken = good_data(at(&[0x03, 0, 0, 0, 252, 0]));
    assert_eq!((taken[2], taken[12]), (0x06, 0x2f));
    good_data(at(&[0x00]));
}

#[test]
fn a_session_in_place_of_another_hears_of_its_loss() {
    let device = device();
    let mut first = nexus(&device);
    let test_unit_ready = padded(&[0x00]);
    good_data(device.decode(Lun::default(), &test_unit_ready, &mut first));
    let mut second = nexus(&device);
    let mut other = device.nexus(port("iqn.2026-01.net.example:two"));
    let lost = bad_sense(device.decode(Lun::default(), &test_unit_ready, &mut second));
    assert_eq!(lost.additional, AdditionalSense::NEXUS_LOSS);
    for nexus in [&mut second, &mut other] {
        good_data(device.decode(Lun::default(), &test_unit_ready, nexus));
    }
    drop((first, second));
    // None is left.
    let mut third = nexus(&device);
    good_data(device.decode(Lun::default(), &test_unit_ready, &mut third));
}

#[test]
fn field_pointers_point() {
    let refused = sense(&device(), &[0x1a, 0, 0x19, 0, 255, 0]);
    assert_eq!(
        refused.field,
        Some(FieldPointer {
            byte: 2,
            bit: Some(5)
        })
    );
    assert_eq!(refused.fixed()[15..], [0xcd, 0, 2]);
}

#[test]
fn geometries_that_cannot_be() {
    assert!(Geometry::new(1 << 20, 520, 0).is_err());
    assert!(Geometry::new(0, 512, 0).is_err());
    assert!(Geometry::new(4097, 512, 0).is_err());
    assert!(Geometry::new(512, 4096, 0).is_err());
    let odd = Geometry::new(u64::MAX - 511, 512, 0).expect("the maximum of 16383");
    assert_eq!(odd.blocks(), (1 << 55) - 1);
}
