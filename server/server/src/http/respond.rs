//! Finds the response to a request, by its path and method, and sets the headers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use crate::http::api::{self, ApiError, Query};
use crate::http::exposition::Format;
use crate::http::gate::{Brake, Refusal, Visitor};
use crate::http::link::{LinkError, Links};
use crate::http::metrics::Metrics;
use crate::node::Shared;

const PAGE: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Maximum size of the body of a request in bytes.
const BODY_MAX: usize = 64 << 10;
/// Maximum wait for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Policy of the page: it may load its own style and script and images in `data:` URLs, and send
/// requests to its own server. It may load nothing else, and no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// State of the HTTP port, which all connections share.
pub(super) struct Site {
    pub(super) shared: Arc<Shared>,
    links: Links,
    metrics: Metrics,
    brake: Brake,
}

type FullResponse = Response<Full<Bytes>>;

impl Site {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            links: Links::new(Arc::clone(&shared)),
            shared,
            metrics: Metrics::default(),
            brake: Brake::default(),
        }
    }

    /// Returns the response to a request of `peer`.
    pub(super) async fn respond(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> FullResponse {
        let path = request.uri().path().to_owned();
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let mut response = match (&*path, reads) {
            ("/", true) => text(StatusCode::OK, "text/html; charset=utf-8", PAGE),
            ("/page.css", true) => text(StatusCode::OK, "text/css; charset=utf-8", STYLE),
            ("/page.js", true) => text(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT),
            ("/metrics", true) => self.metrics(peer, &request).await,
            ("/api/state" | "/api/future" | "/api/timers" | "/api/queues", true) => {
                self.look(peer, &path, &request).await
            }
            ("/api/command", _) if request.method() == Method::POST => {
                self.act(peer, request).await
            }
            ("/api/command", _) => not_allowed("POST"),
            (
                "/" | "/page.css" | "/page.js" | "/metrics" | "/api/state" | "/api/future"
                | "/api/timers" | "/api/queues",
                false,
            ) => not_allowed("GET, HEAD"),
            _ => problem(StatusCode::NOT_FOUND, "There is nothing here."),
        };
        let headers = response.headers_mut();
        let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
        set(CACHE_CONTROL, "no-store");
        set(CONTENT_SECURITY_POLICY, POLICY);
        set(X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(X_FRAME_OPTIONS, "DENY");
        set(REFERRER_POLICY, "no-referrer");
        for name in ["cross-origin-resource-policy", "cross-origin-opener-policy"] {
            set(HeaderName::from_static(name), "same-origin");
        }
        response
    }

    fn visitor(&self, peer: SocketAddr, request: &Request<Incoming>) -> Visitor {
        Visitor::of(request.headers(), peer, &self.shared.settings())
    }

    async fn metrics(&self, peer: SocketAddr, request: &Request<Incoming>) -> FullResponse {
        if let Err(refusal) = self.visitor(peer, request).may_scrape() {
            return self.refuse(refusal).await;
        }
        let accept = request.headers().get(ACCEPT);
        let accept = accept.and_then(|value| value.to_str().ok());
        let format = Format::accepted(accept.unwrap_or_default());
        let body = self.metrics.scrape(&self.shared, &self.links, format);
        text(StatusCode::OK, format.content_type(), body.await)
    }

    /// Returns the data that the page shows.
    async fn look(
        &self,
        peer: SocketAddr,
        path: &str,
        request: &Request<Incoming>,
    ) -> FullResponse {
        let visitor = self.visitor(peer, request);
        if let Err(refusal) = visitor.may_look(&self.shared) {
            return self.refuse(refusal).await;
        }
        let query = Query(request.uri().query().unwrap_or_default());
        let (shared, links) = (&*self.shared, &self.links);
        let answer = match path {
            "/api/future" => api::future(shared, links, query).await,
            "/api/timers" => api::timers(links, query).await,
            "/api/queues" => api::queues(links, query).await,
            _ => api::state(shared, links, visitor.may_act(shared).is_ok()).await,
        };
        answered(answer)
    }

    /// Runs a command of the page.
    async fn act(&self, peer: SocketAddr, request: Request<Incoming>) -> FullResponse {
        if let Err(refusal) = self.visitor(peer, &request).may_act(&self.shared) {
            return self.refuse(refusal).await;
        }
        let kind = request.headers().get(CONTENT_TYPE);
        if kind.is_none_or(|kind| kind != "application/json") {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return problem(status, "The body must be application/json.");
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let body = Limited::new(request.into_body(), BODY_MAX).collect();
        match timeout(BODY_TIMEOUT, body).await {
            Ok(Ok(body)) => {
                let body = body.to_bytes();
                answered(api::command(&self.links, Query(&query), &body).await)
            }
            Ok(Err(_)) => problem(StatusCode::PAYLOAD_TOO_LARGE, "The body is too large."),
            Err(_) => problem(
                StatusCode::REQUEST_TIMEOUT,
                "The body did not arrive in time.",
            ),
        }
    }

    async fn refuse(&self, refusal: Refusal) -> FullResponse {
        let status = match refusal {
            Refusal::Host => StatusCode::MISDIRECTED_REQUEST,
            Refusal::WrongPassword | Refusal::NoPassword => StatusCode::UNAUTHORIZED,
            Refusal::ReadOnly | Refusal::Closed | Refusal::Remote | Refusal::Origin => {
                StatusCode::FORBIDDEN
            }
        };
        if refusal == Refusal::WrongPassword {
            self.brake.wait().await;
        }
        let mut response = problem(status, &refusal.to_string());
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> FullResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn json(status: StatusCode, body: &Json) -> FullResponse {
    text(status, "application/json", body.to_string())
}

fn problem(status: StatusCode, error: &str) -> FullResponse {
    json(status, &json!({ "error": error }))
}

fn not_allowed(methods: &'static str) -> FullResponse {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let mut response = problem(status, "This path does not have this method.");
    let methods = HeaderValue::from_static(methods);
    response.headers_mut().insert(ALLOW, methods);
    response
}

fn answered(answer: Result<Json, ApiError>) -> FullResponse {
    match answer {
        Ok(body) => json(StatusCode::OK, &body),
        Err(error) => {
            let status = match &error {
                ApiError::Request(_) => StatusCode::BAD_REQUEST,
                ApiError::Reply(_) | ApiError::Link(LinkError::Refused(_)) => StatusCode::CONFLICT,
                ApiError::Link(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            problem(status, &error.to_string())
        }
    }
}
