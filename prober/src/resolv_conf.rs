//! Parses `/etc/resolv.conf` (`resolv.conf(5)`).

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use parallax_model::SearchManner;

const MAX_SERVERS: usize = 3;
const MAX_SEARCH: usize = 32;

/// The contents of resolv.conf, within the bounds that glibc sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvConf {
    /// The servers in order; at most three.
    pub(crate) servers: Vec<SocketAddr>,
    /// The search domains in order, without leading or trailing dots.
    pub(crate) search: Vec<String>,
    /// A name with at least this many dots is first tried without a search domain; at most 15.
    pub(crate) ndots: usize,
    /// Timeout of one query; 1 to 30 s.
    pub(crate) timeout: Duration,
    /// Number of passes over the servers; 1 to 5.
    pub(crate) attempts: usize,
}

impl Default for ResolvConf {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        }
    }
}

impl ResolvConf {
    /// Parses the text of the file. Unknown lines and options are ignored, as C libraries do. The last `search` or
    /// `domain` line wins.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Self {
        let mut conf = Self::default();
        for line in text.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => conf.add_server(words.next()),
                Some("search") => conf.set_search(words),
                Some("domain") => conf.set_search(words.take(1)),
                Some("options") => words.for_each(|word| conf.set_option(word)),
                _ => {}
            }
        }
        conf
    }

    /// Returns a configuration with these servers and without a search list.
    pub(crate) fn from_servers(servers: Vec<SocketAddr>) -> Self {
        Self {
            servers,
            ..Self::default()
        }
    }

    fn add_server(&mut self, word: Option<&str>) {
        let server = word.and_then(parse_server);
        self.servers
            .extend(server.filter(|_| self.servers.len() < MAX_SERVERS));
    }

    fn set_search<'a>(&mut self, domains: impl Iterator<Item = &'a str>) {
        self.search = domains
            .map(|domain| domain.trim_matches('.'))
            .filter(|domain| !domain.is_empty())
            .take(MAX_SEARCH)
            .map(str::to_owned)
            .collect();
    }

    fn set_option(&mut self, word: &str) {
        let Some((name, value)) = word.split_once(':') else {
            return;
        };
        let Ok(value) = value.parse::<u32>() else {
            return;
        };
        match name {
            "ndots" => self.ndots = value.min(15) as usize,
            "timeout" => self.timeout = Duration::from_secs(value.clamp(1, 30).into()),
            "attempts" => self.attempts = value.clamp(1, 5) as usize,
            _ => {}
        }
    }

    /// The names to query, in order, for a C library. musl does not use the search list for a name with enough dots.
    #[must_use]
    pub(crate) fn candidates_for(&self, name: &str, manner: SearchManner) -> Vec<String> {
        let enough = name.matches('.').count() >= self.ndots;
        if manner == SearchManner::Musl && enough {
            return vec![name.trim_end_matches('.').to_owned()];
        }
        self.candidates(name)
    }

    /// The names to query in the order of glibc's `res_search`: the name itself first if it has enough dots, then with
    /// each search domain, then the name itself if it was not tried. A trailing dot disables the search.
    #[must_use]
    pub(crate) fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(absolute) = name.strip_suffix('.') {
            return vec![absolute.to_owned()];
        }
        let searched = self.search.iter().map(|domain| format!("{name}.{domain}"));
        let mut names: Vec<String> = searched.collect();
        let dots = name.matches('.').count();
        let place = if dots >= self.ndots { 0 } else { names.len() };
        names.insert(place, name.to_owned());
        names
    }
}

/// Parses an address, or `[ADDRESS]:PORT` as in OpenBSD's resolv.conf(5), for resolvers that cannot bind port 53.
fn parse_server(word: &str) -> Option<SocketAddr> {
    let (address, port) = match word.strip_prefix('[') {
        None => (word, 53),
        Some(bracketed) => {
            let (address, port) = bracketed.split_once("]:")?;
            (address, port.parse().ok()?)
        }
    };
    Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POD: &str = "\
search shop.svc.cluster.local svc.cluster.local cluster.local
nameserver 10.96.0.10
options ndots:5 timeout:2 attempts:3 edns0
";

    #[test]
    fn the_file_of_a_pod_reads_as_kubelet_wrote_it() {
        let conf = ResolvConf::parse(POD);
        assert_eq!(conf.servers, ["10.96.0.10:53".parse().unwrap()]);
        assert_eq!(conf.ndots, 5);
        assert_eq!(conf.timeout, Duration::from_secs(2));
        assert_eq!(conf.attempts, 3);
        assert_eq!(conf.search[0], "shop.svc.cluster.local");
    }

    #[test]
    fn unknown_lines_comments_and_wrong_addresses_are_ignored() {
        let conf = ResolvConf::parse(
            "sortlist 1.2.3.4\n# nameserver 1.1.1.1\n; x\nnameserver not-an-address\noptions ndots:x rotate\n",
        );
        assert_eq!(conf, ResolvConf::default());
    }

    #[test]
    fn a_nameserver_may_have_a_port_behind_brackets() {
        let conf = ResolvConf::parse("nameserver [127.0.0.1]:5353\nnameserver ::1\nnameserver [::1]\n");
        assert_eq!(
            conf.servers,
            ["127.0.0.1:5353".parse().unwrap(), "[::1]:53".parse().unwrap()]
        );
    }

    #[test]
    fn the_last_of_search_and_domain_holds() {
        let conf = ResolvConf::parse("search a.test b.test\ndomain c.test\n");
        assert_eq!(conf.search, ["c.test"]);
    }

    #[test]
    fn a_name_with_fewer_dots_than_ndots_is_tried_as_it_is_last() {
        let conf = ResolvConf::parse(POD);
        assert_eq!(
            conf.candidates("cart.shop"),
            [
                "cart.shop.shop.svc.cluster.local",
                "cart.shop.svc.cluster.local",
                "cart.shop.cluster.local",
                "cart.shop",
            ]
        );
        let plain = ResolvConf::parse("search example.test");
        assert_eq!(
            plain.candidates("www.shop"),
            ["www.shop", "www.shop.example.test"]
        );
    }

    #[test]
    fn musl_searches_a_name_with_enough_dots_nowhere() {
        let conf = ResolvConf::parse("search example.test");
        assert_eq!(conf.candidates_for("www.shop", SearchManner::Musl), ["www.shop"]);
        assert_eq!(
            conf.candidates_for("cart", SearchManner::Musl),
            ["cart.example.test", "cart"]
        );
    }

    #[test]
    fn a_trailing_dot_forbids_the_search() {
        assert_eq!(
            ResolvConf::parse(POD).candidates("www.example.test."),
            ["www.example.test"]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic_and_within_the_bounds(text in "(?s).{0,400}") {
            let conf = ResolvConf::parse(&text);
            prop_assert!(conf.servers.len() <= MAX_SERVERS && conf.search.len() <= MAX_SEARCH);
            prop_assert!(conf.ndots <= 15 && (1..=5).contains(&conf.attempts));
        }

        #[test]
        fn lines_made_of_the_files_own_words_are_read_without_panic(
            words in proptest::collection::vec("(nameserver|search|domain|options|ndots:|timeout:99|\\.|::1|\n|a\\.b)", 0..40)
        ) {
            let conf = ResolvConf::parse(&words.join(" "));
            prop_assert!(conf.timeout <= Duration::from_secs(30));
        }
    }
}
