//! What the two Burn peers share: the report they print, the verbs they know, and the data they make up.
//!
//! Both print one JSON object:
//! `{"crate", "tensors": {name: {dtype, shape, param_id, byte_len, sha256, quant}}, "order", "metadata", "scalars"}`.
//! Ids and 64-bit scalars are text because a JSON number is not safe above 2^53. A value this generation of Burn
//! does not hand out is null, so that "not told" and "empty" stay apart.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes that depend on nothing but `seed` and `len` (splitmix64), so that two runs write the same file.
pub fn noise(seed: &str, len: usize) -> Vec<u8> {
    let mut state = seed.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        out.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    out.truncate(len);
    out
}

/// One tensor as the report shows it.
pub struct Seen<'a> {
    pub dtype: String,
    pub shape: Vec<usize>,
    pub param_id: Option<u64>,
    pub bytes: &'a [u8],
    pub quant: Value,
}

pub fn describe(seen: Seen) -> Value {
    json!({
        "dtype": seen.dtype,
        "shape": seen.shape,
        "param_id": seen.param_id.map(|v| v.to_string()),
        "byte_len": seen.bytes.len(),
        "sha256": sha256(seen.bytes),
        "quant": seen.quant,
    })
}

/// Leading ones of a block size say nothing: `[1, 32]` and `[32]` are the same blocks.
pub fn block_dims(dims: &[u8]) -> Vec<u8> {
    let first = dims.iter().position(|&d| d != 1).unwrap_or(dims.len());
    dims[first..].to_vec()
}

/// Names, shapes and ids that both generations take. The list is deliberately not in name order: the order of
/// the data on disk is the caller's, the order of the descriptors is by name.
pub fn awkward() -> Vec<(String, Vec<usize>, Option<u64>)> {
    let mut list: Vec<(String, Vec<usize>, Option<u64>)> = vec![
        ("shape.scalar".into(), vec![], Some(1)),
        ("shape.one".into(), vec![1], Some(2)),
        ("shape.empty".into(), vec![0], Some(3)),
        ("shape.empty_middle".into(), vec![2, 0, 3], Some(4)),
        ("shape.rank_6".into(), vec![1, 2, 1, 3, 1, 2], Some(5)),
        ("shape.fills_256".into(), vec![64], Some(6)),
        ("shape.passes_256".into(), vec![65], Some(7)),
        ("name.слой.вес".into(), vec![3], Some(8)),
        ("name.🦀 \"quoted\" / back\\slash\ttab".into(), vec![3], Some(9)),
        (format!("name.{}", "deep.".repeat(60) + "leaf"), vec![2], Some(10)),
        (String::new(), vec![2], Some(11)),
    ];
    let ids = [0, 23, 24, 255, 256, 65_535, 65_536, 0xffff_ffff, 0x1_0000_0000, u64::MAX];
    list.extend(ids.iter().rev().map(|&id| (format!("id.{id}"), vec![2, 2], Some(id))));
    list.extend((0..120).rev().map(|i| (format!("layers.{i}.weight"), vec![1 + i % 7], Some(1000 + i as u64))));
    list.push(("shape.empty_last".into(), vec![3, 0], Some(12)));
    list
}

pub const METADATA: [(&str, &str); 5] = [
    ("producer", "interop"),
    ("empty", ""),
    ("ключ", "значение"),
    ("json", "{\"a\": [1, 2, \"three\"]}"),
    ("lines", "first\nsecond\t\"quoted\" \\ end"),
];

pub fn metadata_report() -> Value {
    METADATA.iter().map(|(k, v)| (k.to_string(), json!(v))).collect::<Map<_, _>>().into()
}

type Outcome = Result<Value, String>;

/// `read FILE` and `write FILE`; exit status 0 done, 1 refused by Burn (`{"error": text}`), 2 usage.
pub fn main(name: &str, read: fn(&str) -> Outcome, write: fn(&str) -> Outcome) {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (verb, path) = match args.as_slice() {
        [verb, path] if verb == "read" => (read, path),
        [verb, path] if verb == "write" => (write, path),
        _ => {
            eprintln!("usage: read FILE | write FILE   ({name})");
            std::process::exit(2);
        }
    };
    let outcome = std::panic::catch_unwind(|| verb(path)).unwrap_or_else(|_| Err("the library panicked".into()));
    let (mut report, status) = match outcome {
        Ok(report) => (report, 0),
        Err(text) => (json!({ "error": text }), 1),
    };
    report["crate"] = json!(name);
    println!("{report}");
    std::process::exit(status);
}
