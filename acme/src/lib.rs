//! Integration with cert-manager: its objects, explanations of waiting Challenges, and renewal forecasts.
//!
//! ```text
//! API server ─▶ cert_manager (Certificates, Issuers, Challenges) ─▶ challenges (replays the self check, explains it)
//!                                                              └─▶ forecast (checks each name before its renewal)
//! ```
#![forbid(unsafe_code)]

pub mod cert_manager;
pub mod challenges;
pub mod forecast;
