//! An aggregator whose runs all pass at once.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    http::{Method, StatusCode, header},
    response::IntoResponse as _,
};
use serde_json::json;

use super::ClusterState;

/// Accepts every run, after rejecting as many as the test wants; each has one vantage, which passes.
pub(super) fn passing_aggregator(state: &Arc<Mutex<ClusterState>>) -> Router {
    let state = Arc::clone(state);
    Router::new().fallback(async move |method: Method| {
        let (status, body) = response(&method, &mut state.lock().unwrap());
        (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    })
}

fn response(method: &Method, state: &mut ClusterState) -> (StatusCode, String) {
    if method == Method::POST && state.rejected_runs > 0 {
        state.rejected_runs -= 1;
        let error = json!({"error": "too many runs; ask again in 6 s"});
        return (StatusCode::TOO_MANY_REQUESTS, error.to_string());
    }
    let run = json!({"id": "r-1", "target": "http://a/", "from": "nodes", "rounds": 1, "interval_us": 1, "timeout_us": 1,
        "requested_by": "t", "requested_at": 0, "deadline": 1, "state": "done", "expected": 1, "completed": 1, "vantages": [], "outcome": "passed"});
    if method == Method::POST {
        return (StatusCode::CREATED, run.to_string());
    }
    let result = json!({"event": "result", "vantage": "n1/pod", "channel": "vip", "round": 1, "t_us": 0, "target": "http://a/",
        "result": "ok", "status": 200, "challenge": {"passes": 1}, "placement": "same-node"});
    let events = format!("{result}\n{}\n", json!({"event": "done", "run": run}));
    (StatusCode::OK, events)
}
