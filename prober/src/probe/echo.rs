//! A probe of another prober's echo. The response must name the Pod and the node that the assignment names.

use parallax_model::{
    Assignment, DialAddress, ECHO_NONCE_HEADER, ECHO_PATH, EchoIdentity, FailureKind, OwnFault, Phase,
    TargetId,
};
use url::Url;

use super::{EndedProbe, Probe, connection::ConnectionOpening};
use crate::{
    failure::EarlyEnd,
    http::{self, Exchange, ExchangeOptions, RequestContent},
    redirect::host_and_port,
};

impl Probe<'_> {
    pub(super) async fn echo(
        &mut self,
        assignment: &Assignment,
        nonce: &str,
        size: Option<u32>,
    ) -> Result<Option<u16>, EndedProbe> {
        let (host, port) = match assignment.dial {
            DialAddress::Address(address) => (address.ip().to_string(), address.port()),
            DialAddress::Resolve => target_host(&assignment.target)?,
        };
        let path = match size {
            Some(size) => format!("{ECHO_PATH}?size={size}"),
            None => ECHO_PATH.to_owned(),
        };
        let mut request = RequestContent::get(&host_and_port(&host, Some(port)), &path).request()?;
        let nonce = nonce.parse().map_err(|_| {
            EarlyEnd::new(Phase::Request, OwnFault::InvalidAssignment)
                .with_detail("the nonce is not a valid header value")
        })?;
        request.headers_mut().insert(ECHO_NONCE_HEADER, nonce);
        let address = self.choose_address(assignment.dial, &host, port).await?;
        let stream = self.open(address, ConnectionOpening::default()).await?;
        let exchange = http::exchange(
            stream,
            request,
            ExchangeOptions::default(),
            self.deadline,
            &mut self.timer,
        )
        .await;
        let status = self.record_response(&exchange)?.status.as_u16();
        let wrong = |kind| EndedProbe {
            failure: EarlyEnd::new(Phase::Check, kind),
            status: Some(status),
        };
        if status != 200 {
            return Err(wrong(FailureKind::Status));
        }
        if size.is_some_and(|size| exchange.bytes_read != u64::from(size)) {
            return Err(wrong(FailureKind::WrongBody));
        }
        self.check_identity(assignment, &exchange, size).map_err(wrong)?;
        Ok(Some(status))
    }

    fn check_identity(
        &mut self,
        assignment: &Assignment,
        exchange: &Exchange,
        size: Option<u32>,
    ) -> Result<(), FailureKind> {
        let text = exchange.kept.trim_ascii();
        if text.is_empty() && size.is_some() {
            // The requested size is too small for the identity.
            return Ok(());
        }
        let echo: EchoIdentity = serde_json::from_slice(text).map_err(|_| FailureKind::WrongBody)?;
        let other_pod = assignment.entry.as_ref().is_some_and(|e| e.pod != echo.pod);
        let other_node = assignment.peer.as_ref().is_some_and(|node| *node != echo.node);
        // A wrong responder is recorded too: it is the finding.
        self.result.entry = Some(echo.pod.clone());
        self.result.dst_node = Some(echo.node.clone());
        self.result.echo = Some(echo);
        if other_pod || other_node {
            Err(FailureKind::WrongBody)
        } else {
            Ok(())
        }
    }
}

/// Returns host and port of an echo that is probed by name, from its target.
fn target_host(target: &TargetId) -> Result<(String, u16), EarlyEnd> {
    Url::parse(target.as_str())
        .ok()
        .and_then(|url| {
            let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
            Some((host, url.port_or_known_default()?))
        })
        .ok_or_else(|| {
            EarlyEnd::new(Phase::Resolve, OwnFault::InvalidAssignment)
                .with_detail("an echo probe without an address needs a target like http://HOST:PORT/")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_approached_by_name_takes_host_and_port_from_its_target() {
        let (host, port) = target_host(&"http://echo.parallax.svc:8080/".parse().unwrap()).unwrap();
        assert_eq!((host.as_str(), port), ("echo.parallax.svc", 8080));
        assert!(target_host(&"dns://echo".parse().unwrap()).is_err());
    }
}
