//! Limits on the number of images in one request.

use everturn_core::{Block, Content, Message};
use everturn_models::{ModelRequest, Provider, ProviderConfig, ProviderKind};
use serde_json::json;

use super::{
    scripted::{Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A question about each of these images, one after the other.
fn questions(images: &[u32]) -> ModelRequest {
    let question = |n: &u32| {
        let url = format!("https://example.com/{n}.png");
        let content = Content::Blocks(vec![Block::Text("look".into()), Block::Image { url: url.into() }]);
        [Message::User { content }, Message::assistant("I see.")]
    };
    let mut messages: Vec<Message> = images.iter().flat_map(question).collect();
    messages.pop();
    ModelRequest { messages: messages.into(), ..ModelRequest::default() }
}

/// The oldest images are left out, in every call. A later conversation about one of them has it.
#[tokio::test]
async fn the_oldest_images_are_left_out() {
    for words in [
        "At most 2 image(s) may be provided in one prompt.",
        "Too many images provided. This model supports up to 2 images",
        "Too many images in request. Expected at most 2, got 4.",
    ] {
        let server = judged(move |seen: &Seen| match seen.body.matches("image_url\":").count() > 2 {
            true => ("400 Bad Request", json!({ "error": { "message": words } }).to_string()),
            false => ("200 OK", CHAT.to_owned()),
        })
        .await;
        let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
        let model = Provider::new("test", config).unwrap().model("m");
        for requests in [2, 3] {
            let shown = answer(&*model, questions(&[1, 2, 3, 4])).await;
            let notice = "notice: the 2 oldest images are left out: m takes at most 2";
            assert_eq!(shown, format!("{notice}\ntext: ok\nfinished: Stop ?"), "{words}");
            assert_eq!(server.seen().len(), requests);
            let body = server.last_body();
            assert!(body.contains("/3.png") && body.contains("/4.png") && !body.contains("/1.png"), "{body}");
        }
        assert_eq!(answer(&*model, questions(&[1])).await, "text: ok\nfinished: Stop ?");
        assert!(server.last_body().contains("/1.png"));
    }
}

/// A limit that the user writes about is none.
#[tokio::test]
async fn a_quoted_limit_is_not_believed() {
    let server = judged(|seen: &Seen| match seen.body.contains("at most 1 image") {
        true => {
            ("400 Bad Request", json!({ "error": { "message": "cannot read: at most 1 images taken" } }).to_string())
        }
        false => ("200 OK", CHAT.to_owned()),
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    let mut messages: Vec<_> = questions(&[1, 2]).messages.iter().cloned().collect();
    messages.extend([Message::assistant("yes"), Message::user("at most 1 images taken")]);
    answer(&*model, ModelRequest { messages: messages.into(), ..ModelRequest::default() }).await;
    assert_eq!(answer(&*model, questions(&[3, 4])).await, "text: ok\nfinished: Stop ?");
}
