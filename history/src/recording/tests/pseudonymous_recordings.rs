//! Recordings with pseudonyms contain no names.

use super::*;

/// Every name and address in [`spec`] and in the observations.
const SECRETS: [&str; 35] = [
    "alpha",
    "westwing",
    "watcher",
    "gateway",
    "frontdoor",
    "doorman",
    "bakery",
    "bread",
    "rye",
    "oat",
    "Rye",
    "Bakery",
    "private",
    "secret",
    "baguette",
    "oven",
    "flour",
    "dough",
    "pantry",
    "knock",
    "yeast",
    "x-crust",
    "crunchy",
    "sourdough",
    "courier",
    "cottage",
    "stranger",
    "nonce",
    "life-of",
    "quicksand",
    "203.0.113",
    "10.244.",
    "10.96.0",
    "192.0.2",
    "2001:db8",
];

/// Whether a word has the form of a pseudonym, which no secret has.
fn is_pseudonym(word: &str) -> bool {
    word.len() == 11 && word.starts_with('x')
}

#[test]
fn with_pseudonyms_no_name_survives_and_the_verdict_is_the_same_but_for_names() {
    let mut live = LiveEngine::start(true, RecordOptions::DEFAULT_BYTES);
    live.incident();
    let (folder, view) = live.finish();
    let files = segments(folder.path());
    let text: String = files.iter().map(|file| decompress(file)).collect();
    // A short name occurs in a random pseudonym by chance.
    let text_without_pseudonyms: String = text
        .split_inclusive(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !is_pseudonym(part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric())))
        .collect();
    assert!(text_without_pseudonyms.len() < text.len(), "there are pseudonyms");
    for secret in SECRETS {
        assert!(!text_without_pseudonyms.contains(secret), "{secret} survived");
    }
    assert!(
        text.contains(".svc.cluster.local"),
        "the cluster's domain is kept"
    );
    let (again, output) = replay(&files, view.at);
    assert!(
        output.iter().all(|line| line["type"] != "malformed"),
        "{output:?}"
    );
    assert_eq!(again.incidents.len(), view.incidents.len());
    for (veiled, plain) in again.incidents.iter().zip(&view.incidents) {
        let (v, p) = (&veiled.verdict, &plain.verdict);
        assert_eq!(
            (veiled.state, veiled.since, veiled.opened),
            (plain.state, plain.since, plain.opened)
        );
        assert_eq!(
            (&v.region.region, v.probability),
            (&p.region.region, p.probability)
        );
        let ids = |causes: &[parallax_diagnosis::verdict::NamedCause]| -> Vec<_> {
            causes
                .iter()
                .map(|cause| (cause.id.clone(), cause.probability))
                .collect()
        };
        assert_eq!(ids(&v.causes), ids(&p.causes));
        assert_eq!(v.targets.len(), p.targets.len());
        let table = |verdict: &parallax_diagnosis::verdict::Verdict| -> Vec<_> {
            let rows = verdict.evidence.iter();
            rows.map(|row| (row.channel, row.placement, row.probes, row.failures))
                .collect()
        };
        assert_eq!(table(v), table(p));
    }
    assert_eq!(again.counters, view.counters);
    let states = |view: &View| -> Vec<Vec<_>> {
        let mut rows: Vec<Vec<_>> = view
            .matrix
            .iter()
            .map(|row| {
                let mut cells: Vec<_> = row
                    .cells
                    .iter()
                    .map(|c| (c.state, c.probes, c.failures))
                    .collect();
                cells.sort();
                cells
            })
            .collect();
        rows.sort();
        rows
    };
    assert_eq!(states(&again), states(&view));
}

#[test]
fn two_recordings_of_the_same_mesh_share_no_pseudonym() {
    let words = || -> BTreeSet<String> {
        let mut live = LiveEngine::start(true, RecordOptions::DEFAULT_BYTES);
        live.round(0, &[1]);
        let (folder, _) = live.finish();
        let text: String = segments(folder.path())
            .iter()
            .map(|file| decompress(file))
            .collect();
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| is_pseudonym(word))
            .map(ToOwned::to_owned)
            .collect()
    };
    let (one, other) = (words(), words());
    assert!(one.len() > 10);
    assert!(one.is_disjoint(&other));
}

