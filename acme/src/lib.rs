//! cert-manager as Parallax sees it: its objects, the Challenges that wait, and how renewals would end.
//!
//! ```text
//! API server ─▶ cert_manager (Certificates, Issuers, Challenges) ─▶ challenges (replays the self check, explains)
//!                                                              └─▶ forecast (checks each name ahead of its renewal)
//! ```
#![forbid(unsafe_code)]

pub mod cert_manager;
pub mod challenges;
pub mod forecast;
