//! An HTTP probe with its redirects. Each hop opens a new connection, whose phase times are added.

use ::http::StatusCode;
use parallax_model::{AnswerPrint, Channel, DialAddress, HttpProbe, HttpVersion, Method, Phase, Scheme};
use tokio_util::either::Either;

use super::{
    EndedProbe, Probe,
    access::HttpAccess,
    connection::ConnectionOpening,
    expectations, extra_roots,
    proxy::{self, ProxyUse, TunnelRequest},
};
use crate::{
    http::{self, Exchange, ExchangeOptions, ProxyForm, RequestContent},
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
        let access = self.http_access(spec)?;
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
            let exchange = self.request(to, &at, method, spec, &access).await?;
            own_front = own_front.or(self.result.front);
            let head = self.record_response(&exchange)?;
            let status = head.status.as_u16();
            let with_status = |stop| EndedProbe {
                failure: stop,
                status: Some(status),
            };
            // Through a tunnel, the status is the target's own.
            let forwarded = spec.proxy.is_some() && at.scheme == Scheme::Http;
            if forwarded && head.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
                return Err(proxy::authentication_required(Phase::Check).into());
            }
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
            // A proxy is the same for every request.
            if spec.proxy.is_none() {
                to = self.dial_for_redirect(dial, &at, &next);
            }
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
        access: &HttpAccess,
    ) -> Result<Exchange, EndedProbe> {
        let authority = at.authority();
        let (url, other_end) = (at.url(), at.host_and_port());
        let tls = at.scheme == Scheme::Https;
        let body = spec.body.as_deref().map(|body| {
            let kind = spec.content_type.as_deref();
            (kind.unwrap_or("application/octet-stream"), body)
        });
        let asking = RequestContent {
            method,
            body: body.filter(|_| method == Method::Post),
            close: !spec.keep_alive,
            headers: access.headers(at),
            proxy: (spec.proxy.is_some() && !tls).then_some(ProxyForm {
                url: &url,
                authorization: access.proxy.as_ref(),
            }),
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
        let address = match &spec.proxy {
            Some(proxy) => self
                .choose_address(dial, proxy.url.host.as_str(), proxy.url.port)
                .await
                .map_err(|stop| proxy::unresolved(stop, &proxy.url))?,
            None => self.choose_address(dial, &at.host, at.port).await?,
        };
        let http2 = spec.version == HttpVersion::Http2 && tls;
        let opening = ConnectionOpening {
            proxy_header: self.proxy_header(spec.proxy_header),
            tls: tls.then_some(HandshakeOptions {
                host: &at.host,
                alpn: if http2 { H2 } else { &[] },
                verify: !spec.accept_invalid_certificate,
                extra_roots: extra_roots(spec.extra_roots.as_ref()),
                client_certificate: access.certificate(at),
            }),
            expect_tls: spec.expect_tls.as_ref(),
            proxy: spec.proxy.as_ref().map(|_| {
                if tls {
                    ProxyUse::Tunnel(TunnelRequest {
                        authority: &other_end,
                        authorization: access.proxy.as_ref(),
                    })
                } else {
                    ProxyUse::Forward
                }
            }),
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
