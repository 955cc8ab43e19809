//! The engine task: changes of the interval and timeout of rounds, and progress.

use parallax_diagnosis::Checkpoint;
use parallax_kubernetes::topology_state::ProbeTiming;
use parallax_model::Micros;
use tokio::sync::oneshot;

use super::*;

#[tokio::test]
async fn rounds_change_with_the_configuration_while_the_engine_task_runs() {
    let state = TopologyState::new(Arc::default());
    let (sender, topology) = watch::channel(state);
    let (_reports, reports) = mpsc::channel(REPORT_QUEUE_CAPACITY);
    let settings = Settings {
        interval: Micros::from_secs(5),
        timeout: Micros::from_secs(3),
    };
    let (restored, restored_in) = oneshot::channel();
    let checkpoint = EngineCheckpoint {
        restored: restored_in,
        latest: watch::channel(None).0,
        restored_flag: watch::channel(false).0,
    };
    let (task, outlook) = EngineTask::new(
        settings,
        Clock::system(),
        IngestMetrics::new(parallax_runtime::metrics::HistogramBuckets::default()),
        topology,
        reports,
        checkpoint,
    );
    restored.send(Checkpoint::default()).unwrap();
    let cancelled = CancellationToken::new();
    let running = tokio::spawn(task.run(cancelled.clone()));
    assert_eq!(outlook.views.latest().interval, settings.interval);
    let timing = ProbeTiming {
        interval: Micros::from_secs(1),
        timeout: Micros::from_millis(500),
    };
    sender.send_modify(|state| state.timing = Some(timing));
    let view = outlook.views.wait_for(|view| view.interval == timing.interval);
    tokio::time::timeout(Duration::from_secs(20), view).await.unwrap();
    cancelled.cancel();
    running.await.unwrap();
}

#[test]
fn an_engine_is_stalled_after_three_intervals_and_never_within_half_a_minute() {
    let seconds = Micros::from_secs;
    for (age, interval, stalled) in [(29, 5, false), (31, 5, true), (89, 30, false), (91, 30, true)] {
        assert_eq!(
            is_stalled(seconds(age), seconds(interval)),
            stalled,
            "{age} s of {interval} s"
        );
    }
}
