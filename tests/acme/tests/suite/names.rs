//! DNS answers for a name from the cluster, from the internet and from the zone's own servers, on the real DNS port.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anyhow::{Context, ensure};
use hickory_proto::{
    op::{Message, OpCode, ResponseCode},
    rr::{
        Name, RData, Record, RecordType,
        rdata::{A, CAA, CNAME, NS},
    },
};
use parallax_acme_conformance::namespace::run_in_namespace;
use parallax_model::dns::{
    CaaAnswer, CaaAsk, CaaVerdict, ComparedRecord as Compared, NameSight, RecordAnswer, ServerOwner as Who,
    evaluate_caa, name_differences,
};
use parallax_prober::names::{NameServerSet, collect};
use tokio::{net::UdpSocket, task::JoinSet};

const CLUSTER: &str = "9.0.0.10:53";
const WORLD: &str = "9.0.0.11:53";
const PARENT: [u8; 4] = [9, 0, 0, 52];
const CHILD: [u8; 4] = [9, 0, 0, 53];

/// One line of a zone file.
struct ZoneRecord(&'static str, RData);

fn name(text: &str) -> Name {
    let mut name = Name::from_ascii(text).unwrap();
    name.set_fqdn(true);
    name
}

fn a(address: [u8; 4]) -> RData {
    RData::A(A(address.into()))
}

fn ns(server: &str) -> RData {
    RData::NS(NS(name(server)))
}

fn issue(authority: &str) -> RData {
    // Without the trailing dot: the value is text, and a dot would be part of the name.
    let authority = Name::from_ascii(authority).unwrap();
    RData::CAA(CAA::new_issue(false, Some(authority), Vec::new()))
}

/// Behaviour of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerKind {
    /// A recursive resolver.
    Recursive,
    /// An authoritative server of its zone, which refers queries below its cut to another one.
    Authority { cut: Option<&'static str> },
}

async fn server(address: SocketAddr, lines: Vec<ZoneRecord>, manner: ServerKind, servers: &mut JoinSet<()>) {
    let socket = UdpSocket::bind(address).await.unwrap();
    servers.spawn(async move {
        let mut buffer = [0; 1500];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            let query = Message::from_vec(&buffer[..length]).unwrap();
            let answer = answer(&query, &lines, manner).to_vec().unwrap();
            socket.send_to(&answer, peer).await.unwrap();
        }
    });
}

fn answer(query: &Message, lines: &[ZoneRecord], manner: ServerKind) -> Message {
    let question = &query.queries[0];
    let mut answer = Message::response(query.metadata.id, OpCode::Query);
    answer.add_query(question.clone());
    let queried = question.name().to_lowercase();
    let record = |owner: &Name, data: &RData| Record::from_rdata(owner.clone(), 60, data.clone());
    let of = |owner: &Name| -> Vec<&RData> {
        lines
            .iter()
            .filter(|ZoneRecord(line, _)| name(line) == *owner)
            .map(|ZoneRecord(_, data)| data)
            .collect()
    };
    if let ServerKind::Authority { cut } = manner {
        assert!(
            !query.metadata.recursion_desired,
            "an authoritative server does not recurse"
        );
        if let Some(cut) = cut.map(name)
            && cut.zone_of(&queried)
        {
            for server in of(&cut) {
                answer.add_authority(record(&cut, server));
                if let RData::NS(server) = server {
                    for glue in of(&server.0) {
                        answer.add_additional(record(&server.0, glue));
                    }
                }
            }
            return answer;
        }
        answer.metadata.authoritative = true;
    }
    let mut at = queried;
    loop {
        let known = of(&at);
        if known.is_empty() && answer.answers.is_empty() {
            answer.metadata.response_code = ResponseCode::NXDomain;
        }
        for data in &known {
            if data.record_type() == question.query_type() {
                answer.add_answer(record(&at, data));
            }
        }
        let alias = known.iter().find_map(|data| match data {
            RData::CNAME(alias) => Some(alias.0.clone()),
            _ => None,
        });
        match alias {
            Some(alias) if question.query_type() != RecordType::CNAME => {
                answer.add_answer(record(&at, &RData::CNAME(CNAME(alias.clone()))));
                at = alias;
            }
            _ => return answer,
        }
    }
}

/// Records of the shop as seen from the internet and by its zone, except for its address.
fn internet_zone(shop: [u8; 4]) -> Vec<ZoneRecord> {
    vec![
        ZoneRecord("org", issue("nobody.example.net")),
        ZoneRecord("example.org", ns("ns.example.org")),
        ZoneRecord("example.org", issue("letsencrypt.org")),
        ZoneRecord("ns.example.org", a(PARENT)),
        ZoneRecord(
            "shop.example.org",
            RData::CNAME(CNAME(name("lb.shops.example.org"))),
        ),
        ZoneRecord("shops.example.org", ns("ns.shops.example.org")),
        ZoneRecord("ns.shops.example.org", a(CHILD)),
        ZoneRecord("lb.shops.example.org", a(shop)),
        ZoneRecord("direct.shops.example.org", a(shop)),
    ]
}

