//! A connection to a running server.
#![expect(deprecated, reason = "what newer versions of MCP do without is what the servers of today have")]

use std::{sync::Arc, time::Duration};

use everturn_core::{EffectId, Json};
use everturn_tools::{ToolFailure, ToolOutput};
use rmcp::{
    Peer, RoleClient, ServiceExt as _,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientNotification,
        ClientRequest, JsonObject, ListResourcesRequest, ListToolsRequest, LoggingLevel, PaginatedRequestParams,
        PingRequest, ReadResourceRequest, ReadResourceRequestParams, RequestId, RequestMetaObject, ServerResult,
        SetLevelRequest, SetLevelRequestParams,
    },
    service::{ClientInitializeError, PeerRequestOptions, RunningService, ServiceError},
    transport::{DynamicTransportError, Transport},
};
use serde_json::Value;

use crate::{
    calls::OpenCall,
    handler::Handler,
    http::NOT_CONNECTED,
    outcome,
    tap::{Ears, Tap},
    words::one_line,
};

/// How long a message may take to be passed on that nobody waits for.
const ASIDE: Duration = Duration::from_secs(5);
/// How long the SDK may take to let go of a connection.
const CLOSING: Duration = Duration::from_secs(3);
/// Longest text of an error that is told, in bytes.
const ERROR_BYTES: usize = 2000;

/// A server that has answered. Several calls may use it at once.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    pub(crate) ears: Ears,
    /// What it calls itself: a name and a version.
    pub(crate) software: Option<(String, String)>,
    has_tools: bool,
    has_resources: bool,
    running: tokio::sync::Mutex<RunningService<RoleClient, Handler>>,
}

impl Connection {
    /// Introduces us to a server.
    pub(crate) async fn open<T>(transport: T, ears: Ears) -> Result<Arc<Self>, String>
    where
        T: Transport<RoleClient> + 'static,
    {
        let tap = Tap { inner: transport, ears: ears.clone() };
        let running = Handler::new(ears.clone()).serve(tap).await.map_err(|error| words(&error, &ears))?;
        let peer = running.peer().clone();
        let info = peer.peer_info();
        let software = info.as_ref().and_then(|info| info.server_info.as_ref());
        let software = software.map(|software| (one_line(&software.name, 100), one_line(&software.version, 100)));
        let has_tools = info.as_ref().is_some_and(|info| info.capabilities.tools.is_some());
        let has_resources = info.as_ref().is_some_and(|info| info.capabilities.resources.is_some());
        let logs = info.as_ref().is_some_and(|info| info.capabilities.logging.is_some());
        let connection = Arc::new(Self { peer, ears, software, has_tools, has_resources, running: running.into() });
        if logs {
            tokio::spawn(Arc::clone(&connection).ask_for_logs());
        }
        Ok(connection)
    }

    async fn ask_for_logs(self: Arc<Self>) {
        let request = SetLevelRequest::new(SetLevelRequestParams::new(LoggingLevel::Info));
        let _ = tokio::time::timeout(ASIDE, self.peer.send_request(ClientRequest::SetLevelRequest(request))).await;
    }

    /// Ends it.
    pub(crate) async fn close(&self) {
        self.ears.link.cut("it was told to stop");
        let _ = self.running.lock().await.close_with_timeout(CLOSING).await;
    }

    /// Makes a call that was begun. Dropping the future tells the server that nobody waits any more.
    pub(crate) async fn call(
        &self,
        server: &str,
        tool: &str,
        input: &Json,
        effect: EffectId,
        mut open: OpenCall,
    ) -> Result<ToolOutput, ToolFailure> {
        let arguments: JsonObject = serde_json::from_str(input.as_str())
            .map_err(|error| ToolFailure(format!("the input is not a JSON object: {error}")))?;
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let mut request = CallToolRequest::new(params);
        request.extensions.insert(open.key);
        let meta = JsonObject::from_iter([("everturn/effect_id".to_owned(), Value::from(effect.to_string()))]);
        let options = PeerRequestOptions::no_options().with_meta(RequestMetaObject::from(meta));
        let answer = self.request(ClientRequest::CallToolRequest(request), options).await;
        open.answered = matches!(answer, Ok(_) | Err(Unanswered::Refused(_)));
        match answer {
            Ok(result) => outcome::output(result),
            Err(Unanswered::Refused(error)) => Err(ToolFailure(format!("MCP server {server:?}: {error}"))),
            Err(Unanswered::Unsure(error)) => {
                Err(ToolFailure(format!("MCP server {server:?}: {error}; whether the call had an effect is not known")))
            }
            Err(Unanswered::Lost(reason)) => Err(ToolFailure(format!(
                "MCP server {server:?} was lost during the call: {reason}; whether the call had an effect is not known"
            ))),
        }
    }

