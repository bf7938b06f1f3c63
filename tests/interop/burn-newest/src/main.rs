//! Reads and writes Burnpack files with the newest published burn-pack and prints what it saw as JSON.

#[path = "../../burn-common/common.rs"]
mod common;

use burn_pack::{Bytes, DType, Reader, Scalar, Tensor, Writer};
use burn_std::quantization::{QuantMode, QuantScheme, QuantStore, QuantValue, QuantizedBytes, ScaleDtype};
use burn_std::{BoolStore, Shape, quantized_data_len};
use common::{METADATA, Seen, awkward, block_dims, describe, metadata_report, noise, sha256};
use serde_json::{Map, Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};

const CRATE: &str = "burn-pack 0.23.0-pre.1";

fn main() {
    // A scheme whose payload does not fit makes Burn panic; that is an answer here, not noise for the log.
    std::panic::set_hook(Box::new(|_| {}));
    common::main(CRATE, read, write);
}

// --- reading ------------------------------------------------------------------------------------------------

/// The file is read lazily, from one buffer in memory, and tensor by tensor; the three must agree.
fn read(path: &str) -> Result<Value, String> {
    let reader = Reader::from_file_exact(path).map_err(|e| e.to_string())?;
    let metadata = json!(reader.metadata());
    let scalars: Map<String, Value> = reader.scalars().iter().map(|(k, v)| (k.clone(), scalar(v))).collect();
    let mut by_name = Map::new();
    for name in reader.tensor_names() {
        let data = reader.tensor_data(name).map_err(|e| format!("{name}: {e}"))?;
        by_name.insert(name.to_string(), json!(sha256(&data)));
    }
    let lazy = tensors(reader)?;

    let whole = std::fs::read(path).map_err(|e| e.to_string())?;
    let reader = Reader::from_bytes(Bytes::from_bytes_vec(whole)).map_err(|e| e.to_string())?;
    if tensors(reader)? != lazy {
        return Err("the file and the memory reader disagree".into());
    }
    if by_name.len() != lazy.len() || lazy.iter().any(|(name, t)| by_name.get(name) != Some(&t["sha256"])) {
        return Err("reading by name and reading everything disagree".into());
    }
    Ok(json!({ "tensors": lazy, "metadata": metadata, "scalars": scalars }))
}

fn tensors(reader: Reader) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    for tensor in reader.into_tensors().map_err(|e| e.to_string())? {
        let (name, dtype, shape, param_id, bytes) = tensor.into_parts().map_err(|e| e.to_string())?;
        let report = report(dtype, &shape, param_id, &bytes);
        out.insert(name, report);
    }
    Ok(out)
}

fn report(dtype: DType, shape: &Shape, param_id: Option<u64>, bytes: &[u8]) -> Value {
    let quant = match dtype {
        DType::QFloat(scheme) => quant(&scheme, shape, bytes),
        _ => Value::Null,
    };
    let dtype = match dtype {
        DType::QFloat(_) => "QFloat".into(),
        other => format!("{other:?}"),
    };
    describe(Seen { dtype, shape: shape.to_vec(), param_id, bytes, quant })
}

/// The scheme in words that every generation shares, and what Burn's own decoder makes of the payload.
fn quant(scheme: &QuantScheme, shape: &Shape, bytes: &[u8]) -> Value {
    let block = scheme.block_scale();
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        let bytes = Bytes::from_bytes_vec(bytes.to_vec());
        let (values, scales) = QuantizedBytes { bytes, scheme: *scheme, shape: shape.clone() }.into_vec_i8();
        let values: Vec<u8> = values.iter().map(|&v| v as u8).collect();
        let scales: Vec<u8> = scales.block.iter().chain(&scales.global).flat_map(|s| s.to_le_bytes()).collect();
        json!({ "values": sha256(&values), "scales": sha256(&scales) })
    }));
    json!({
        "value": format!("{:?}", scheme.value),
        "store": format!("{:?}", scheme.store),
        "mode": format!("{:?}", scheme.mode),
        "tensor": scheme.tensor_scale().map(|d| format!("{d:?}")),
        "block": block.map(|b| json!({ "size": block_dims(b.size.as_slice()), "dtype": format!("{:?}", b.dtype) })),
        "length": catch_unwind(|| quantized_data_len(scheme, shape)).ok(),
        "decoded": decoded.ok(),
    })
}

fn scalar(value: &Scalar) -> Value {
    match value {
        Scalar::Int(v) => json!({ "Int": v.to_string() }),
        Scalar::UInt(v) => json!({ "UInt": v.to_string() }),
        Scalar::Float(v) => json!({ "Float": format!("{:016x}", v.to_bits()) }),
        Scalar::Bool(v) => json!({ "Bool": v }),
    }
}

// --- writing ------------------------------------------------------------------------------------------------

struct Made {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    param_id: Option<u64>,
    bytes: Vec<u8>,
}

