//! One image, brought within limits.

use std::{
    borrow::Cow,
    io::{BufRead, Cursor, Seek},
    sync::Arc,
};

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};
use image::{
    AnimationDecoder as _, DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, codecs::gif::GifDecoder,
    codecs::jpeg::JpegEncoder,
};

use super::Limits;

/// The largest image that is read, in bytes.
const MAX_BYTES: usize = 20 * 1024 * 1024;
/// The most pixels of an image that is read.
const MAX_PIXELS: u64 = 50_000_000;
/// The most memory that decoding one image may take.
pub(super) const MAX_MEMORY: u64 = 256 * 1024 * 1024;
/// How often an image is made smaller until it fits.
const MAX_REDUCTIONS: usize = 12;
const JPEG_QUALITY: u8 = 85;

/// Why an image is left out whose data makes no sense.
pub(super) const BROKEN: &str = "its data is broken or incomplete";

/// Takes base64 with and without padding, as servers write both.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What became of an image. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It can be sent as it is.
    Same,
    /// Its new data URL.
    Converted(Arc<str>),
    /// Why nothing can be sent, as the end of a sentence.
    LeftOut(Cow<'static, str>),
}

/// Whether a URL holds its own data.
pub(super) fn is_data(url: &str) -> bool {
    url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// Brings the image of a data URL within limits.
pub(super) fn convert(url: &str, limits: Limits) -> Outcome {
    attempt(url, limits).unwrap_or_else(Outcome::LeftOut)
}

type Reason = Cow<'static, str>;

fn attempt(url: &str, limits: Limits) -> Result<Outcome, Reason> {
    let (header, data) = url.split_once(',').ok_or("its data URL has no data")?;
    if !header.get(header.len().saturating_sub(7)..).is_some_and(|end| end.eq_ignore_ascii_case(";base64")) {
        return Err("its data URL is not base64".into());
    }
    if data.len() / 4 * 3 > MAX_BYTES {
        return Err(format!("it is larger than {} MB", MAX_BYTES / 1024 / 1024).into());
    }
    let (bytes, is_canonical) = decoded(data).ok_or("its data URL is not valid base64")?;
    let declared = header.get(5..header.len() - 7).unwrap_or_default();
    let Some(media_type) = media_type(&bytes) else {
        // The provider may know better; what it refuses is left out then.
        let is_possible = !bytes.is_empty() && limits.types.contains(&declared) && url.len() <= limits.bytes;
        return if is_possible { Ok(Outcome::Same) } else { Err("it is in no image format that is known".into()) };
    };
    let is_accepted = limits.types.contains(&media_type);
    let as_it_is = || {
        if is_canonical && header.starts_with("data:") && declared == media_type && header.ends_with(";base64") {
            Outcome::Same
        } else {
            Outcome::Converted(data_url(media_type, &bytes).into())
        }
    };
    let Some(format) = readable_format(media_type) else {
        let is_small = url.len() <= limits.bytes;
        return match (is_accepted, is_small) {
            (true, true) => Ok(as_it_is()),
            (true, false) => Err(format!("it is too large, and {media_type} cannot be made smaller here").into()),
            (false, _) => Err(format!("the provider does not take {media_type}").into()),
        };
    };
    let fits = |width: u32, height: u32| width.max(height) <= limits.side && url.len() <= limits.bytes;
    match picture(&bytes, format) {
        Ok((image, is_animated)) => {
            if is_accepted && fits(image.width(), image.height()) && !is_animated {
                return Ok(as_it_is());
            }
            let url = encoded(image, format, limits).ok_or("it cannot be made small enough")?;
            Ok(Outcome::Converted(url.into()))
        }
        Err(Unreadable::TooLarge) => {
            Err(format!("it has more than {} million pixels or colours too fine to read", MAX_PIXELS / 1_000_000)
                .into())
        }
        // A variant of the format that the provider may know.
        Err(Unreadable::Unsupported(Some((width, height)))) if is_accepted && fits(width, height) => Ok(as_it_is()),
        // Decoders differ in what they forgive; an image that the provider refuses is left out then.
        Err(Unreadable::Broken) if is_accepted && url.len() <= limits.bytes => Ok(as_it_is()),
        Err(Unreadable::Unsupported(_)) => Err(format!("its variant of {media_type} cannot be read").into()),
        Err(Unreadable::Broken) => Err(BROKEN.into()),
    }
}

/// The bytes, and whether the text is base64 as everyone takes it.
fn decoded(data: &str) -> Option<(Vec<u8>, bool)> {
    if let Ok(bytes) = general_purpose::STANDARD.decode(data) {
        return Some((bytes, true));
    }
    let plain = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(|byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    });
    LENIENT.decode(plain.collect::<Vec<u8>>()).ok().map(|bytes| (bytes, false))
}

fn data_url(media_type: &str, bytes: &[u8]) -> String {
    let mut url = format!("data:{media_type};base64,");
    general_purpose::STANDARD.encode_string(bytes, &mut url);
    url
}

