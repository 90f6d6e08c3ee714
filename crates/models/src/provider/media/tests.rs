//! Pictures of every format, sound and broken.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use everturn_core::CallId;
use image::{
    Delay, DynamicImage, Frame, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage,
    codecs::gif::{GifDecoder, GifEncoder},
};
use proptest::prelude::*;

use super::*;

const COMMON: Limits =
    Limits { types: &["image/png", "image/jpeg", "image/gif", "image/webp"], side: 64, bytes: 20_000 };
const NO_GIF: Limits = Limits { types: &["image/png", "image/jpeg", "image/webp", "image/heic"], ..COMMON };

/// Colours that repeat nowhere, so that they do not compress well.
fn noise(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let mix = (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(2_246_822_519)).wrapping_mul(3_266_489_917);
        Rgb([(mix >> 8) as u8, (mix >> 16) as u8, (mix >> 24) as u8])
    })
}

fn written(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    image.into().write_to(&mut std::io::Cursor::new(&mut bytes), format).unwrap();
    bytes
}

fn small(format: ImageFormat) -> Vec<u8> {
    match format {
        ImageFormat::Gif | ImageFormat::Ico => written(DynamicImage::from(noise(8, 8)).into_rgba8(), format),
        format => written(noise(8, 8), format),
    }
}

fn url(media_type: &str, bytes: &[u8]) -> String {
    format!("data:{media_type};base64,{}", STANDARD.encode(bytes))
}

/// What came out: its declared type and its picture.
fn opened(outcome: &Outcome) -> (String, DynamicImage) {
    let Outcome::Converted(url) = outcome else { panic!("not converted: {outcome:?}") };
    let (media_type, data) = url.strip_prefix("data:").unwrap().split_once(";base64,").unwrap();
    let bytes = STANDARD.decode(data).unwrap();
    assert_eq!(image::guess_format(&bytes).unwrap().to_mime_type(), media_type);
    (media_type.to_owned(), image::load_from_memory(&bytes).unwrap())
}

fn left_out(outcome: &Outcome) -> &str {
    let Outcome::LeftOut(reason) = outcome else { panic!("not left out: {outcome:?}") };
    reason
}

#[test]
fn formats_that_are_taken_stay_and_others_become_png() {
    use ImageFormat::{Bmp, Gif, Ico, Jpeg, Png, Tiff, WebP};
    for format in [Png, Jpeg, Gif, WebP, Bmp, Tiff, Ico] {
        let media_type = format.to_mime_type();
        let outcome = convert(&url(media_type, &small(format)), COMMON);
        if COMMON.types.contains(&media_type) {
            assert_eq!(outcome, Outcome::Same, "{media_type}");
        } else {
            let (media_type, image) = opened(&outcome);
            assert_eq!((media_type.as_str(), image.into_rgb8()), ("image/png", noise(8, 8)));
        }
    }
    let (media_type, _) = opened(&convert(&url("image/gif", &small(Gif)), NO_GIF));
    assert_eq!(media_type, "image/png");
}

#[test]
fn the_declared_type_and_the_base64_are_corrected() {
    let png = small(ImageFormat::Png);
    let right = url("image/png", &png);
    let data = STANDARD.encode(&png);
    let (head, tail) = data.split_at(20);
    for wrong in [
        url("image/jpeg", &png),
        url("", &png),
        url("image/png;charset=utf-8", &png),
        format!("DATA:image/PNG;BASE64,{data}"),
        format!("data:image/png;base64,{head}\r\n{tail}"),
        format!("data:image/png;base64,{}", data.trim_end_matches('=')) + " ",
        format!("data:image/png;base64,{}", data.replace('+', "-").replace('/', "_")) + "\n",
    ] {
        assert_eq!(convert(&wrong, COMMON), Outcome::Converted(right.as_str().into()), "{wrong}");
    }
}

