//! An HTTP probe with its redirects. Each hop opens a new connection, whose phase times are added.

use parallax_model::{AnswerPrint, Channel, DialAddress, HttpProbe, HttpVersion, Method, Phase, Scheme};
use tokio_util::either::Either;

use super::{EndedProbe, Probe, connection::ConnectionOpening, expectations, extra_roots};
use crate::{
    http::{self, Exchange, ExchangeOptions, RequestContent},
    redirect::{FollowRules, RedirectTrail, RequestDestination, keeps_method},
    result::RedirectHop,
    tls::{HandshakeOptions, digest},
};

const H2: &[&[u8]] = &[b"h2", b"http/1.1"];

impl Probe<'_> {
    pub(super) async fn http(
        &mut self,
        dial: DialAddress,
        spec: &HttpProbe,
    ) -> Result<Option<u16>, EndedProbe> {
        let ended = self.follow(dial, spec).await;
        expectations::invert_outcome(spec.must_not_answer.as_ref(), ended)
    }

    /// Sends the request and follows its redirects. The last response is the one that is checked.
    async fn follow(&mut self, dial: DialAddress, spec: &HttpProbe) -> Result<Option<u16>, EndedProbe> {
        let mut at = RequestDestination::from_probe(spec);
        let mut method = spec.method;
        let mut trail = RedirectTrail::new(&at);
        let rules = spec
            .redirects
            .as_ref()
            .map(|policy| FollowRules::from_policy(policy, &at));
        let mut to = dial;
        let mut own_front = None;
        loop {
            let exchange = self.request(to, &at, method, spec).await?;
            own_front = own_front.or(self.result.front);
            let head = self.record_response(&exchange)?;
            let status = head.status.as_u16();
            let with_status = |stop| EndedProbe {
                failure: stop,
                status: Some(status),
            };
            let next = match &rules {
                Some(rules) => trail
                    .next(&at, head, rules)
                    .map_err(|refused| with_status(refused.into()))?,
                None => None,
            };
            let Some(next) = next else {
                if spec.report_fingerprint {
                    self.result.fingerprint = Some(AnswerPrint {
                        certificate: self.result.tls.as_ref().and_then(|facts| facts.leaf_digest),
                        body: (!exchange.kept.is_empty()).then(|| digest(&exchange.kept)),
                        status: Some(status),
                    });
                }
                // A success is reported for the target's own front, a failure for the front that failed.
                self.result.front = own_front;
                expectations::check_response(spec, head, &exchange).map_err(with_status)?;
                return Ok(Some(status));
            };
            self.result.hops.push(RedirectHop {
                url: at.url(),
                status,
                front: self.result.front,
            });
            if !keeps_method(head.status) && method == Method::Post {
                method = Method::Get;
            }
            self.timer.record(Phase::Check);
            to = self.dial_for_redirect(dial, &at, &next);
            at = next;
        }
    }

    /// Returns how to connect for a redirect. A forced address stays forced for the same host, as for a user who
    /// reaches the host at that address. On the channel `direct`, another port is not the endpoint's, so the name is
    /// resolved.
    fn dial_for_redirect(
        &self,
        dial: DialAddress,
        from: &RequestDestination,
        to: &RequestDestination,
    ) -> DialAddress {
        match dial {
            DialAddress::Address(mut address) if from.host.eq_ignore_ascii_case(&to.host) => {
                if from.port != to.port {
                    if self.channel == Channel::Direct {
                        return DialAddress::Resolve;
                    }
                    address.set_port(to.port);
                }
                DialAddress::Address(address)
            }
            _ => DialAddress::Resolve,
        }
    }

    async fn request(
        &mut self,
        dial: DialAddress,
        at: &RequestDestination,
        method: Method,
        spec: &HttpProbe,
    ) -> Result<Exchange, EndedProbe> {
        let authority = at.authority();
        let body = spec.body.as_deref().map(|body| {
            let kind = spec.content_type.as_deref();
            (kind.unwrap_or("application/octet-stream"), body)
        });
        let asking = RequestContent {
            method,
            body: body.filter(|_| method == Method::Post),
            close: !spec.keep_alive,
            ..RequestContent::get(&authority, &at.path)
        };
        let request = asking.request()?;
        let again = spec
            .keep_alive
            .then(|| {
                RequestContent {
                    close: true,
                    ..asking
                }
                .request()
            })
            .transpose()?;
        let address = self.choose_address(dial, &at.host, at.port).await?;
        let http2 = spec.version == HttpVersion::Http2 && at.scheme == Scheme::Https;
        let opening = ConnectionOpening {
            proxy_header: self.proxy_header(spec.proxy_header),
            tls: (at.scheme == Scheme::Https).then_some(HandshakeOptions {
                host: &at.host,
                alpn: if http2 { H2 } else { &[] },
                verify: !spec.accept_invalid_certificate,
                extra_roots: extra_roots(spec.extra_roots.as_ref()),
            }),
            expect_tls: spec.expect_tls.as_ref(),
        };
        let stream = self.open(address, opening).await?;
        let manner = ExchangeOptions {
            max_body: spec.max_body,
            repeat: again,
            reading: None,
        };
        Ok(match stream {
            Either::Right(tls) if http2 => {
                Box::pin(http::exchange_h2(
                    tls,
                    request,
                    manner.max_body,
                    self.deadline,
                    &mut self.timer,
                ))
                .await
            }
            stream => http::exchange(stream, request, manner, self.deadline, &mut self.timer).await,
        })
    }
}