/// The media type by the first bytes; what a server declares is often wrong.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    if let (Some(b"ftyp"), Some(brand)) = (bytes.get(4..8), bytes.get(8..12)) {
        return match brand {
            b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" => Some("image/heic"),
            b"mif1" | b"msf1" => Some("image/heif"),
            b"avif" | b"avis" => Some("image/avif"),
            _ => None,
        };
    }
    if let Ok(format) = image::guess_format(bytes) {
        return Some(format.to_mime_type());
    }
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]);
    let start = start.trim_start_matches('\u{feff}').trim_start();
    (start.starts_with("<svg") || (start.starts_with('<') && start.contains("<svg"))).then_some("image/svg+xml")
}

/// The format of a media type, where it is one that we read.
fn readable_format(media_type: &str) -> Option<ImageFormat> {
    use ImageFormat::{Bmp, Gif, Ico, Jpeg, Png, Tiff, WebP};
    [Png, Jpeg, Gif, WebP, Bmp, Tiff, Ico].into_iter().find(|format| format.to_mime_type() == media_type)
}

/// Why there is no picture.
enum Unreadable {
    TooLarge,
    /// With its sides, where they are known.
    Unsupported(Option<(u32, u32)>),
    Broken,
}

impl Unreadable {
    fn of(error: &ImageError, sides: Option<(u32, u32)>) -> Self {
        match error {
            ImageError::Limits(_) => Self::TooLarge,
            ImageError::Unsupported(_) => Self::Unsupported(sides),
            ImageError::Decoding(_) | ImageError::Encoding(_) | ImageError::Parameter(_) | ImageError::IoError(_) => {
                Self::Broken
            }
        }
    }
}

/// The picture, upright, and whether it is the first of several.
fn picture(bytes: &[u8], format: ImageFormat) -> Result<(DynamicImage, bool), Unreadable> {
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(MAX_MEMORY);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder().map_err(|error| Unreadable::of(&error, None))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS || decoder.total_bytes() > MAX_MEMORY {
        return Err(Unreadable::TooLarge);
    }
    let sides = Some((width, height));
    let orientation = decoder.orientation().ok();
    let mut image = DynamicImage::from_decoder(decoder).map_err(|error| Unreadable::of(&error, sides))?;
    if let Some(orientation) = orientation {
        image.apply_orientation(orientation);
    }
    let is_animated = format == ImageFormat::Gif && has_second_frame(Cursor::new(bytes), limits);
    Ok((image, is_animated))
}

fn has_second_frame(bytes: impl BufRead + Seek, limits: image::Limits) -> bool {
    let Ok(mut decoder) = GifDecoder::new(bytes) else { return false };
    decoder.set_limits(limits).is_ok() && decoder.into_frames().take(2).filter(Result::is_ok).count() == 2
}

/// The picture in a format and a size that fit: exact where that is small enough.
fn encoded(image: DynamicImage, source: ImageFormat, limits: Limits) -> Option<String> {
    let takes = |format: ImageFormat| limits.types.contains(&format.to_mime_type());
    let is_large = image.width().max(image.height()) > limits.side;
    // First, so that the rest needs less memory.
    let mut image = plain(if is_large { image.thumbnail(limits.side, limits.side) } else { image });
    let is_exact = takes(ImageFormat::Png) && !(source == ImageFormat::Jpeg && takes(ImageFormat::Jpeg));
    let is_lossy = takes(ImageFormat::Jpeg) && !image.color().has_alpha();
    for _ in 0..MAX_REDUCTIONS {
        if is_exact {
            let mut bytes = Vec::new();
            image.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).ok()?;
            if fits(&bytes, limits) {
                return Some(data_url("image/png", &bytes));
            }
        }
        if is_lossy {
            let mut bytes = Vec::new();
            image.write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY)).ok()?;
            if fits(&bytes, limits) {
                return Some(data_url("image/jpeg", &bytes));
            }
        }
        let (width, height) = (image.width() / 3 * 2, image.height() / 3 * 2);
        image = image.thumbnail(width.max(1), height.max(1));
    }
    None
}

fn fits(bytes: &[u8], limits: Limits) -> bool {
    bytes.len().div_ceil(3) * 4 + "data:image/jpeg;base64,".len() <= limits.bytes
}

/// With eight bits for each colour, and with transparency only where a pixel is transparent.
fn plain(image: DynamicImage) -> DynamicImage {
    if !image.color().has_alpha() {
        return DynamicImage::ImageRgb8(image.into_rgb8());
    }
    let image = image.into_rgba8();
    if image.pixels().any(|pixel| pixel.0[3] < u8::MAX) {
        DynamicImage::ImageRgba8(image)
    } else {
        DynamicImage::ImageRgb8(DynamicImage::ImageRgba8(image).into_rgb8())
    }
}
