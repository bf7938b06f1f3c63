//! Reads and writes Burnpack files with burn-store 0.20.1, the oldest generation whose writer is public, and prints
//! what it saw as JSON.

#[path = "../../burn-common/common.rs"]
mod common;

use burn_core::module::ParamId;
use burn_store::{BurnpackStore, BurnpackWriter, ModuleStore, TensorSnapshot};
use burn_tensor::quantization::{QuantLevel, QuantParam, QuantScheme, QuantStore, QuantValue, QuantizedBytes};
use burn_tensor::{Bytes, DType, TensorData};
use common::{METADATA, Seen, awkward, block_dims, describe, metadata_report, noise, sha256};
use serde_json::{Map, Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};

const CRATE: &str = "burn-store 0.20.1";

fn main() {
    // The decoder of this generation knows only some schemes and panics on the others: that is an answer here.
    std::panic::set_hook(Box::new(|_| {}));
    common::main(CRATE, read, write);
}

// --- reading ------------------------------------------------------------------------------------------------

/// The file is read twice, copying and zero-copy, and both must agree. This generation invents an id for a tensor
/// that was stored without one, a new one at each load: an id that differs between the two is "none".
fn read(path: &str) -> Result<Value, String> {
    let mut copied = tensors(path, false)?;
    let mut mapped = tensors(path, true)?;
    for (name, t) in copied.iter_mut() {
        let other = mapped.get_mut(name).ok_or("the two ways to read disagree about the names")?;
        if t["param_id"] != other["param_id"] {
            t["param_id"] = Value::Null;
            other["param_id"] = Value::Null;
        }
    }
    if copied != mapped {
        return Err("copying and zero-copy reads disagree".into());
    }
    Ok(json!({ "tensors": copied, "metadata": null, "scalars": null }))
}

fn tensors(path: &str, zero_copy: bool) -> Result<Map<String, Value>, String> {
    let mut store = BurnpackStore::from_file(path).auto_extension(false).zero_copy(zero_copy);
    let mut out = Map::new();
    for (name, snapshot) in store.get_all_snapshots().map_err(|e| e.to_string())? {
        let data = snapshot.to_data().map_err(|e| format!("{name}: {e:?}"))?;
        out.insert(name.clone(), report(snapshot, &data));
    }
    Ok(out)
}

fn report(snapshot: &TensorSnapshot, data: &TensorData) -> Value {
    let quant = match snapshot.dtype {
        DType::QFloat(scheme) => quant(&scheme, snapshot, &data.bytes),
        _ => Value::Null,
    };
    let dtype = match snapshot.dtype {
        DType::QFloat(_) => "QFloat".into(),
        other => format!("{other:?}"),
    };
    let param_id = snapshot.tensor_id.map(|id| id.val());
    describe(Seen { dtype, shape: snapshot.shape.clone(), param_id, bytes: &data.bytes, quant })
}

/// The scheme in words that every generation shares, and what Burn's own decoder makes of the payload.
fn quant(scheme: &QuantScheme, snapshot: &TensorSnapshot, bytes: &[u8]) -> Value {
    let param = format!("{:?}", scheme.param);
    let (tensor, block) = match scheme.level {
        QuantLevel::Tensor => (json!(param), Value::Null),
        QuantLevel::Block(size) => (Value::Null, json!({ "size": block_dims(size.as_slice()), "dtype": param })),
    };
    json!({
        "value": format!("{:?}", scheme.value),
        "store": format!("{:?}", scheme.store),
        "mode": format!("{:?}", scheme.mode),
        "tensor": tensor,
        "block": block,
        "length": snapshot.data_len(),
        "decoded": decoded(scheme, snapshot, bytes),
    })
}

/// This decoder takes every scale for f32 and every block for a whole one, without checking. Where that does not hold
/// its answer means nothing, so it is not asked.
fn decoded(scheme: &QuantScheme, snapshot: &TensorSnapshot, bytes: &[u8]) -> Value {
    let whole_blocks = match scheme.level {
        QuantLevel::Tensor => true,
        QuantLevel::Block(size) => {
            let dims = size.to_dim_vec(snapshot.shape.len());
            snapshot.shape.iter().zip(dims).all(|(&n, b)| n.is_multiple_of(usize::from(b)))
        }
    };
    let num_elements: usize = snapshot.shape.iter().product();
    // It takes the padding after byte-wide values for values.
    let no_padding = scheme.size_bits_value() < 8 || num_elements.is_multiple_of(4);
    if scheme.param != QuantParam::F32 || !whole_blocks || !no_padding {
        return Value::Null;
    }
    catch_unwind(AssertUnwindSafe(|| {
        // As words, because the sub-byte decoder takes the buffer only with the alignment of a u32.
        let bytes = Bytes::from_elems(words(bytes));
        let (values, params) = QuantizedBytes { bytes, scheme: *scheme, num_elements }.into_vec_i8();
        let values: Vec<u8> = values.iter().map(|&v| v as u8).collect();
        let scales: Vec<u8> = params.scales.iter().flat_map(|s| s.to_le_bytes()).collect();
        json!({ "values": sha256(&values), "scales": sha256(&scales) })
    }))
    .unwrap_or(Value::Null)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|&w| u32::from_ne_bytes(w)).collect()
}

