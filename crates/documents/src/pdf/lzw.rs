//! LZW as PDF has it: codes of 9 to 12 bits, the high bit first.

const CLEAR: usize = 256;
const END: usize = 257;
const MAX_CODES: usize = 4096;

/// The bytes, at most `limit` of them, up to where the codes make no sense.
pub(crate) fn decode(packed: &[u8], early_change: bool, limit: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    // What each code from 258 on stands for lies in what was written already: where, and how long.
    let mut codes: Vec<(usize, usize)> = Vec::new();
    let mut last: Option<(usize, usize)> = None;
    let (mut buffer, mut filled) = (0_u32, 0);
    let mut rest = packed.iter();
    while bytes.len() < limit {
        let next = END + 1 + codes.len() + usize::from(early_change);
        let width = match next {
            0..512 => 9,
            512..1024 => 10,
            1024..2048 => 11,
            2048.. => 12,
        };
        while filled < width {
            let Some(byte) = rest.next() else { return bytes };
            buffer = buffer << 8 | u32::from(*byte);
            filled += 8;
        }
        filled -= width;
        let code = (buffer >> filled) as usize & ((1 << width) - 1);
        if code == CLEAR {
            codes.clear();
            last = None;
            continue;
        }
        if code == END {
            break;
        }
        let begin = bytes.len();
        if let Some((from, length)) = last
            && END + 1 + codes.len() < MAX_CODES
        {
            // The last sequence and the byte after it, which is the first of this one: they lie side by side.
            codes.push((from, length + 1));
        }
        match code.checked_sub(END + 1) {
            None => bytes.push(code as u8),
            Some(index) => {
                let Some((from, length)) = codes.get(index).copied() else { return bytes };
                for i in from..from + length.min(limit - begin) {
                    // A sequence may reach into itself: its last byte can be the first of those written just now.
                    let byte = bytes[i];
                    bytes.push(byte);
                }
            }
        }
        last = Some((begin, bytes.len() - begin));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        let packed = [0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01];
        assert_eq!(decode(&packed, true, 100), [45, 45, 45, 45, 45, 65, 45, 45, 45, 66]);
        assert_eq!(decode(&packed, true, 4), [45, 45, 45, 45]);
    }

    /// Packs as writers do.
    fn encode(bytes: &[u8], early_change: bool) -> Vec<u8> {
        let (mut packed, mut buffer, mut filled) = (Vec::new(), 0_u32, 0);
        let mut put = |code: usize, next: usize| {
            let width = (next + usize::from(early_change)).ilog2().clamp(8, 11) + 1;
            buffer = buffer << width | code as u32;
            filled += width;
            while filled >= 8 {
                filled -= 8;
                packed.push((buffer >> filled) as u8);
            }
            buffer &= (1 << filled) - 1;
            (filled, buffer)
        };
        let fresh = || (0..=255_u8).map(|byte| (vec![byte], usize::from(byte))).collect::<HashMap<_, _>>();
        let mut codes = fresh();
        // What the reader has: it learns each code one step later than the writer.
        let mut known = END + 1;
        put(CLEAR, known);
        let mut word = Vec::new();
        for byte in bytes {
            word.push(*byte);
            if codes.contains_key(&word) {
                continue;
            }
            put(codes[&word[..word.len() - 1]], known.max(END + 1));
            let next = codes.len() + 2;
            known = next;
            codes.insert(std::mem::replace(&mut word, vec![*byte]), next);
            if next == MAX_CODES - 2 {
                put(CLEAR, known);
                (codes, known) = (fresh(), END + 1);
            }
        }
        if !word.is_empty() {
            put(codes[&word], known);
            known = (known + 1).min(MAX_CODES - 1);
        }
        let (filled, buffer) = put(END, known);
        if filled > 0 {
            packed.push((buffer << (8 - filled)) as u8);
        }
        packed
    }

    proptest! {
        // Long ones, so that the codes run out; so a few.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn what_was_packed_comes_back(bytes in proptest::collection::vec(0..4_u8, 0..20_000), early_change: bool) {
            prop_assert_eq!(decode(&encode(&bytes, early_change), early_change, 1 << 20), bytes);
        }

        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..2000), limit in 0..5000_usize) {
            prop_assert!(decode(&bytes, true, limit).len() <= limit);
        }
    }
}
