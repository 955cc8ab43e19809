#![no_main]
#![expect(
    missing_docs,
    reason = "documented where it is implemented: parallax_fuzz::dns_answer"
)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parallax_fuzz::dns_answer::check(bytes));
