#![no_main]
#![expect(
    missing_docs,
    reason = "documented where it is implemented: parallax_fuzz::store_file"
)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::store_file::check(bytes));