// --- writing ------------------------------------------------------------------------------------------------

fn write(path: &str) -> Result<Value, String> {
    let made: Vec<TensorSnapshot> = plain().into_iter().chain(quantised()).collect();
    let mut writer = BurnpackWriter::new(made.clone());
    for (key, value) in METADATA {
        writer = writer.with_metadata(key, value);
    }
    writer.write_to_file(path).map_err(|e| e.to_string())?;

    let mut tensors = Map::new();
    for snapshot in &made {
        let data = snapshot.to_data().map_err(|e| format!("{e:?}"))?;
        tensors.insert(snapshot.full_path(), report(snapshot, &data));
    }
    let order: Vec<String> = made.iter().map(|s| s.full_path()).collect();
    Ok(json!({ "tensors": tensors, "order": order, "metadata": metadata_report(), "scalars": {} }))
}

/// A snapshot whose name is taken as it stands: one path part, dots included.
fn snapshot(name: String, dtype: DType, shape: Vec<usize>, param_id: Option<u64>, bytes: Vec<u8>) -> TensorSnapshot {
    let data = TensorData::from_bytes_vec(bytes, shape, dtype);
    let id = ParamId::from(param_id.unwrap_or(0));
    let mut made = TensorSnapshot::from_data(data, vec![name], vec![], id);
    made.tensor_id = param_id.map(ParamId::from);
    made
}

fn plain() -> Vec<TensorSnapshot> {
    use DType::*;
    let mut out = Vec::new();
    let dtypes = [F64, F32, Flex32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, Bool];
    for (i, dtype) in dtypes.into_iter().enumerate() {
        // Every third one goes without an id, which leaves the key out of its descriptor.
        let param_id = (i % 3 != 0).then_some(7000 + i as u64);
        let name = format!("dtype.{dtype:?}");
        let mut bytes = noise(&name, 15 * dtype.size());
        if let Bool = dtype {
            bytes.iter_mut().for_each(|b| *b &= 1);
        }
        out.push(snapshot(name, dtype, vec![3, 5], param_id, bytes));
    }
    for (name, shape, param_id) in awkward() {
        let bytes = noise(&name, 4 * shape.iter().product::<usize>());
        out.push(snapshot(name, F32, shape, param_id, bytes));
    }
    out
}

fn quantised() -> Vec<TensorSnapshot> {
    use QuantParam::*;
    use QuantValue::*;
    let scheme = |value, store| QuantScheme::default().with_value(value).with_store(store);
    let block = |dims: &[u8]| QuantLevel::block(dims);
    let packed = QuantStore::PackedU32(0);
    let native = QuantStore::Native;
    let mut schemes: Vec<(String, QuantScheme, Vec<usize>)> = Vec::new();
    for value in [Q8F, E5M2, E4M3, Q4F, E2M1, Q2F, Q8S, Q4S, Q2S] {
        schemes.push((format!("packed.{value:?}"), scheme(value, packed), vec![4, 64]));
        if value.size_bits() == 8 {
            schemes.push((format!("native.{value:?}"), scheme(value, native), vec![4, 64]));
        }
    }
    for param in [F32, F16, BF16, UE8M0, UE4M3] {
        schemes.push((format!("tensor_scale.{param:?}"), scheme(Q8S, packed).with_param(param), vec![4, 64]));
        let in_blocks = scheme(Q4S, packed).with_level(block(&[16])).with_param(param);
        schemes.push((format!("block_scale.{param:?}"), in_blocks, vec![4, 64]));
    }
    schemes.extend([
        ("block.2x16".into(), scheme(Q8S, native).with_level(block(&[2, 16])), vec![4, 64]),
        ("block.partial".into(), scheme(Q8S, native).with_level(block(&[32])), vec![4, 70]),
        ("block.rank_3".into(), scheme(Q8F, native).with_level(block(&[2, 2, 8])), vec![4, 4, 16]),
        ("packed.outer".into(), scheme(Q8S, QuantStore::PackedU32(1)), vec![4, 32]),
        // This generation packs straight through the end of a row; later ones start a new word there.
        ("ragged".into(), scheme(Q4S, packed), vec![3, 3]),
        (
            "packed_native".into(),
            scheme(E2M1, QuantStore::PackedNative(0)).with_level(block(&[16])).with_param(UE4M3),
            vec![4, 32],
        ),
    ]);
    schemes
        .into_iter()
        .enumerate()
        .map(|(i, (name, scheme, shape))| {
            let (name, id) = (format!("quant.{name}"), Some(9000 + i as u64));
            let dtype = DType::QFloat(scheme);
            let len = snapshot(name.clone(), dtype, shape.clone(), id, vec![]).data_len();
            let bytes = noise(&name, len);
            snapshot(name, dtype, shape, id, bytes)
        })
        .collect()
}
