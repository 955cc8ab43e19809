//! Faults of processes, of their machine and of the network between them, with the real binary.

mod clock;
mod coverage;
mod disk;
mod load;
mod network;
mod processes;
mod starvation;
mod versions;
