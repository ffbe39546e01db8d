//! Parquet files that somebody damaged, by accident or on purpose: rows or an error, never a panic, an abort or a long wait.

#![cfg(feature = "parquet")]

use std::{fs, panic, path::Path, sync::Once};

use proptest::prelude::*;
use tasks::{FileTask, read_squad};

fn golden(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hub/hub").join(name)).unwrap()
}

/// Reads `bytes` as texts with labels and as questions; whether either succeeds does not matter.
fn read(bytes: &[u8]) {
    // What the reader of the format panics with is caught, but its message would still be printed.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| panic::set_hook(Box::new(|_| {})));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.parquet");
    fs::write(&path, bytes).unwrap();
    let _ = FileTask { label_column: "tags".into(), ..FileTask::new(&path) }.load();
    let _ = FileTask::new(&path).load();
    let _ = read_squad(&path);
}

/// Where a file's own description begins: its length stands before the closing mark.
fn description(bytes: &[u8]) -> usize {
    let length = &bytes[bytes.len() - 8..bytes.len() - 4];
    bytes.len() - 8 - u32::from_le_bytes(length.try_into().unwrap()) as usize
}

/// `PROPTEST_CASES=20000 cargo test --workspace --test damaged_parquet` looks longer.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400)
}

fn files() -> impl Strategy<Value = Vec<u8>> {
    let names =
        ["someone/many/en/train-00000-of-00001.parquet", "rajpurkar/squad/plain_text/train-00000-of-00001.parquet"];
    prop::sample::select(names.map(golden).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn changed_bytes(mut bytes in files(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        read(&bytes);
    }

    /// The description says where everything lies, and how large it is.
    #[test]
    fn changed_descriptions(mut bytes in files(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let start = description(&bytes);
        for (at, to) in changes {
            let at = start + at.index(bytes.len() - start);
            bytes[at] = to;
        }
        read(&bytes);
    }

    #[test]
    fn cut_and_repeated_parts(bytes in files(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), twice: bool) {
        let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
        let (from, to) = (from.min(to), from.max(to));
        let middle = if twice { [&bytes[from..to], &bytes[from..to]].concat() } else { Vec::new() };
        read(&[&bytes[..from], &middle, &bytes[to..]].concat());
    }
}

/// A description whose columns lie in each other, thousands deep: whoever follows them by recursion runs out of stack. The type of
/// the number of children is an i32, or something else that a careless reader takes for one; the list is one, or a set.
#[test]
fn deep_structures() {
    for (depth, list, number) in
        [(10, 0x19, 0x15), (1_000, 0x19, 0x15), (100_000, 0x19, 0x15), (100_000, 0x19, 0x13), (100_000, 0x1a, 0x15)]
    {
        // Compact Thrift: a version, a list of schema elements, no rows, no groups.
        let mut description = vec![0x15, 0x02, list, 0xfc];
        variable(&mut description, depth + 1);
        for level in 0..=depth {
            if level == depth {
                description.extend([0x15, 0x0c, 0x25, 0x02, 0x18, 0x01, b'a', 0x00]);
            } else {
                description.extend([0x48, 0x01, b'a', number, 0x02, 0x00]);
            }
        }
        description.extend([0x16, 0x00, 0x19, 0x0c, 0x00]);
        let mut bytes = b"PAR1".to_vec();
        bytes.extend(&description);
        bytes.extend((description.len() as u32).to_le_bytes());
        bytes.extend(b"PAR1");
        read(&bytes);
    }
}

/// A number as Thrift writes it.
fn variable(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[test]
fn nothing_and_nonsense() {
    for bytes in [&b""[..], b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"<html>not found</html>", &[0; 100]] {
        read(bytes);
    }
}