#[test]
fn large_images_shrink() {
    let (_, image) = opened(&convert(&url("image/png", &written(RgbImage::new(640, 320), ImageFormat::Png)), COMMON));
    assert_eq!((image.width(), image.height()), (64, 32));
    // Too many bytes: a photo stays one, other pictures become one where that suffices and nothing is transparent.
    let limits = Limits { side: 8000, ..COMMON };
    let (media_type, image) =
        opened(&convert(&url("image/jpeg", &written(noise(400, 300), ImageFormat::Jpeg)), limits));
    assert_eq!((media_type.as_str(), image.width() < 400), ("image/jpeg", true));
    let (media_type, _) = opened(&convert(&url("image/png", &written(noise(120, 100), ImageFormat::Png)), limits));
    assert_eq!(media_type, "image/jpeg");
    let solid = noise(120, 100);
    let clear = RgbaImage::from_fn(120, 100, |x, y| {
        let Rgb([r, g, b]) = *solid.get_pixel(x, y);
        Rgba([r, g, b, 9])
    });
    let (media_type, image) = opened(&convert(&url("image/png", &written(clear, ImageFormat::Png)), limits));
    assert_eq!((media_type.as_str(), image.width() < 120, image.color().has_alpha()), ("image/png", true, true));
}

#[test]
fn of_an_animation_the_first_picture_is_sent() {
    let mut bytes = Vec::new();
    {
        let mut encoder = GifEncoder::new(&mut bytes);
        for colour in [Rgba([255, 0, 0, 255]), Rgba([0, 0, 255, 255])] {
            let image = RgbaImage::from_pixel(8, 8, colour);
            encoder.encode_frame(Frame::from_parts(image, 0, 0, Delay::from_numer_denom_ms(10, 1))).unwrap();
        }
    }
    assert!(GifDecoder::new(std::io::Cursor::new(&bytes)).is_ok());
    for limits in [COMMON, NO_GIF] {
        let (media_type, image) = opened(&convert(&url("image/gif", &bytes), limits));
        assert_eq!((media_type.as_str(), *image.into_rgb8().get_pixel(0, 0)), ("image/png", Rgb([255, 0, 0])));
    }
}

#[test]
fn what_cannot_be_read_is_left_out_with_its_reason() {
    let svg = "<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>";
    let heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic".as_slice();
    for (url, reason) in [
        ("data:image/svg+xml,<svg/>".to_owned(), "its data URL is not base64"),
        ("data:".to_owned(), "its data URL has no data"),
        ("data:image/png;base64,%%%".to_owned(), "its data URL is not valid base64"),
        ("data:image/png;base64,".to_owned(), "it is in no image format that is known"),
        (url("image/x-icns", b"hello"), "it is in no image format that is known"),
        (url("image/svg+xml", svg.as_bytes()), "the provider does not take image/svg+xml"),
        (url("image/heic", heic), "the provider does not take image/heic"),
        (url("image/png", &vec![0; 21 * 1024 * 1024]), "it is larger than 20 MB"),
    ] {
        assert_eq!(left_out(&convert(&url, COMMON)), reason);
    }
    assert_eq!(convert(&url("image/heic", heic), NO_GIF), Outcome::Same);
    for format in [ImageFormat::Bmp, ImageFormat::Tiff] {
        assert_eq!(left_out(&convert(&cut(format), COMMON)), convert::BROKEN, "{format:?}");
    }
}

/// An image of which two thirds are there.
fn cut(format: ImageFormat) -> String {
    let whole = small(format);
    url(format.to_mime_type(), &whole[..whole.len() * 2 / 3])
}

#[test]
fn what_the_provider_may_read_better_than_we_do_is_left_to_it() {
    for format in [ImageFormat::Png, ImageFormat::Gif, ImageFormat::WebP] {
        assert_eq!(convert(&cut(format), COMMON), Outcome::Same, "{format:?}");
    }
    assert_eq!(convert(&url("image/png", b"hello"), COMMON), Outcome::Same);
}

