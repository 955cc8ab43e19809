//! DNS records of a name, collected for a run.

use std::io::Write;

use hickory_proto::{
    op::{Query, ResponseCode},
    rr::RecordType,
};
use parallax_model::{
    FailureKind, Outcome, OwnFault, Phase,
    dns::{CaaAnswer, NameSight, RecordAnswer, ServerOwner, name_differences},
};
use parallax_prober::{ProbeContext, ProbeResult, TlsConfigs, run};
use serde_json::{Value, json};

use crate::servers::{
    AMPLE, assignment,
    dns::{Dns, DnsScript},
};

/// A context whose resolv.conf contains this server, or none.
fn machine(own: Option<&Dns>) -> (ProbeContext, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    if let Some(own) = own {
        writeln!(file, "nameserver [127.0.0.1]:{}", own.addr.port()).unwrap();
    }
    (
        ProbeContext::with_tls(file.path().to_owned(), TlsConfigs::with_roots([])),
        file,
    )
}

async fn collect(own: Option<&Dns>, probe: &Value) -> ProbeResult {
    let (context, _file) = machine(own);
    let mut wanted = assignment(probe, &json!("resolve"), AMPLE);
    wanted.channel = parallax_model::Channel::Dns;
    run(&wanted, &context).await
}

/// A zone with these addresses of the shop, whose parent allows one authority to issue.
fn zone(shop: &'static [&'static str]) -> impl Fn(&Query) -> DnsScript + Send + Sync + 'static {
    move |query| {
        let name = query.name().to_ascii();
        match (name.trim_end_matches('.'), query.query_type()) {
            ("shop.example.test", RecordType::A) => DnsScript::Addresses(shop),
            ("example.test", RecordType::CAA) => DnsScript::Issue("letsencrypt.org"),
            ("shop.example.test" | "example.test" | "test", _) => DnsScript::Code(ResponseCode::NoError),
            _ => DnsScript::Code(ResponseCode::NXDomain),
        }
    }
}

fn name_sight(result: &ProbeResult) -> &NameSight {
    result.names.as_deref().unwrap()
}

#[tokio::test]
async fn the_own_and_the_public_resolver_are_asked_and_the_public_one_for_who_may_issue() {
    let cluster = Dns::start(zone(&["10.0.0.1"])).await;
    let world = Dns::start(zone(&["203.0.113.10"])).await;
    let probe = json!({"kind": "names", "name": "shop.example.test", "public": [world.addr]});
    let seen = collect(Some(&cluster), &probe).await;
    assert_eq!(seen.outcome, Outcome::Ok { status: None });
    assert!(seen.times.resolve.is_some() && seen.front.is_none());
    let sight = name_sight(&seen);
    let views: Vec<_> = sight
        .views
        .iter()
        .map(|view| (&view.owner, view.server))
        .collect();
    assert_eq!(
        views,
        [
            (&ServerOwner::Local, cluster.addr),
            (&ServerOwner::Public, world.addr)
        ]
    );
    assert_eq!(
        name_differences(&sight.views).len(),
        1,
        "they differ in the address only"
    );
    let caa_names: Vec<_> = sight.caa.iter().map(|at| at.name.as_str()).collect();
    assert_eq!(caa_names, ["shop.example.test", "example.test", "test"]);
    let CaaAnswer::Records(records) = &sight.caa[1].answer else {
        panic!("the parent has records: {sight:?}")
    };
    assert_eq!(records[0].value, "letsencrypt.org");
    let to_the_world = world.queries.lock().clone();
    assert!(to_the_world.contains(&"test CAA".to_owned()), "{to_the_world:?}");
    cluster.join().await;
    world.join().await;
}

#[tokio::test]
async fn that_there_is_no_such_name_is_an_answer_and_silence_is_none() {
    let dns = Dns::start(zone(&[])).await;
    let probe = json!({"kind": "names", "name": "nobody.example.test"});
    let seen = collect(Some(&dns), &probe).await;
    assert_eq!(seen.outcome, Outcome::Ok { status: None });
    assert_eq!(name_sight(&seen).views[0].a, RecordAnswer::NoSuchName);
    dns.join().await;

    let failing = Dns::start(|_| DnsScript::Code(ResponseCode::ServFail)).await;
    let seen = collect(Some(&failing), &probe).await;
    let failed = Outcome::Failed {
        phase: Phase::Resolve,
        kind: FailureKind::ServFail,
        status: None,
    };
    assert_eq!(seen.outcome, failed);
    assert!(
        matches!(name_sight(&seen).caa[0].answer, CaaAnswer::Failed(_)),
        "a failed query is not an empty answer"
    );
    failing.join().await;

    let without_resolver = collect(None, &probe).await;
    let fault = OwnFault::NoResolver;
    assert_eq!(without_resolver.outcome, Outcome::NotProbed { fault });
    assert_eq!(without_resolver.names, None);
}

#[tokio::test]
async fn a_zones_servers_are_asked_only_where_that_is_wanted() {
    let dns = Dns::start(zone(&["203.0.113.10"])).await;
    let of =
        |authorities: bool| json!({"kind": "names", "name": "shop.example.test", "authorities": authorities});
    let seen = collect(Some(&dns), &of(false)).await;
    assert_eq!(name_sight(&seen).authority_failure, None);
    assert!(
        !dns.queries
            .lock()
            .iter()
            .any(|question| question.ends_with(" NS")),
        "they were not requested"
    );
    let seen = collect(Some(&dns), &of(true)).await;
    assert!(
        name_sight(&seen).authority_failure.is_some(),
        "this zone has no NS records: {seen:?}"
    );
    dns.join().await;
}
