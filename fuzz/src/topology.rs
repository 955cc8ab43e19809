//! A topology in YAML, and everything that is computed from it.

use std::sync::Arc;

use parallax_diagnosis::{
    Engine, Settings,
    plan::{self, PlanConfig},
    topology::{Topology, TopologySpec},
};
use parallax_model::{EventTime, Micros};

/// Parses the bytes as YAML.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(spec) = serde_saphyr::from_str::<TopologySpec>(text) else {
        return;
    };
    let Ok(topology) = Topology::try_from(spec) else {
        return;
    };
    let settings = Settings {
        interval: Micros::from_secs(5),
        timeout: Micros::from_secs(3),
    };
    let config = PlanConfig {
        interval: settings.interval,
        timeout: settings.timeout,
        echo_nonce: "n".to_owned(),
    };
    let vantages = topology.vantages();
    for vantage in vantages.iter().take(8) {
        let plan = plan::assignments(&topology, &config, vantage);
        assert!(plan.is_sorted_by(|a, b| a.id < b.id), "sorted by unique id");
        for front in topology.fronts().keys().take(8) {
            let _ = topology.placement(vantage, Some(front), None);
        }
    }
    let mut engine = Engine::new(settings, Arc::new(topology));
    for round in 0..4 {
        engine.advance(EventTime(round * 5_000_000));
    }
    let view = engine.view(EventTime(20_000_000));
    let _ = serde_json::to_string(&view).expect("a view can be serialized");
}
