//! `/etc/resolv.conf`. The prober's parser is private and has no other dependencies, so its file is included here.

use std::time::Duration;

use parallax_model::SearchManner;

#[path = "../../prober/src/resolv_conf.rs"]
mod reader;

use reader::ResolvConf;

/// The bytes are the file and, after the last line feed, a name to look up.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let conf = ResolvConf::parse(&text);
    assert!(conf.servers.len() <= 3 && conf.search.len() <= 32);
    assert!(conf.ndots <= 15 && (1..=5).contains(&conf.attempts));
    assert!((Duration::from_secs(1)..=Duration::from_secs(30)).contains(&conf.timeout));
    let name = text.rsplit('\n').next().unwrap_or_default();
    let bare = ResolvConf::from_servers(conf.servers.clone());
    assert_eq!(bare.candidates(name).len(), 1, "nothing to search");
    for manner in [SearchManner::Glibc, SearchManner::Musl] {
        let candidates = conf.candidates_for(name, manner);
        assert!(
            (1..=conf.search.len() + 1).contains(&candidates.len()),
            "{candidates:?}"
        );
    }
    let candidates = conf.candidates(name);
    assert!(
        candidates
            .iter()
            .any(|c| c == name.strip_suffix('.').unwrap_or(name)),
        "{candidates:?}"
    );
}
