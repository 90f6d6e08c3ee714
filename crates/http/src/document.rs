//! What the parts of the API document are made with. Each dialect describes its own doors beside their code.

use std::{collections::BTreeMap, marker::PhantomData};

use axum::Router;
use serde_json::{Map, Value, json};
use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{
        Content, Header, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder, Schema, SecurityRequirement,
        example::ExampleBuilder,
        extensions::Extensions,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn},
        schema::{ObjectBuilder, SchemaType, Type},
    },
};
use utoipa_axum::router::OpenApiRouter;

/// Names the key in `Authorization: Bearer …`.
pub const BEARER_KEY: &str = "key";
/// Names the key in `X-Secret-Key`.
pub const SECRET_KEY: &str = "secret_key";
/// Names the token in `?token=`.
pub const STREAM_TOKEN: &str = "stream_token";

/// Answers by status, as `IntoResponses` wants them.
pub type Answers = BTreeMap<String, RefOr<Response>>;
/// A schema, as `schema_with` and `PartialSchema` want it.
pub type AnySchema = RefOr<Schema>;

/// A pattern for texts that say something: they have a character that is not white space, as Rust has it.
pub const NOT_BLANK: &str = r"[^\u0009-\u000d\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";

/// Gives routes what the document knows nothing of: fallbacks, layers, state.
pub fn behind<S, T>(routes: OpenApiRouter<S>, change: impl FnOnce(Router<S>) -> Router<T>) -> OpenApiRouter<T>
where
    S: Clone + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    let (router, document) = routes.split_for_parts();
    let mut routes = OpenApiRouter::from(change(router));
    *routes.get_openapi_mut() = document;
    routes
}

/// Adds a schema that no operation names by itself, such as that of all errors.
pub fn with_schema<T, S>(mut routes: OpenApiRouter<S>) -> OpenApiRouter<S>
where
    T: ToSchema,
    S: Clone + Send + Sync + 'static,
{
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    routes.get_openapi_mut().components.get_or_insert_default().schemas.extend(schemas);
    routes
}

/// Puts routes under a tag, and behind keys: any of these lets a caller in. An operation that says otherwise by itself,
/// with `security(…)`, keeps that.
pub fn tagged<S>(mut routes: OpenApiRouter<S>, tag: &str, keys: &[&str]) -> OpenApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    for operation in operations(routes.get_openapi_mut()) {
        operation.tags = Some(vec![tag.to_owned()]);
        let any = || keys.iter().map(|key| SecurityRequirement::new(*key, [] as [&str; 0])).collect();
        operation.security.get_or_insert_with(any);
    }
    routes
}

/// Gives operations other ids, for routes that are mounted twice.
pub fn renamed<S>(mut routes: OpenApiRouter<S>, name: impl Fn(&str) -> String) -> OpenApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    for operation in operations(routes.get_openapi_mut()) {
        operation.operation_id = operation.operation_id.as_deref().map(&name);
    }
    routes
}

/// Says of these operations that their body can be left out.
pub fn optional_body<S>(mut routes: OpenApiRouter<S>, ids: &[&str]) -> OpenApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    for operation in operations(routes.get_openapi_mut()) {
        let named = operation.operation_id.as_deref().is_some_and(|id| ids.contains(&id));
        if let Some(RefOr::T(body)) = operation.request_body.as_mut().filter(|_| named) {
            body.required = Some(Required::False);
        }
    }
    routes
}

/// All operations of a document.
pub fn operations(document: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    let items = document.paths.paths.values_mut();
    let methods = items.flat_map(|item| {
        [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch, &mut item.head]
    });
    methods.flatten()
}

/// A schema by its keywords, for what no derived one can say. For `#[schema(schema_with = …)]` and for `PartialSchema`.
pub fn schema(keywords: Value) -> RefOr<Schema> {
    let keywords = match keywords {
        Value::Object(keywords) => keywords,
        // `true` and `false` are schemas too; nobody writes those here.
        _ => Map::new(),
    };
    let keywords = Extensions::from_iter(keywords);
    let object = ObjectBuilder::new().schema_type(SchemaType::AnyValue).extensions(Some(keywords));
    RefOr::T(object.into())
}

/// Any JSON.
pub fn any_json() -> RefOr<Schema> {
    schema(json!({}))
}

/// Answers that say no: the status, when it comes, and an example, all in a dialect's one shape. A status may be there
/// more than once, with another reason each time. Those with the status 401, 429 and 503 have the headers that belong to
/// them. For `IntoResponses`.
pub fn errors<T: ToSchema>(answers: impl IntoIterator<Item = (u16, &'static str, Value)>) -> Answers {
    let mut by_status: BTreeMap<u16, Vec<(&str, Value)>> = BTreeMap::new();
    for (status, when, example) in answers {
        by_status.entry(status).or_default().push((when, example));
    }
    let answer = |(status, reasons): (u16, Vec<(&str, Value)>)| {
        let description = reasons.iter().map(|(when, _)| *when).collect::<Vec<_>>().join("; or: ");
        let content = Content::builder().schema(Some(Ref::from_schema_name(T::name())));
        let content = match &*reasons {
            [(_, example)] => content.example(Some(example.clone())),
            _ => content.examples_from_iter(
                reasons
                    .into_iter()
                    .map(|(when, example)| (when, ExampleBuilder::new().summary(when).value(Some(example)).build())),
            ),
        };
        let response = ResponseBuilder::new().description(description).content("application/json", content.build());
        let response = match status {
            401 => response.header("WWW-Authenticate", header(json!({ "type": "string" }), "How to send a key")),
            429 | 503 => {
                let seconds = json!({ "type": "integer", "minimum": 1 });
                response.header("Retry-After", header(seconds, "How many seconds to wait before trying again"))
            }
            _ => response,
        };
        // A server that stops leaves turns that it has begun to the next start, and says which.
        let response = match status {
            503 => response
                .header("X-Session-Id", header(json!({ "type": "string" }), "The session, if a turn has begun in it"))
                .header("X-Message-Id", header(json!({ "type": "string" }), "The turn, if it has begun and goes on")),
            _ => response,
        };
        (status.to_string(), response.build().into())
    };
    by_status.into_iter().map(answer).collect()
}

/// A header of an answer.
pub fn header(keywords: Value, description: &str) -> Header {
    let mut header = Header::new(schema(keywords));
    header.description = Some(description.to_owned());
    header
}

/// An answer of server-sent events whose data is each a JSON of type `T`. Give it a name with a type alias, and use that
/// with `body = inline(…), content_type = "text/event-stream"`.
#[derive(Debug)]
pub struct Events<T>(PhantomData<T>);

impl<T: ToSchema> PartialSchema for Events<T> {
    fn schema() -> RefOr<Schema> {
        let mut text = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("Server-sent events; the `data` of each is JSON of this schema"))
            .content_media_type("text/event-stream")
            .build();
        text.content_schema = Some(Box::new(Ref::from_schema_name(T::name()).into()));
        text.into()
    }
}

impl<T: ToSchema> ToSchema for Events<T> {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

/// The header `Idempotency-Key`, for `params(…)`.
#[derive(Debug)]
pub struct IdempotencyKey;

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let described = "Names the request: it can be sent again under the same name without a second effect";
        let keywords = json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" });
        let parameter = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(described))
            .schema(Some(schema(keywords)))
            .example(Some(json!("9b2f6c1e-order-17")));
        vec![parameter.build()]
    }
}
