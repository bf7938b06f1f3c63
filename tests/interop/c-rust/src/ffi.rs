//! What this program uses of include/ballast.h.
use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub struct Handle {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    pub data: *const c_char,
    pub size: usize,
}

#[repr(C)]
pub struct TensorInfo {
    pub struct_size: usize,
    pub name: Text,
    pub dtype: *const c_char,
    pub element_bits: u32,
    pub scheme: Text,
    pub rank: usize,
    pub dims: *const u64,
    pub byte_size: u64,
}

#[repr(C)]
pub struct DiagnosisInfo {
    pub struct_size: usize,
    pub verdict: c_int,
    pub verdict_name: *const c_char,
    pub format: Text,
    pub content: Text,
    pub what: Text,
    pub cause: Text,
    pub advice: Text,
    pub size: u64,
    pub has_offset: bool,
    pub offset: u64,
    pub sound_tensors: u64,
    pub sound_bytes: u64,
    pub lost_tensors: usize,
    pub complete: bool,
}

#[repr(C)]
pub struct GenerateOptions {
    pub struct_size: usize,
    pub max_tokens: u64,
    pub temperature: f64,
    pub top_k: u64,
    pub top_p: f64,
    pub min_p: f64,
    pub repetition_penalty: f64,
    pub repetition_window: u64,
    pub seed: u64,
    pub stops: *const *const c_char,
    pub stop_count: usize,
    pub context_shift: bool,
    pub half_cache: bool,
    pub priority: i32,
    pub cancel: *mut Handle,
}

#[repr(C)]
pub struct EngineEvent {
    pub request: u64,
    pub text: Text,
    pub token: u32,
    pub log_probability: f64,
    pub finish: c_int,
    pub error: *mut Handle,
}

pub type EngineCallback = extern "C" fn(user: *mut c_void, event: *const EngineEvent);

extern "C" {
    pub fn ballast_abi_version() -> u32;
    pub fn ballast_open_handles() -> usize;
    pub fn ballast_error_kind_name(error: *const Handle) -> *const c_char;
    pub fn ballast_error_message(error: *const Handle) -> Text;
    pub fn ballast_error_free(error: *mut Handle);
    pub fn ballast_archive_open(path: *const c_char, options: *const c_void, out: *mut *mut Handle) -> *mut Handle;
    pub fn ballast_archive_close(archive: *mut Handle);
    pub fn ballast_archive_tensor_count(archive: *const Handle) -> usize;
    pub fn ballast_archive_tensor_info(archive: *const Handle, index: usize, out: *mut TensorInfo) -> *mut Handle;
    pub fn ballast_archive_view(archive: *const Handle, index: usize, alignment: usize, out: *mut *mut Handle) -> *mut Handle;
    pub fn ballast_tensor_data(tensor: *const Handle) -> *const u8;
    pub fn ballast_tensor_size(tensor: *const Handle) -> usize;
    pub fn ballast_tensor_close(tensor: *mut Handle);
    pub fn ballast_doctor(path: *const c_char, options: *const c_void, out: *mut *mut Handle) -> *mut Handle;
    pub fn ballast_diagnosis_get(diagnosis: *const Handle, out: *mut DiagnosisInfo) -> *mut Handle;
    pub fn ballast_diagnosis_close(diagnosis: *mut Handle);
    pub fn ballast_text_model_open(path: *const c_char, options: *const c_void, out: *mut *mut Handle) -> *mut Handle;
    pub fn ballast_text_model_defaults(model: *const Handle, options: *mut GenerateOptions) -> *mut Handle;
    pub fn ballast_text_model_close(model: *mut Handle);
    pub fn ballast_engine_create(model: *const Handle, options: *const c_void, out: *mut *mut Handle) -> *mut Handle;
    pub fn ballast_engine_submit(
        engine: *mut Handle,
        prompt: *const c_char,
        size: usize,
        options: *const GenerateOptions,
        callback: EngineCallback,
        user: *mut c_void,
        request: *mut u64,
    ) -> *mut Handle;
    pub fn ballast_engine_run(engine: *mut Handle) -> *mut Handle;
    pub fn ballast_engine_close(engine: *mut Handle);
}