/// Small files that claim to be huge take no memory.
#[test]
fn bombs_are_left_out() {
    let mut png = written(RgbImage::new(1, 1), ImageFormat::Png);
    png[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let crc = crc32(&png[12..29]);
    png[29..33].copy_from_slice(&crc.to_be_bytes());
    let mut gif = small(ImageFormat::Gif);
    gif[6..10].copy_from_slice(&[0xff; 4]);
    for (media_type, bytes) in [("image/png", png), ("image/gif", gif)] {
        let reason = "it has more than 50 million pixels or colours too fine to read";
        assert_eq!(left_out(&convert(&url(media_type, &bytes), COMMON)), reason, "{media_type}");
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

fn image_block(url: &str) -> Block {
    Block::Image { url: url.into() }
}

#[tokio::test]
async fn images_of_users_and_results_are_replaced_in_place() {
    let bmp = url("image/bmp", &small(ImageFormat::Bmp));
    let address = "https://example.com/a.bmp";
    let messages = Messages::from([
        Message::User {
            content: Content::Blocks(vec![image_block(address), image_block(&bmp), Block::Text("look".into())]),
        },
        Message::assistant("ok"),
        Message::Tool {
            call_id: CallId::new("c"),
            content: Content::Blocks(vec![image_block("data:x"), image_block(&bmp)]),
            is_error: false,
        },
    ]);
    let cache = Arc::new(Cache::default());
    let outcomes = outcomes(&messages, |_| Some(COMMON), &cache).await;
    let converted = replaced(&messages, outcomes).unwrap();
    let Outcome::Converted(png) = convert(&bmp, COMMON) else { panic!() };
    assert_eq!(
        converted,
        Messages::from([
            Message::User {
                content: Content::Blocks(vec![image_block(address), image_block(&png), Block::Text("look".into())])
            },
            Message::assistant("ok"),
            Message::Tool {
                call_id: CallId::new("c"),
                content: Content::Blocks(vec![
                    Block::Text("[An image was left out here: its data URL has no data.]".into()),
                    image_block(&png),
                ]),
                is_error: false,
            },
        ])
    );
    assert!(cache.get(&Key::of(&bmp, COMMON)).is_some_and(|outcome| outcome == Outcome::Converted(png)));
    assert_eq!(cache.get(&Key::of(&bmp, NO_GIF)), None);
}

#[tokio::test]
async fn a_request_whose_images_fit_is_not_copied() {
    let png = url("image/png", &small(ImageFormat::Png));
    let limits = Limits { side: 2000, ..COMMON };
    for block in [image_block(&png), image_block("https://example.com/a.png"), Block::Text("hi".into())] {
        let messages = Messages::from([Message::User { content: Content::Blocks(vec![block]) }]);
        let request = ModelRequest { messages: messages.clone(), ..ModelRequest::default() };
        let read = readable(request, limits).await.messages;
        assert!(std::ptr::eq(read.last().unwrap(), messages.last().unwrap()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the bytes, what is sent is an image that fits, and fits again.
    #[test]
    fn any_bytes_become_an_image_or_a_reason(
        format in proptest::sample::select(vec![
            ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP, ImageFormat::Bmp,
            ImageFormat::Tiff, ImageFormat::Ico,
        ]),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<Option<prop::sample::Index>>(),
        noise in proptest::collection::vec(any::<u8>(), 0..64),
        is_noise: bool,
    ) {
        let mut bytes = if is_noise { noise } else { small(format) };
        for (place, byte) in changes {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        for limits in [COMMON, NO_GIF] {
            if let Outcome::Converted(url) = convert(&url(format.to_mime_type(), &bytes), limits) {
                prop_assert_eq!(convert(&url, limits), Outcome::Same);
                prop_assert!(url.len() <= limits.bytes);
            }
        }
    }
}
