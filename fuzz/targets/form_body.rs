#![no_main]
#![expect(
    missing_docs,
    reason = "documented where it is implemented: parallax_fuzz::form_body"
)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::form_body::check(bytes));
