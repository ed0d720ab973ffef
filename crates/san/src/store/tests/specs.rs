//! Stores in the users' notation.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use crate::store::{Backing, LunSpec, ServiceTime};
use wansan_workload::content;

fn parse(spec: &str) -> LunSpec {
    spec.parse().expect("a good spec")
}

fn error(spec: &str) -> String {
    let error = spec.parse::<LunSpec>().expect_err("a bad spec").to_string();
    assert!(!error.contains('\n'), "{error}");
    assert!(error.contains(&format!("`{spec}`")), "{error}");
    error
}

#[test]
fn good_ones() {
    let memory = |size_bytes, block_bytes, service| LunSpec {
        backing: Backing::Memory {
            size_bytes,
            content_seed: None,
        },
        block_bytes,
        thin: false,
        read_only: false,
        service,
    };
    assert_eq!(parse("memory:1GiB"), memory(1 << 30, 512, None));
    assert_eq!(
        parse("memory:64MiB,block=4096"),
        memory(64 << 20, 4096, None)
    );
    let service = |time_ms, servers| {
        Some(ServiceTime {
            time: Duration::from_millis(time_ms),
            servers,
        })
    };
    assert_eq!(
        parse("memory:1GiB,service-time=2ms"),
        memory(1 << 30, 512, service(2, 1))
    );
    assert_eq!(
        parse("memory:1GiB,servers=4,service-time=16ms,block=512"),
        memory(1 << 30, 512, service(16, 4))
    );
    let file = |path: &str, size_bytes| LunSpec {
        backing: Backing::File {
            path: PathBuf::from(path),
            size_bytes,
            direct: false,
        },
        block_bytes: 512,
        thin: false,
        read_only: false,
        service: None,
    };
    assert_eq!(parse("file:disk.img"), file("disk.img", None));
    assert_eq!(
        parse("file:/a:b=c/d,size=1GiB"),
        file("/a:b=c/d", Some(1 << 30))
    );
}

#[test]
fn errors_name_what_is_wrong_and_what_would_be_right() {
    for (spec, wanted) in [
        ("", "use one of memory:, file:"),
        ("memroy:1GiB", "did you mean `memory:`?"),
        ("fiel:disk.img", "did you mean `file:`?"),
        ("disk.img", "use one of memory:, file:"),
        ("ramdisk:1GiB", "unknown kind of store `ramdisk`"),
        ("memory", "memory:1GiB"),
        ("memory:", "memory:1GiB"),
        ("file:", "file:disk.img"),
        ("memory:1", "has no unit"),
        ("memory:1Gib", "`Gib`"),
        ("memory:-1GiB", "not a size"),
        ("memory:1GiB,size=1GiB", "`size` requires file:"),
        ("file:disk.img,content=1", "`content` requires memory:"),
        ("memory:1GiB,direct", "`direct` requires file:"),
        ("file:disk.img,direct=1", "it alone, without `=`"),
        ("memory:1GiB,content=x", "a whole number"),
        ("memory:1GiB,blocks=512", "did you mean `block=`?"),
        (
            "memory:1GiB,servicetime=2ms",
            "did you mean `service-time=`?",
        ),
        (
            "memory:1GiB,xyzzy=1",
            "use one of size=, direct, content=, block=, thin, read-only, service-time=, servers=",
        ),
        ("memory:1GiB,", "unknown option ``"),
        ("memory:1GiB,block=1024", "write 512 or 4096"),
        ("memory:1GiB,block", "write 512 or 4096"),
        ("memory:1GiB,servers=2", "requires service-time="),
        ("memory:1GiB,service-time=2", "has no unit"),
        ("memory:1GiB,service-time=0ms", "above zero"),
        ("memory:1GiB,service-time=1ms,servers=0", "1 to 65536"),
        ("memory:1GiB,service-time=1ms,servers=65537", "1 to 65536"),
        (
            "memory:1GiB,service-time=1ms,servers=x",
            "`x` is not valid for `servers`",
        ),
        ("memory:1GiB,block=512,block=512", "`block` is given twice"),
        ("file:disk.img,size=big", "not a size"),
        ("memory:0B", "at least one"),
        ("memory:1000B", "not a whole number of 512-byte blocks"),
        (
            "memory:512B,block=4096",
            "not a whole number of 4096-byte blocks",
        ),
        (
            "file:disk.img,size=1000B",
            "not a whole number of 512-byte blocks",
        ),
    ] {
        let message = error(spec);
        assert!(message.contains(wanted), "{spec}: {message}");
    }
}

#[test]
fn specs_open_what_they_say() {
    let store = parse("memory:1MiB").open().expect("memory").keep();
    assert_eq!(store.size_bytes(), 1 << 20);
    assert!(store.is_memory());
    let slow = parse("memory:1MiB,service-time=1ms")
        .open()
        .expect("memory")
        .keep();
    assert!(!slow.is_memory());

    let filled = parse("memory:2560KiB,content=7").open();
    let filled = filled.expect("memory").keep();
    let mut data = vec![0; 2560 << 10];
    filled.read_at(0, &mut data).expect("what was filled");
    assert_eq!(content::first_difference(&data, 0, 7), None);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("disk.img");
    let spec = parse(&format!("file:{},size=8MiB,block=4096", path.display()));
    drop(spec.open().expect("a new file"));
    assert!(!path.exists(), "it is not needed after all");
    assert_eq!(
        spec.open().expect("a new file").keep().size_bytes(),
        8 << 20
    );
    let again = parse(&format!("file:{}", path.display()));
    drop(again.open().expect("the same file"));
    assert!(path.exists(), "it was there before");
    assert_eq!(
        again.open().expect("the same file").keep().size_bytes(),
        8 << 20
    );

    let odd = LunSpec {
        backing: Backing::Memory {
            size_bytes: 1000,
            content_seed: None,
        },
        ..parse("memory:1MiB")
    };
    for (bad, wanted) in [
        (odd, "not a whole number of 512-byte blocks"),
        (parse("memory:1000000TiB"), "exceeds this machine's"),
        (parse("file:/no/such/file"), "/no/such/file"),
    ] {
        let message = match bad.open() {
            Ok(_) => panic!("{bad} opened"),
            Err(error) => error.to_string(),
        };
        assert!(message.contains(wanted), "{bad}: {message}");
    }
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(
        memory in any::<bool>(),
        path in "[a-z/.:= -]{1,20}",
        blocks in proptest::option::of(1..1u64 << 52),
        block_bytes in prop_oneof![Just(512u32), Just(4096)],
        content_seed in proptest::option::of(any::<u64>()),
        direct in any::<bool>(),
        service in proptest::option::of((1..u64::MAX, 1..=ServiceTime::MAX_SERVERS)),
    ) {
        let size_bytes = blocks.map(|blocks| blocks * u64::from(block_bytes));
        let spec = LunSpec {
            backing: if memory {
                Backing::Memory { size_bytes: size_bytes.unwrap_or(1 << 30), content_seed }
            } else {
                Backing::File { path: path.into(), size_bytes, direct }
            },
            block_bytes,
            thin: false,
            read_only: false,
            service: service.map(|(time_ns, servers)| ServiceTime {
                time: Duration::from_nanos(time_ns),
                servers,
            }),
        };
        prop_assert_eq!(spec.to_string().parse(), Ok(spec));
    }

    #[test]
    fn no_text_panics(text in "(memory|file)?:?[0-9a-zA-Z,=:.-]{0,30}") {
        let _ = text.parse::<LunSpec>();
    }
}
