//! Runs an aggregator from a configuration file, the smallest way to embed one.
//!
//! ```text
//! cargo run -p parallax-aggregator --example serve -- aggregator/examples/parallax.yaml
//! ```

use std::{error::Error, path::Path};

use parallax_aggregator::{Aggregator, Config};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("expected the path of a configuration file")?;
    let aggregator = Aggregator::bind(Config::load(Path::new(&path))?).await?;
    println!("http://{}/", aggregator.local_addr());
    let stop = CancellationToken::new();
    let running = tokio::spawn(aggregator.run(stop.clone()));
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    Ok(running.await??)
}
