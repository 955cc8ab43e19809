//! The binary as its users meet it: what it prints, what it exits with, and that it ends when told to.

mod bad_input;
mod commands;
mod readme;
mod replay;
mod up;