/// A word that occurs in no text of the program itself.
fn odd_word() -> impl Strategy<Value = String> {
    "q[a-z]{0,3}[0-9]zq[a-z0-9]{4,10}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_name_survives_pseudonymization_and_the_topology_stays_consistent(
        words in prop::collection::vec(odd_word(), 12),
        octets in prop::collection::vec(1_u8..250, 4),
        upper in any::<bool>(),
    ) {
        // Loopback addresses are not pseudonymized.
        prop_assume!(octets[0] != 127);
        let w = |i: usize| if upper && i == 3 { words[i].to_uppercase() } else { words[i].clone() };
        let host = format!("{}.{}.{}", w(3), words[4], words[5]);
        let ip = |last: u8| format!("{}.{}.{}.{last}", octets[0], octets[1], octets[2]);
        let spec: TopologySpec = serde_json::from_value(json!({
            "nodes": [{"name": format!("{}.{}", words[0], words[1]), "zone": words[2], "addresses": [ip(1)],
                "prober": {"pod": words[6], "address": format!("{}:9095", ip(2))}}],
            "services": [{"namespace": words[7], "name": words[8], "clusterIPs": [ip(3)],
                "ports": [{"name": "http-main", "port": 80, "targetPort": 8080}, {"name": words[9], "port": 443, "targetPort": 8443}],
                "probe": {"wanted": true, "path": format!("/{}/{}?{}", words[0], words[5], words[3])},
                "endpoints": [{"pod": words[10], "address": ip(4), "node": format!("{}.{}", words[0], words[1]),
                    "hints": {"forZones": [words[2]], "forNodes": [format!("{}.{}", words[0], words[1])]}}]}],
            "published": [{"target": {"url": format!("http://{}.{host}/{}", words[9], words[1])}, "port": 80,
                "service": format!("{}/{}", words[7], words[8]), "class": words[2],
                "origin": format!("{}/{}", words[7], words[8])}],
            "ingresses": [{"namespace": words[7], "name": words[11], "service": format!("{}/{}", words[7], words[8]),
                "hosts": [host], "tls": true}],
            "targets": [{"url": format!("http://{host}:8080/{}/{}?{}={}", words[0], words[1], words[2], words[3])},
                {"url": format!("tls://{host}:993"), "expectTls": {"name": host, "issuer": words[9]}},
                {"url": format!("dns://{host}"), "resolver": format!("{}:53", ip(5)), "search": "musl"},
                {"url": format!("http://{host}/#x"), "keepAlive": true},
                {"url": format!("https://{host}/{}", words[1]), "requestHeaders": {words[5].clone(): words[6]},
                    "credential": words[7], "clientCertificate": words[8], "proxyCredential": words[9],
                    "httpProxy": format!("http://{}.{}:3128", words[10], words[11])},
                {"url": format!("https://{host}/"), "httpProxy": format!("http://{}:3128", ip(5))},
                {"url": format!("tls://{host}:994"), "resolver": format!("{}:53", ip(5))},
                {"url": format!("tcp://{}:80", ip(3))},
                {"url": format!("http://{}.{}.svc/", words[8], words[7])},
                {"url": format!("http://[2001:db8::{:x}]/", octets[3])}],
        })).unwrap();
        let plain = Topology::try_from(spec.clone()).unwrap();
        let mut pseudonymizer = pseudonyms::Pseudonymizer::new().unwrap();
        let veiled_spec = pseudonymizer.topology_spec(&spec);
        let text = serde_json::to_string(&veiled_spec).unwrap();
        for word in &words {
            prop_assert!(!text.to_lowercase().contains(word.as_str()), "{word} in {text}");
        }
        for last in 1..=5 {
            prop_assert!(!text.contains(&format!("\"{}", ip(last))), "{} in {text}", ip(last));
        }
        let veiled = Topology::try_from(veiled_spec).unwrap();
        // An observation of a target still belongs to a target after pseudonymization, and its front is still known.
        prop_assert_eq!(plain.targets().len(), veiled.targets().len());
        for (id, placed) in plain.targets() {
            let recorded: Recorded = serde_json::from_value(json!({"vantage": format!("{}.{}/pod", words[0], words[1]),
                "incarnation": words[0], "seq": 1, "t_us": 2, "target": id, "channel": "vip", "result": "ok",
                "entry": words[10], "front": format!("{}:80", ip(3))})).unwrap();
            let seen = pseudonymizer.recorded_observation(&recorded);
            let placed_again = veiled.targets().get(&seen.observation.target);
            prop_assert!(placed_again.is_some(), "{id} became {}", seen.observation.target);
            prop_assert_eq!(placed_again.unwrap().entry.is_some(), placed.entry.is_some(), "{}", id);
            prop_assert_eq!(placed_again.unwrap().origin.is_some(), placed.origin.is_some(), "{}", id);
            prop_assert!(veiled.nodes().contains_key(seen.vantage.node().unwrap()));
            prop_assert!(veiled.fronts().contains_key(&seen.observation.front.unwrap()));
        }
    }

    #[test]
    fn addresses_of_one_subnet_stay_in_one_subnet(a in any::<[u8; 4]>(), b in any::<[u8; 4]>(), same in 0_u32..32) {
        let (a, b) = (u32::from_be_bytes(a), u32::from_be_bytes(b));
        // The same up to a bit, then different.
        let mask = u32::MAX.checked_shl(32 - same).unwrap_or(0);
        let b = (a & mask) | (b & !mask);
        let text = |bits: u32| std::net::Ipv4Addr::from_bits(bits);
        prop_assume!(!text(a).is_loopback() && !text(a).is_unspecified());
        prop_assume!(!text(b).is_loopback() && !text(b).is_unspecified());
        let mut pseudonymizer = pseudonyms::Pseudonymizer::new().unwrap();
        let mut through = |bits: u32| match pseudonymizer.ip(text(bits).into()) {
            std::net::IpAddr::V4(v4) => v4.to_bits(),
            std::net::IpAddr::V6(_) => panic!("another family"),
        };
        let (x, y) = (through(a), through(b));
        prop_assert_eq!((x ^ y).leading_zeros(), (a ^ b).leading_zeros());
    }
}
