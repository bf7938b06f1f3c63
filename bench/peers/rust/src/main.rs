//! bench-peers RUNS WORK FILE [FILE]: times one piece of work of a peer inside its own library and prints JSON, as
//! ballast_bench does for Ballast. scripts/bench and scripts/bench_peers build and run it.

use burn_pack::{DType, Reader, Tensor, Writer};
use memmap2::Mmap;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Wide words: the loop must not be slower than the memory it reads.
fn sum_bytes(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let rest: u64 = words.remainder().iter().map(|&byte| byte as u64).sum();
    words.fold(rest, |total, word| total.wrapping_add(u64::from_le_bytes(word.try_into().unwrap())))
}

fn map(path: &str) -> Outcome<Mmap> {
    Ok(unsafe { Mmap::map(&File::open(path)?)? })
}

// --- the safetensors crate ----------------------------------------------------------------------------------

fn safetensors_open(path: &str) -> Outcome<u64> {
    let map = map(path)?;
    Ok(SafeTensors::deserialize(&map)?.len() as u64)
}

fn safetensors_read(path: &str) -> Outcome<u64> {
    let map = map(path)?;
    let file = SafeTensors::deserialize(&map)?;
    Ok(file.iter().fold(0, |total, (_, view)| total.wrapping_add(sum_bytes(view.data()))))
}

fn safetensors_write(tensors: &[(String, TensorView)], to: &str) -> Outcome<u64> {
    safetensors::serialize_to_file(tensors.iter().map(|(name, view)| (name, view)), None, Path::new(to))?;
    File::open(to)?.sync_all()?;
    Ok(tensors.len() as u64)
}

// --- the burn-pack crate ------------------------------------------------------------------------------------

fn burnpack_open(path: &str) -> Outcome<u64> {
    Ok(Reader::from_file_exact(path)?.tensor_names().len() as u64)
}

fn burnpack_read(path: &str) -> Outcome<u64> {
    let mut total = 0u64;
    for tensor in Reader::from_file_exact(path)?.into_tensors()? {
        total = total.wrapping_add(sum_bytes(&tensor.into_bytes()?));
    }
    Ok(total)
}

/// The tensors of `from`, in memory, and then their atomic, synced write: only that is timed.
fn burnpack_write(tensors: &[(String, TensorView)], to: &str) -> Outcome<f64> {
    let copies = tensors.iter().map(|(name, view)| {
        let bytes = burn_pack::Bytes::from_bytes_vec(view.data().to_vec());
        Tensor::new(name.clone(), DType::F32, view.shape().to_vec(), None, bytes)
    });
    let copies = copies.collect();
    let start = Instant::now();
    Writer::new(copies).overwrite(true).write_to_file(to)?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

// --- timing -------------------------------------------------------------------------------------------------

/// What the work that was timed last gave: the same as that of ballast_bench.
static RESULT: AtomicU64 = AtomicU64::new(0);

fn timed(body: impl Fn() -> Outcome<u64>) -> Outcome<f64> {
    let start = Instant::now();
    let result = body()?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    RESULT.store(result, Ordering::Relaxed);
    Ok(milliseconds)
}

fn repeated(runs: usize, once: impl Fn() -> Outcome<f64>) -> Outcome<Vec<f64>> {
    (0..runs).map(|_| once()).collect()
}

fn run(runs: usize, work: &str, first: &str, second: &str) -> Outcome<Vec<f64>> {
    match work {
        "safetensors-open" => repeated(runs, || timed(|| safetensors_open(first))),
        "safetensors-read" => repeated(runs, || timed(|| safetensors_read(first))),
        "burnpack-open" => repeated(runs, || timed(|| burnpack_open(first))),
        "burnpack-read" => repeated(runs, || timed(|| burnpack_read(first))),
        "safetensors-write" | "burnpack-write" => {
            let map = map(first)?;
            let tensors = SafeTensors::deserialize(&map)?.tensors();
            repeated(runs, || {
                let _ = std::fs::remove_file(second); // a new file each time, as for everyone
                match work {
                    "safetensors-write" => timed(|| safetensors_write(&tensors, second)),
                    _ => burnpack_write(&tensors, second),
                }
            })
        }
        _ => Err(format!("unknown work {work}").into()),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let word = |i: usize| arguments.get(i).map_or("", String::as_str);
    let runs = word(1).parse().unwrap_or(5);
    match run(runs, word(2), word(3), word(4)) {
        Ok(times) => {
            let result = RESULT.load(Ordering::Relaxed);
            println!("{{\"work\":\"{}\",\"result\":{result},\"times_ms\":{times:?}}}", word(2));
        }
        Err(error) => {
            eprintln!("bench-peers: {}: {error}", word(2));
            std::process::exit(2);
        }
    }
}