fn write(path: &str) -> Result<Value, String> {
    let made: Vec<Made> = plain().into_iter().chain(quantised()).collect();
    let scalars = scalars();

    let tensors = made.iter().map(|m| {
        let bytes = Bytes::from_bytes_vec(m.bytes.clone());
        Tensor::new(m.name.clone(), m.dtype, m.shape.clone(), m.param_id, bytes)
    });
    let mut writer = Writer::new(tensors.collect()).auto_extension(false);
    for (key, value) in METADATA {
        writer = writer.with_metadata(key, value);
    }
    for (key, value) in &scalars {
        writer = writer.with_scalar(key, *value);
    }
    writer.write_to_file(path).map_err(|e| e.to_string())?;

    let tensors: Map<String, Value> = made
        .iter()
        .map(|m| (m.name.clone(), report(m.dtype, &Shape::from(m.shape.clone()), m.param_id, &m.bytes)))
        .collect();
    let order: Vec<&str> = made.iter().map(|m| m.name.as_str()).collect();
    let scalars: Map<String, Value> = scalars.iter().map(|(k, v)| (k.clone(), scalar(v))).collect();
    Ok(json!({ "tensors": tensors, "order": order, "metadata": metadata_report(), "scalars": scalars }))
}

fn plain() -> Vec<Made> {
    use DType::*;
    let dtypes = [
        F64, F32, Flex32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8,
        Bool(BoolStore::Native), Bool(BoolStore::U8), Bool(BoolStore::U32),
    ];
    let mut out = Vec::new();
    for (i, dtype) in dtypes.into_iter().enumerate() {
        // Every third one goes without an id, which leaves the key out of its descriptor.
        let param_id = (i % 3 != 0).then_some(7000 + i as u64);
        let name = format!("dtype.{dtype:?}");
        let mut bytes = noise(&name, 15 * dtype.size());
        if let Bool(_) = dtype {
            let size = dtype.size();
            bytes.iter_mut().enumerate().for_each(|(at, b)| *b = if at % size == 0 { *b & 1 } else { 0 });
        }
        out.push(Made { name, dtype, shape: vec![3, 5], param_id, bytes });
    }
    for (name, shape, param_id) in awkward() {
        let bytes = noise(&name, 4 * shape.iter().product::<usize>());
        out.push(Made { name, dtype: F32, shape, param_id, bytes });
    }
    out
}

fn quantised() -> Vec<Made> {
    use QuantValue::*;
    use ScaleDtype::*;
    let scheme = |value, store| QuantScheme::default().with_value(value).with_store(store);
    let packed = QuantStore::PackedU32(0);
    let mut schemes: Vec<(String, QuantScheme, Vec<usize>)> = Vec::new();
    for value in [Q8F, E5M2, E4M3, Q4F, E2M1, Q2F, Q8S, Q4S, Q2S] {
        schemes.push((format!("native.{value:?}"), scheme(value, QuantStore::Native).per_tensor(F32), vec![4, 64]));
        schemes.push((format!("packed.{value:?}"), scheme(value, packed).per_tensor(F32), vec![4, 64]));
    }
    for scale in [F32, F16, BF16, UE8M0, UE4M3] {
        schemes.push((format!("tensor_scale.{scale:?}"), scheme(Q8S, packed).per_tensor(scale), vec![4, 64]));
        schemes.push((format!("block_scale.{scale:?}"), scheme(Q4S, packed).per_block([16], scale), vec![4, 64]));
    }
    schemes.extend([
        ("no_level".into(), QuantScheme::default(), vec![4, 64]),
        ("block.2x16".into(), scheme(Q8S, QuantStore::Native).per_block([2, 16], F32), vec![4, 64]),
        ("block.partial".into(), scheme(Q8S, QuantStore::Native).per_block([32], F16), vec![3, 70]),
        ("block.rank_3".into(), scheme(Q8F, QuantStore::Native).per_block([2, 2, 8], F32), vec![4, 4, 16]),
        ("two_levels".into(), scheme(Q4S, packed).per_block([16], F16).per_tensor(F32), vec![4, 64]),
        ("lookup".into(), scheme(Q4F, packed).per_block([16], F16).with_mode(QuantMode::Lookup), vec![4, 64]),
        ("packed.outer".into(), scheme(Q4S, QuantStore::PackedU32(1)).per_tensor(F32), vec![8, 6]),
        ("packed.odd".into(), scheme(Q4S, packed).per_tensor(F32), vec![3, 3]),
        ("packed_native".into(), scheme(E2M1, QuantStore::PackedNative(0)).per_block([16], UE4M3), vec![4, 32]),
    ]);
    schemes
        .into_iter()
        .enumerate()
        .map(|(i, (name, scheme, shape))| {
            let name = format!("quant.{name}");
            let bytes = noise(&name, quantized_data_len(&scheme, &Shape::from(shape.clone())));
            Made { name, dtype: DType::QFloat(scheme), shape, param_id: Some(9000 + i as u64), bytes }
        })
        .collect()
}

fn scalars() -> Vec<(String, Scalar)> {
    let mut out: Vec<(String, Scalar)> = Vec::new();
    for v in [0, 23, -1, -24, -25, 255, -256, -257, 1 << 40, i64::MIN, i64::MAX] {
        out.push((format!("int.{v}"), Scalar::Int(v)));
    }
    for v in [0, 24, 256, 65_536, 1 << 32, u64::MAX] {
        out.push((format!("uint.{v}"), Scalar::UInt(v)));
    }
    let floats = [
        0.0, -0.0, 1.5, 0.1, f64::from(0.1f32), 65504.0, 65505.0, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY,
        f64::NAN, f64::from_bits(0x7ff8_0000_0000_0001), f64::from_bits(0xfff8_1234_5678_9abc),
    ];
    for v in floats {
        out.push((format!("float.{:016x}", v.to_bits()), Scalar::Float(v)));
    }
    out.push(("bool.yes".into(), Scalar::Bool(true)));
    out.push(("bool.no".into(), Scalar::Bool(false)));
    out.push(("имя".into(), Scalar::UInt(1)));
    out
}