    /// One page of its tools.
    pub(crate) async fn list_page(&self, cursor: Option<String>) -> Result<Option<ServerResult>, String> {
        if !self.has_tools {
            return Ok(None);
        }
        let request = match cursor {
            Some(cursor) => ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(Some(cursor))),
            None => ListToolsRequest::default(),
        };
        self.plain(ClientRequest::ListToolsRequest(request)).await.map(Some)
    }

    /// The first page of its resources; `None` if it has none at all.
    pub(crate) async fn list_resources(&self) -> Result<Option<ServerResult>, String> {
        if !self.has_resources {
            return Ok(None);
        }
        self.plain(ClientRequest::ListResourcesRequest(ListResourcesRequest::default())).await.map(Some)
    }

    /// The content of a resource.
    pub(crate) async fn read_resource(&self, uri: String) -> Result<ServerResult, String> {
        if !self.has_resources {
            return Err("it has no resources".to_owned());
        }
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
        self.plain(ClientRequest::ReadResourceRequest(request)).await
    }

    /// A request without an effect: why it is not answered makes no difference.
    async fn plain(&self, request: ClientRequest) -> Result<ServerResult, String> {
        match self.request(request, PeerRequestOptions::no_options()).await {
            Ok(result) => Ok(result),
            Err(Unanswered::Refused(reason) | Unanswered::Unsure(reason) | Unanswered::Lost(reason)) => Err(reason),
        }
    }

    async fn request(&self, request: ClientRequest, options: PeerRequestOptions) -> Result<ServerResult, Unanswered> {
        let handle = tokio::select! {
            biased;
            handle = self.peer.send_request_with_option(request, options) => handle.map_err(|error| self.unanswered(error))?,
            () = self.ears.link.broken() => return Err(self.lost()),
        };
        let mut abandoned = Abandoned { connection: self, id: Some(handle.id.clone()) };
        let answer = tokio::select! {
            biased;
            answer = handle.await_response() => answer.map_err(|error| self.unanswered(error)),
            () = self.ears.link.broken() => Err(self.lost()),
        };
        abandoned.id = None;
        answer
    }

    fn lost(&self) -> Unanswered {
        Unanswered::Lost(self.ears.link.reason().unwrap_or_else(|| "it closed the connection".to_owned()))
    }

    fn unanswered(&self, error: ServiceError) -> Unanswered {
        let clean = |text: &str| self.ears.chatter.clean(text, ERROR_BYTES);
        match error {
            ServiceError::McpError(error) => {
                Unanswered::Refused(format!("{} (code {})", clean(&error.message), error.code.0))
            }
            ServiceError::TransportSend(error) => match self.ears.link.reason() {
                Some(reason) => Unanswered::Lost(reason),
                None => match clean(&cause(&error)) {
                    text if text.starts_with(NOT_CONNECTED) => Unanswered::Refused(text),
                    text => Unanswered::Unsure(text),
                },
            },
            ServiceError::TransportClosed => self.lost(),
            other => Unanswered::Refused(clean(&other.to_string())),
        }
    }
}

/// Why there is no answer.
enum Unanswered {
    /// The server, or the way to it, says no.
    Refused(String),
    /// The request may have arrived; no answer to it has.
    Unsure(String),
    /// The connection is gone.
    Lost(String),
}

/// Tells the server when nobody waits for an answer any more.
struct Abandoned<'c> {
    connection: &'c Connection,
    id: Option<RequestId>,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let reason = "nobody waits for the result any more".to_owned();
        let params = CancelledNotificationParam::new(Some(id.clone()), Some(reason));
        let notification = ClientNotification::CancelledNotification(CancelledNotification::new(params));
        let (peer, ears) = (self.connection.peer.clone(), self.connection.ears.clone());
        runtime.spawn(async move {
            let told = tokio::time::timeout(ASIDE, peer.send_notification(notification)).await;
            if !matches!(told, Ok(Ok(()))) || !ears.one_channel {
                return;
            }
            // Whatever it asks after it has answered this, it asks knowing that the call is over.
            let ping = peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
            if let Ok(Ok(_)) = tokio::time::timeout(ASIDE, ping).await {
                ears.calls.acknowledged(&id);
            }
        });
    }
}

/// What a transport of ours says, without the SDK's words around it.
fn cause(error: &DynamicTransportError) -> String {
    let text = error.error.to_string();
    text.strip_prefix("Client error: ").map_or_else(|| text.clone(), str::to_owned)
}

/// Why a server did not let itself be introduced to.
fn words(error: &ClientInitializeError, ears: &Ears) -> String {
    if let Some(reason) = ears.link.reason() {
        return reason;
    }
    let text = match error {
        ClientInitializeError::ConnectionClosed(_) => "it ended before it answered".to_owned(),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused to begin: {} (code {})", error.message, error.code.0)
        }
        ClientInitializeError::TransportError { error, .. } => cause(error),
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            "its first answer is not one of MCP".to_owned()
        }
        other => other.to_string(),
    };
    ears.chatter.clean(&text, ERROR_BYTES)
}
