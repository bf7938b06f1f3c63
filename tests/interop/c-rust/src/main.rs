//! Calls the C interface from Rust.
//!
//!   tensors PATH              one line a tensor: name, dtype, shape, sum of all bytes
//!   doctor PATH               what is wrong with a file, and how much of it can be saved
//!   generate PATH PROMPT...   what the model writes for each prompt, all at once: 8 likeliest tokens, one line each
//!
//! The last line is the number of handles that are still open.
mod ffi;

use std::ffi::{c_void, CStr, CString};
use std::ptr::{null, null_mut};

fn checked(error: *mut ffi::Handle) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    let (kind, message) = unsafe {
        let kind = CStr::from_ptr(ffi::ballast_error_kind_name(error)).to_string_lossy().into_owned();
        let message = text_of(ffi::ballast_error_message(error));
        ffi::ballast_error_free(error);
        (kind, message)
    };
    Err(format!("{kind}: {message}"))
}

fn text_of(text: ffi::Text) -> String {
    let bytes = unsafe { std::slice::from_raw_parts(text.data as *const u8, text.size) };
    String::from_utf8_lossy(bytes).into_owned()
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|error| error.to_string())
}

struct Archive(*mut ffi::Handle);
impl Drop for Archive {
    fn drop(&mut self) {
        unsafe { ffi::ballast_archive_close(self.0) }
    }
}

fn print_tensors(path: &str) -> Result<(), String> {
    let path = c_string(path)?;
    let mut handle = null_mut();
    checked(unsafe { ffi::ballast_archive_open(path.as_ptr(), null(), &mut handle) })?;
    let archive = Archive(handle);
    for index in 0..unsafe { ffi::ballast_archive_tensor_count(archive.0) } {
        let mut info: ffi::TensorInfo = unsafe { std::mem::zeroed() };
        info.struct_size = std::mem::size_of::<ffi::TensorInfo>();
        checked(unsafe { ffi::ballast_archive_tensor_info(archive.0, index, &mut info) })?;
        let mut tensor = null_mut();
        checked(unsafe { ffi::ballast_archive_view(archive.0, index, 1, &mut tensor) })?;
        let (dims, sum) = unsafe {
            let dims: &[u64] = if info.rank == 0 { &[] } else { std::slice::from_raw_parts(info.dims, info.rank) };
            let size = ffi::ballast_tensor_size(tensor);
            let bytes: &[u8] = if size == 0 { &[] } else { std::slice::from_raw_parts(ffi::ballast_tensor_data(tensor), size) };
            (dims.to_vec(), bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>())
        };
        unsafe { ffi::ballast_tensor_close(tensor) };
        let dtype = unsafe { CStr::from_ptr(info.dtype) }.to_string_lossy();
        println!("{} {} {:?} {}", text_of(info.name), dtype, dims, sum);
    }
    Ok(())
}

fn print_diagnosis(path: &str) -> Result<(), String> {
    let path = c_string(path)?;
    let mut diagnosis = null_mut();
    checked(unsafe { ffi::ballast_doctor(path.as_ptr(), null(), &mut diagnosis) })?;
    let mut info: ffi::DiagnosisInfo = unsafe { std::mem::zeroed() };
    info.struct_size = std::mem::size_of::<ffi::DiagnosisInfo>();
    let got = checked(unsafe { ffi::ballast_diagnosis_get(diagnosis, &mut info) });
    if got.is_ok() {
        let verdict = unsafe { CStr::from_ptr(info.verdict_name) }.to_string_lossy();
        let tensors = info.sound_tensors + info.lost_tensors as u64;
        println!("{} {}, {} of {} tensors", verdict, text_of(info.format), info.sound_tensors, tensors);
    }
    unsafe { ffi::ballast_diagnosis_close(diagnosis) };
    got
}

extern "C" fn on_event(user: *mut c_void, event: *const ffi::EngineEvent) {
    let (written, event) = unsafe { (&mut *(user as *mut String), &*event) };
    written.push_str(&text_of(event.text));
}

fn print_texts(path: &str, prompts: &[String]) -> Result<(), String> {
    let path = c_string(path)?;
    let mut model = null_mut();
    checked(unsafe { ffi::ballast_text_model_open(path.as_ptr(), null(), &mut model) })?;
    let mut options: ffi::GenerateOptions = unsafe { std::mem::zeroed() };
    options.struct_size = std::mem::size_of::<ffi::GenerateOptions>();
    checked(unsafe { ffi::ballast_text_model_defaults(model, &mut options) })?;
    options.max_tokens = 8;
    options.temperature = 0.0;
    let mut engine = null_mut();
    checked(unsafe { ffi::ballast_engine_create(model, null(), &mut engine) })?;
    unsafe { ffi::ballast_text_model_close(model) };
    let mut texts = vec![String::new(); prompts.len()];
    for (prompt, text) in prompts.iter().zip(texts.iter_mut()) {
        let user = text as *mut String as *mut c_void;
        let data = prompt.as_ptr() as *const std::ffi::c_char;
        checked(unsafe { ffi::ballast_engine_submit(engine, data, prompt.len(), &options, on_event, user, null_mut()) })?;
    }
    checked(unsafe { ffi::ballast_engine_run(engine) })?;
    unsafe { ffi::ballast_engine_close(engine) };
    for text in texts {
        println!("{text:?}");
    }
    Ok(())
}

fn main() {
    assert_eq!(unsafe { ffi::ballast_abi_version() }, 1);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [verb, path] if verb == "tensors" => print_tensors(path),
        [verb, path] if verb == "doctor" => print_diagnosis(path),
        [verb, path, prompts @ ..] if verb == "generate" => print_texts(path, prompts),
        _ => Err("usage: tensors PATH | doctor PATH | generate PATH PROMPT...".to_string()),
    };
    if let Err(message) = &done {
        println!("error {message}");
    }
    println!("{} handles open", unsafe { ffi::ballast_open_handles() });
    std::process::exit(i32::from(done.is_err()));
}
