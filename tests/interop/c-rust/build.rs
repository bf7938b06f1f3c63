// BALLAST_LIBDIR: the folder of libballast_c.so.
fn main() {
    let folder = std::env::var("BALLAST_LIBDIR").expect("BALLAST_LIBDIR is not set");
    println!("cargo:rerun-if-env-changed=BALLAST_LIBDIR");
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=dylib=ballast_c");
}
