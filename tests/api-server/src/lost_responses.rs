//! Lost responses: from a certain request on, clients get none, so that a test can kill a client at that request.

use axum::response::Response;

use crate::{ApiServer, responses::failure, store::Shared};

impl ApiServer {
    /// Returns the number of requests other than watches.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.store().request_count.started
    }

    /// Answers this many more requests. The next one takes effect, but its response is lost. The later ones have no
    /// effect and get no response before [`Self::restore_responses`]. Watches continue.
    pub fn lose_responses_after(&self, more: usize) {
        let count = &mut self.store().request_count;
        count.answered = Some(count.started + more);
        count.lost = false;
    }

    /// Reports whether a request has taken effect and its response was lost since [`Self::lose_responses_after`].
    #[must_use]
    pub fn response_lost(&self) -> bool {
        self.store().request_count.lost
    }

    /// Answers every request from now on. Clients that still wait for a lost response get a failure.
    pub fn restore_responses(&self) {
        self.store().request_count.answered = None;
        self.shared.changed.send_replace(());
    }
}

impl Shared {
    /// Counts a request, and performs and answers it as far as the test allows.
    pub(crate) async fn counted(&self, response: impl Future<Output = Response>) -> Response {
        let number = {
            let count = &mut self.store().request_count;
            count.started += 1;
            count.started
        };
        let unanswered = |effects: usize| {
            let answered = self.store().request_count.answered;
            answered.is_some_and(|answered| number > answered + effects)
        };
        if unanswered(1) {
            return self.lost_response().await;
        }
        let response = response.await;
        if !unanswered(0) {
            return response;
        }
        self.store().request_count.lost = true;
        self.changed.send_replace(());
        self.lost_response().await
    }

    async fn lost_response(&self) -> Response {
        self.until(|| self.store().request_count.answered.is_none()).await;
        failure(503, "ServiceUnavailable", "the response was lost")
    }
}
