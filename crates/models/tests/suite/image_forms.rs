//! Images in formats and sizes that a provider does not take: they are converted before they are left out.

use std::{io::Cursor, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use everturn_core::{Block, Content, DocumentId, Message};
use everturn_models::{DocumentContent, Model, ModelRequest, OpenAiWire, Provider, ProviderConfig, ProviderKind};
use image::{DynamicImage, ImageFormat, Rgba, RgbaImage};
use serde_json::json;

use super::{
    scripted::{Scripted, Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const OK: &str = "text: ok\nfinished: Stop ?";
const LEFT_OUT: &str = "notice: an image or document is left out: the provider of m refuses it\n";

/// The data URL of a picture that does not compress well.
fn picture(width: u32, height: u32, format: ImageFormat) -> String {
    let image = RgbaImage::from_fn(width, height, |x, y| {
        let mix = (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(2_246_822_519)).wrapping_mul(3_266_489_917);
        Rgba([(mix >> 8) as u8, (mix >> 16) as u8, (mix >> 24) as u8, 255])
    });
    let mut bytes = Vec::new();
    DynamicImage::from(image).write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    format!("data:{};base64,{}", format.to_mime_type(), STANDARD.encode(bytes))
}

/// A question about each of these images, one after the other.
fn questions(urls: &[&str]) -> ModelRequest {
    let question = |url: &&str| {
        let blocks = vec![Block::Text("look".into()), Block::Image { url: (*url).into() }];
        [Message::User { content: Content::Blocks(blocks) }, Message::assistant("I see.")]
    };
    let mut messages: Vec<Message> = urls.iter().flat_map(question).collect();
    messages.pop();
    ModelRequest { messages: messages.into(), ..ModelRequest::default() }
}

/// A server that refuses the bodies of which `is_refused` says so, and its model.
async fn server(
    refusal: (&'static str, &'static str),
    is_refused: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> (Scripted, Arc<dyn Model>) {
    let server = judged(move |seen: &Seen| match is_refused(&seen.body) {
        true => (refusal.0, json!({ "error": { "message": refusal.1 } }).to_string()),
        false => ("200 OK", CHAT.to_owned()),
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    (server, model)
}

/// xAI reads JPEG and PNG only, and says so of the whole request.
#[tokio::test]
async fn xai_gets_png_from_the_start() {
    let (webp, gif) = (picture(64, 64, ImageFormat::WebP), picture(64, 64, ImageFormat::Gif));
    for wire in [OpenAiWire::Chat, OpenAiWire::Responses] {
        let server = judged(|_: &Seen| ("401 Unauthorized", String::new())).await;
        let config = ProviderConfig {
            base_url: Some(server.url.clone()),
            rules_of: Some("api.x.ai".to_owned()),
            wire: Some(wire),
            ..ProviderConfig::new(ProviderKind::OpenAi)
        };
        let model = Provider::new("test", config).unwrap().model("grok-4.6");
        assert!(model.stream(questions(&[&webp, &gif])).await.is_err());
        let seen = server.seen().into_iter().find(|seen| seen.body.contains("look")).unwrap();
        assert_eq!(seen.body.matches("data:image/png;base64,").count(), 2, "{wire:?}");
        assert!(!seen.body.contains("data:image/webp") && !seen.body.contains("data:image/gif"), "{wire:?}");
    }
}

/// An image of another format than JPEG and PNG is converted once it is refused, and from then on before it is sent. Others
/// stay as they are.
#[tokio::test]
async fn refused_formats_are_converted() {
    for (status, words) in [
        // llama.cpp, by its version.
        ("400 Bad Request", "Failed to load image or audio file"),
        ("500 Internal Server Error", "Failed to load image or audio file"),
        ("400 Bad Request", "Unsupported image type. Supported formats: JPEG, PNG"),
        ("400 Bad Request", "This model does not support images of type image/webp"),
        ("400 Bad Request", "Bad request"),
    ] {
        let (webp, gif) = (picture(64, 64, ImageFormat::WebP), picture(64, 64, ImageFormat::Gif));
        let png = picture(8, 8, ImageFormat::Png);
        for odd in [&webp, &gif] {
            let refused = odd.split_once(';').unwrap().0.to_owned();
            let (server, model) = server((status, words), move |body| body.contains(&refused)).await;
            assert_eq!(answer(&*model, questions(&[odd])).await, OK, "{words}");
            let taken = server.seen().len();
            assert!(taken <= 3, "{words}: {taken} requests");
            // It is the older one here, and nobody says which is refused.
            assert_eq!(answer(&*model, questions(&[odd, &png])).await, OK, "{words}");
            assert_eq!(server.seen().len(), taken + 1, "{words}");
            let body = server.last_body();
            assert!(body.matches("data:image/png").count() == 2 && body.contains(&png), "{words}: {body}");
        }
        let (server, model) = server((status, words), |body| body.contains("data:image/webp")).await;
        assert_eq!(answer(&*model, questions(&[&webp, &gif, &png])).await, OK, "{words}");
        let body = server.last_body();
        assert!(body.contains(&png) && body.matches("data:image/").count() == 3, "{words}: {body}");
    }
}

/// An image that is refused in every form is left out.
#[tokio::test]
async fn an_image_that_no_form_helps_is_left_out() {
    let webp = picture(64, 64, ImageFormat::WebP);
    let (server, model) =
        server(("400 Bad Request", "Could not process image"), |body| body.contains("data:image")).await;
    for requests in [3, 4] {
        assert_eq!(answer(&*model, questions(&[&webp])).await, format!("{LEFT_OUT}{OK}"));
        assert_eq!(server.seen().len(), requests);
    }
}

/// An image that is refused for its size is made smaller once.
#[tokio::test]
async fn images_that_are_too_large_are_made_smaller() {
    for refusal in [
        ("400 Bad Request", "Image dimensions exceed the maximum of 1600 pixels"),
        ("413 Payload Too Large", "Request entity too large"),
    ] {
        let wide = picture(1700, 20, ImageFormat::Png);
        let limit = wide.len() - 1000;
        let (server, model) = server(refusal, move |body| body.len() > limit).await;
        for requests in [2, 3] {
            assert_eq!(answer(&*model, questions(&[&wide])).await, OK, "{refusal:?}");
            assert_eq!(server.seen().len(), requests, "{refusal:?}");
            assert!(server.last_body().contains("data:image/"), "{refusal:?}");
        }
    }
}

/// Where photos have piled up until a request is too large, the oldest go. The size is remembered, also where it is told with
/// 400.
#[tokio::test]
async fn the_oldest_images_go_where_a_request_is_too_large() {
    let photo = |width| picture(width, 40, ImageFormat::Png);
    let photos: Vec<String> = (0..9).map(|number| photo(60 + number)).collect();
    let limit = photos.iter().take(5).map(String::len).sum::<usize>() + 2000;
    let (server, model) =
        server(("413 Payload Too Large", "Request Entity Too Large"), move |body| body.len() > limit).await;
    let mut refused = 0;
    for count in 1..=photos.len() {
        let shown: Vec<&str> = photos[..count].iter().map(String::as_str).collect();
        let asked = server.seen().len();
        let answered = answer(&*model, questions(&shown)).await;
        assert!(answered.ends_with(OK), "{count}: {answered}");
        assert!(server.last_body().contains(&photos[count - 1]), "{count}: the newest image is not sent");
        assert_eq!(answered.contains("takes no larger requests"), count > 5, "{count}: {answered}");
        refused += server.seen().len() - asked - 1;
    }
    assert_eq!(refused, 1);
}

/// Documents give way as images do, to their text; the newest image stays.
#[tokio::test]
async fn large_documents_do_not_push_out_the_newest_image() {
    let file = |number: usize| format!("JVBERi0{number}").repeat(1000);
    let documents = (0..3).map(|number| {
        let content = DocumentContent {
            name: format!("{number}.pdf"),
            media_type: "application/pdf".into(),
            text: format!("text of {number}"),
            base64: Some(file(number).into()),
        };
        (DocumentId::mint(), content)
    });
    let documents: std::collections::HashMap<_, _> = documents.collect();
    let photo = picture(60, 20, ImageFormat::Png);
    let limit = file(2).len() + photo.len() + 3000;
    let server = judged(move |seen: &Seen| match seen.body.len() > limit {
        true => ("413 Payload Too Large", "too large".to_owned()),
        false => {
            let text =
                json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "ok" } });
            let end = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } });
            ("200 OK", format!("data: {text}\n\ndata: {end}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"))
        }
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::Anthropic) };
    let model = Provider::new("test", config).unwrap().model("claude-opus-5-5");
    let png = photo.split_once(',').map(|(_, base64)| base64.to_owned()).unwrap();
    let mut ids: Vec<_> = documents.keys().cloned().collect();
    ids.sort_by_key(|id| documents[id].name.clone());
    let mut messages: Vec<Message> = Vec::new();
    for id in ids {
        let name = documents[&id].name.clone();
        messages.push(Message::User { content: Content::Blocks(vec![Block::Document { id, name }]) });
        messages.push(Message::assistant("I see."));
    }
    let mut request = questions(&[&photo]);
    messages.extend(request.messages.iter().cloned());
    (request.messages, request.documents) = (messages.into(), Arc::new(documents));
    for requests in [2, 3] {
        let answered = answer(&*model, request.clone()).await;
        assert!(answered.ends_with(OK) && answered.contains("takes no larger requests"), "{answered}");
        let body = server.last_body();
        assert!(body.contains(&png) && body.contains("text of 0") && !body.contains(&file(0)));
        assert_eq!(server.seen().len(), requests);
    }
}
