//! Unpacks streams: the filters that text can be packed with, within a limit.

use std::borrow::Cow;

use miniz_oxide::inflate::{
    TINFLStatus,
    core::{DecompressorOxide, decompress, inflate_flags},
};

use super::{
    budget::Budget,
    lexer::{from_hex, is_space},
    lzw,
};

/// Filters on one stream.
pub(crate) const MAX_FILTERS: usize = 8;
/// What a filter costs, however little it has to do.
const UNPACKING: usize = 1024;
/// The longest row that a predictor works on.
const MAX_ROW: usize = 1 << 20;

/// One filter with its parameters.
pub(crate) struct Filter {
    pub(crate) name: Vec<u8>,
    pub(crate) predictor: Predictor,
    /// Of LZW: codes grow one entry early.
    pub(crate) early_change: bool,
}

/// How rows of bytes were made easier to pack.
#[derive(Clone, Copy)]
pub(crate) struct Predictor {
    pub(crate) kind: usize,
    pub(crate) colors: usize,
    pub(crate) bits: usize,
    pub(crate) columns: usize,
}

/// The bytes of a stream, at most `limit` of them. What is broken gives the bytes before the break; a filter for images
/// gives none.
pub(crate) fn decode(data: &[u8], filters: &[Filter], limit: usize, budget: &Budget) -> Vec<u8> {
    let mut bytes = Cow::Borrowed(data);
    budget.pay(UNPACKING * filters.len());
    for filter in filters {
        let packed = &*bytes;
        if !budget.pay(packed.len()) {
            return Vec::new();
        }
        let limit = limit.min(budget.left());
        let unpacked = match &*filter.name {
            b"FlateDecode" | b"Fl" => unpredict(inflate(packed, limit), filter.predictor),
            b"LZWDecode" | b"LZW" => unpredict(lzw::decode(packed, filter.early_change, limit), filter.predictor),
            b"ASCII85Decode" | b"A85" => ascii_85(packed, limit),
            b"ASCIIHexDecode" | b"AHx" => from_hex(&packed[..memchr::memchr(b'>', packed).unwrap_or(packed.len())]),
            b"RunLengthDecode" | b"RL" => run_length(packed, limit),
            b"Crypt" => continue,
            _ => return Vec::new(),
        };
        bytes = Cow::Owned(unpacked);
    }
    let length = bytes.len().min(limit);
    if !budget.pay(length) {
        return Vec::new();
    }
    match bytes {
        Cow::Borrowed(bytes) => bytes[..length].to_vec(),
        Cow::Owned(mut bytes) => {
            bytes.truncate(length);
            bytes
        }
    }
}

/// Of zlib's format. Its checksum is not looked at: a page with a flaw is better than none.
fn inflate(packed: &[u8], limit: usize) -> Vec<u8> {
    let whole = inflate_as(packed, inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER, limit);
    if whole.is_empty() && packed.len() > 2 {
        // Some writers get the two bytes of the header wrong.
        return inflate_as(&packed[2..], 0, limit);
    }
    whole
}

fn inflate_as(mut packed: &[u8], flags: u32, limit: usize) -> Vec<u8> {
    let flags =
        flags | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF | inflate_flags::TINFL_FLAG_IGNORE_ADLER32;
    let mut inflater = Box::<DecompressorOxide>::default();
    let mut bytes = vec![0; packed.len().saturating_mul(3).clamp(64, limit.max(64))];
    let mut filled = 0;
    loop {
        let (status, consumed, made) = decompress(&mut inflater, packed, &mut bytes, filled, flags);
        filled += made;
        if status != TINFLStatus::HasMoreOutput || bytes.len() >= limit {
            break;
        }
        packed = packed.get(consumed..).unwrap_or_default();
        bytes.resize(bytes.len().saturating_mul(2).min(limit), 0);
    }
    bytes.truncate(filled.min(limit));
    bytes
}

fn unpredict(bytes: Vec<u8>, predictor: Predictor) -> Vec<u8> {
    if predictor.kind < 10 {
        return bytes;
    }
    let pixel = (predictor.colors * predictor.bits).div_ceil(8).max(1);
    let row = (predictor.colors * predictor.bits * predictor.columns).div_ceil(8);
    if row == 0 || row > MAX_ROW {
        return bytes;
    }
    let mut plain: Vec<u8> = Vec::with_capacity(bytes.len());
    for line in bytes.chunks(row + 1) {
        let Some((kind, line)) = line.split_first() else { break };
        let begin = plain.len();
        for (i, byte) in line.iter().enumerate() {
            let left = if i >= pixel { plain[begin + i - pixel] } else { 0 };
            let up = if begin >= row { plain[begin - row + i] } else { 0 };
            let corner = if begin >= row && i >= pixel { plain[begin - row + i - pixel] } else { 0 };
            let predicted = match kind {
                1 => left,
                2 => up,
                3 => left.midpoint(up),
                4 => paeth(left, up, corner),
                _ => 0,
            };
            plain.push(byte.wrapping_add(predicted));
        }
    }
    plain
}

fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let estimate = i16::from(left) + i16::from(up) - i16::from(corner);
    let distance = |byte: u8| (estimate - i16::from(byte)).abs();
    if distance(left) <= distance(up) && distance(left) <= distance(corner) {
        left
    } else if distance(up) <= distance(corner) {
        up
    } else {
        corner
    }
}

fn ascii_85(packed: &[u8], limit: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(packed.len() / 5 * 4 + 4);
    let mut group = Vec::with_capacity(5);
    let packed = packed.strip_prefix(b"<~").unwrap_or(packed);
    for byte in packed.iter().filter(|byte| !is_space(**byte)) {
        match byte {
            _ if bytes.len() >= limit => break,
            b'z' if group.is_empty() => bytes.extend([0; 4]),
            b'!'..=b'u' => group.push(byte - b'!'),
            _ => break,
        }
        if group.len() == 5 {
            bytes.extend(base_85(&group));
            group.clear();
        }
    }
    if group.len() > 1 {
        let length = group.len() - 1;
        group.resize(5, 84);
        bytes.extend(&base_85(&group)[..length]);
    }
    bytes
}

fn base_85(digits: &[u8]) -> [u8; 4] {
    digits.iter().fold(0_u32, |value, digit| value.wrapping_mul(85).wrapping_add(u32::from(*digit))).to_be_bytes()
}

fn run_length(packed: &[u8], limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = packed;
    while let [length, tail @ ..] = rest {
        match length {
            0..=127 => {
                let (run, tail) = tail.split_at(tail.len().min(usize::from(*length) + 1));
                bytes.extend(run);
                rest = tail;
            }
            128 => break,
            129..=255 => {
                let [byte, tail @ ..] = tail else { break };
                bytes.resize(bytes.len() + 257 - usize::from(*length), *byte);
                rest = tail;
            }
        }
        if bytes.len() >= limit {
            bytes.truncate(limit);
            break;
        }
    }
    bytes
}