async fn asked(host: &str) -> NameSight {
    let mut servers = JoinSet::new();
    let at = |address: [u8; 4]| SocketAddr::from((address, 53));
    let resolver = |text: &str| text.parse::<SocketAddr>().unwrap();
    server(
        resolver(CLUSTER),
        internet_zone([10, 0, 0, 1]),
        ServerKind::Recursive,
        &mut servers,
    )
    .await;
    server(
        resolver(WORLD),
        internet_zone([9, 9, 9, 9]),
        ServerKind::Recursive,
        &mut servers,
    )
    .await;
    let cut = Some("shops.example.org");
    server(
        at(PARENT),
        internet_zone([9, 9, 9, 9]),
        ServerKind::Authority { cut },
        &mut servers,
    )
    .await;
    server(
        at(CHILD),
        internet_zone([9, 9, 9, 9]),
        ServerKind::Authority { cut: None },
        &mut servers,
    )
    .await;
    let viewers = NameServerSet {
        machine: vec![resolver(CLUSTER)],
        public: vec![resolver(WORLD)],
        authorities: true,
        scope: None,
    };
    collect(host, &viewers, Duration::from_secs(5)).await
}

#[test]
fn a_cluster_with_another_view_is_found_by_the_zones_own_servers_over_a_referral() {
    run_in_namespace(
        "names::a_cluster_with_another_view_is_found_by_the_zones_own_servers_over_a_referral",
        async || {
            let facts = asked("direct.shops.example.org").await;
            let [cluster, public, own] = facts.views.as_slice() else {
                anyhow::bail!("expected three servers: {facts:#?}");
            };
            let addresses = |last: IpAddr| RecordAnswer::Addresses(vec![last]);
            ensure!(cluster.a == addresses(IpAddr::from([10, 0, 0, 1])), "{cluster:?}");
            ensure!(public.a == addresses(IpAddr::from([9, 9, 9, 9])), "{public:?}");
            ensure!(
                own.a == public.a && own.server.ip() == IpAddr::from(CHILD),
                "{own:?}"
            );
            let expected = Who::Authority {
                zone: "shops.example.org".to_owned(),
                server: "ns.shops.example.org".to_owned(),
            };
            ensure!(own.owner == expected, "{own:?}");
            let differences = name_differences(&facts.views);
            let [difference] = differences.as_slice() else {
                anyhow::bail!("expected one difference: {differences:#?}");
            };
            ensure!(difference.record == Compared::A && difference.answers.len() == 2);
            Ok(())
        },
    );
}

#[test]
fn an_alias_is_told_with_its_way_and_the_records_above_decide_who_may_issue() {
    run_in_namespace(
        "names::an_alias_is_told_with_its_way_and_the_records_above_decide_who_may_issue",
        async || {
            let facts = asked("*.Shop.example.org.").await;
            for view in &facts.views {
                ensure!(
                    view.aliases.first().map(String::as_str) == Some("lb.shops.example.org"),
                    "{view:?}"
                );
            }
            let names: Vec<_> = facts.caa.iter().map(|at| at.name.as_str()).collect();
            ensure!(names == ["shop.example.org", "example.org", "org"], "{names:?}");
            ensure!(facts.caa[0].answer == CaaAnswer::None, "{:?}", facts.caa);
            let ask = CaaAsk {
                issuer: "letsencrypt.org",
                wildcard: true,
                method: "dns-01",
                account_uri: None,
            };
            let verdict = evaluate_caa(&facts.caa, ask);
            let allowed = CaaVerdict::Allowed {
                name: "example.org".to_owned(),
                accounts: Vec::new(),
            };
            ensure!(verdict == allowed, "{verdict:?}");
            let json = serde_json::to_value(&facts).context("serializing the facts")?;
            ensure!(json["views"][0]["by"] == "own", "{json}");
            Ok(())
        },
    );
}

#[test]
fn a_zone_without_reachable_servers_is_said_and_costs_the_others_nothing() {
    run_in_namespace(
        "names::a_zone_without_reachable_servers_is_said_and_costs_the_others_nothing",
        async || {
            let facts = asked("nobody.elsewhere.net").await;
            ensure!(facts.views.len() == 2, "{:#?}", facts.views);
            ensure!(facts.authority_failure.is_some());
            ensure!(
                facts.views.iter().all(|view| view.a == RecordAnswer::NoSuchName),
                "{:#?}",
                facts.views
            );
            Ok(())
        },
    );
}
