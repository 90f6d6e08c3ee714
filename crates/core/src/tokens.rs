//! A guess at how many tokens a text has, without a vocabulary.
//!
//! Tokenizers cut a text where its kind of character changes: words, numbers and marks become tokens of their own. So what a
//! byte costs is told by its kind and the kind before it: one look at each byte. The costs were fitted to the vocabularies
//! `o200k` and `cl100k`; the tests have samples with their true counts.

/// The kinds of bytes that tokenizers tell apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lower,
    Upper,
    Digit,
    /// Punctuation, brackets and control characters.
    Mark,
    Space,
    Line,
    /// The first byte of a character of two, such as accented letters, Greek and Cyrillic.
    Two,
    /// The first byte of a character of three, such as Chinese, Japanese and Korean.
    Three,
    /// The first byte of a character of four, such as emoji.
    Four,
    /// A later byte of a character.
    Later,
}

const KINDS: [Kind; 10] = [
    Kind::Lower,
    Kind::Upper,
    Kind::Digit,
    Kind::Mark,
    Kind::Space,
    Kind::Line,
    Kind::Two,
    Kind::Three,
    Kind::Four,
    Kind::Later,
];

/// A token, in the unit of costs.
const TOKEN: u64 = 100;

/// What a byte of a kind costs after one of another kind, in hundredths of a token.
const fn cost(before: Kind, kind: Kind) -> u8 {
    match (before, kind) {
        (_, Kind::Later) => 0,
        (_, Kind::Two) => 50,
        (_, Kind::Three) => 100,
        (_, Kind::Four) => 200,
        // A word: the space before it is a part of its first token.
        (Kind::Space | Kind::Line, Kind::Lower) => 0,
        (Kind::Lower | Kind::Upper | Kind::Digit, Kind::Lower) => 25,
        (_, Kind::Lower) => 75,
        // A capital within a word begins a token. Random letters, such as base64, are full of them.
        (Kind::Lower, Kind::Upper) => 150,
        (Kind::Upper, Kind::Upper) => 60,
        (_, Kind::Upper) => 25,
        // Numbers are cut after three digits at most, and take no space into their first token.
        (Kind::Digit, Kind::Digit) => 40,
        (Kind::Space, Kind::Digit) => 200,
        (_, Kind::Digit) => 125,
        (Kind::Mark, Kind::Mark) => 40,
        (_, Kind::Mark) => 25,
        // Many spaces are one token.
        (Kind::Space, Kind::Space) => 2,
        (Kind::Line, Kind::Space) => 50,
        (_, Kind::Space) => 25,
        (Kind::Line, Kind::Line) => 20,
        (_, Kind::Line) => 75,
    }
}

const fn kind(byte: u8) -> Kind {
    match byte {
        b'a'..=b'z' => Kind::Lower,
        b'A'..=b'Z' => Kind::Upper,
        b'0'..=b'9' => Kind::Digit,
        b' ' | b'\t' => Kind::Space,
        b'\n' | b'\r' => Kind::Line,
        0x80..=0xBF => Kind::Later,
        0xC0..=0xDF => Kind::Two,
        0xE0..=0xEF => Kind::Three,
        0xF0..=0xFF => Kind::Four,
        _ => Kind::Mark,
    }
}

/// Rows of 16, so that a pair of kinds finds its cost without a multiplication.
const ROW: usize = 16;

static KIND_OF: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = kind(byte as u8) as u8;
        byte += 1;
    }
    kinds
};

static COST_OF: [u8; ROW * ROW] = {
    let mut costs = [0; ROW * ROW];
    let mut before = 0;
    while before < KINDS.len() {
        let mut after = 0;
        while after < KINDS.len() {
            costs[before * ROW + after] = cost(KINDS[before], KINDS[after]);
            after += 1;
        }
        before += 1;
    }
    costs
};

/// A guess at the tokens of a text. Plain words have about four bytes each, dense text such as numbers and base64 fewer.
pub fn estimate_text(text: &str) -> u64 {
    let mut before = Kind::Line as usize;
    let mut sum = 0_u64;
    for byte in text.bytes() {
        let kind = usize::from(KIND_OF[usize::from(byte)]);
        sum += u64::from(COST_OF[(before * ROW + kind) % (ROW * ROW)]);
        before = kind;
    }
    sum.div_ceil(TOKEN).max(u64::from(!text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with how many tokens they have by `o200k` and by `cl100k`.
    const SAMPLES: [(&str, &str, u64, u64); 9] = [
        (
            "english",
            "The harbour was quiet when she arrived, long before the first boats went out. An old man sat on a crate \
            and mended his net; he did not look up. \"You are early,\" he said, and his hands went on with their wor\
            k. She thought of the letter in her pocket, of the three weeks that it had taken to reach her, and of ev\
            erything that might have happened since.",
            82,
            82,
        ),
        (
            "chinese",
            "清晨的港口十分安静,第一批渔船还没有出海。一位老人坐在木箱上补网,没有抬头。他说:“你来得真早。”手\
            里的活一直没有停下。她想起口袋里的那封信,想起这封信在路上走了三个星期,也想起这段时间里可能发生的一\
            切。",
            85,
            116,
        ),
        (
            "japanese",
            "朝の港は静かで、最初の船もまだ出ていなかった。老人が木箱に腰を下ろして網を直していたが、顔を上げよう\
            とはしなかった。「早いね」と彼は言い、手は休まずに動き続けた。彼女はポケットの中の手紙と、それが届く\
            までの三週間のことを考えていた。",
            93,
            131,
        ),
        (
            "korean",
            "이른 아침의 항구는 조용했고 첫 배도 아직 나가지 않았다. 노인은 나무 상자에 앉아 그물을 \
            고치고 있었지만 고개를 들지 않았다. 그는 일찍 왔구나 하고 말했고 손은 쉬지 않고 움직였\
            다.",
            61,
            105,
        ),
        (
            "base64",
            "Vc2O3bn8QlQT2tIxotwv23DTHIzuRyIFgRVe6CjUn/ZCA5KwaO4Nd+6SCQuFbAdRX+FAZl9M+NsjtDrdfd6JHH9WXTXX/IT7HDyItBMg\
            lmfKQion1jAPZ0o8jTrSvaMgPE8omFHnZt5ZzPK0DvJ6shczXIXj3q8cetMtQAFnu0m5N7VsGvKkVgsLgQIJtRg93QS/2r3ZKAL4/gSc\
            nFEO893/d5Mgle5p9spGEhbtW9xWvkd3gvhIlSp5pOszAV/+FEskqqBL+42e9brpFb4sqpawyTjzHaA/KMALczmcWo0rjesyYe8EXTLY\
            K9InqXORQ/rMt6E8BDSm2/HzrT1ztxOvN6QGONwBIWAcYkno",
            243,
            254,
        ),
        (
            "json",
            "{\"id\":4711,\"lat\":48.137154,\"lon\":11.576124,\"ts\":1763463000123,\"v\":[0.8444218515250481,0.757954\
            4029403025],\"tags\":[\"a1\",\"b2\"],\"ok\":true},{\"id\":4712,\"lat\":-33.868820,\"lon\":151.209290,\"t\
            s\":1763463000978,\"v\":[0.420571580830845,0.25891675029296335],\"tags\":[],\"ok\":false}",
            115,
            113,
        ),
        (
            "rust",
            "    fn attempt(&self, level: Level) -> Option<Plan> {\n        let Room { budget, target, .. } = *self.r\
            oom;\n        let mut made = Compaction { shortened: self.results(level), ..self.before.clone() };\n        \
            if level != Level::Results {\n            made.covers = self.covers(level, &sizes).unwrap_or(self.before\
            .covers);\n        }\n        (changed && tokens <= limit).then_some(Plan { compaction: made, tokens })\n    \
            }\n",
            103,
            103,
        ),
        (
            "uuids",
            "0a722a05-651f-aaa8-14d1-05973b62e0a2\n744556cb-0133-4051-51fd-3af92c9a79eb\n86ced96e-9ebd-9a7d-d0fd-0346\
            89d463b4\n6c2c00e2-d668-2354-09c6-f69e299d6763\n41dbee4e-eff6-9750-d0a6-d1cd38dc751c\nf569202c-f8a4-7f99\
            -84e5-644aac640e1c\n0a63ef16-d6a0-bb21-3058-f94a701927b3\n",
            164,
            164,
        ),
        (
            "log",
            "2026-11-01T13:31:57.069Z INFO [worker-30] request completed method=GET path=/api/v1/items/807778 status=\
            200 duration=82.61ms\n2026-11-21T16:09:46.534Z INFO [worker-12] request completed method=GET path=/api/v\
            1/items/386830 status=200 duration=72.22ms\n2026-11-13T22:16:07.616Z INFO [worker-21] request completed \
            method=GET path=/api/v1/items/337039 status=200 duration=60.",
            132,
            132,
        ),
    ];

    #[test]
    fn the_guess_is_near_the_truth_for_words_numbers_and_other_scripts() {
        for (name, text, o200k, cl100k) in SAMPLES {
            let guess = estimate_text(text);
            // The older vocabulary has fewer words of other scripts.
            let (least_of_older, most) = if text.is_ascii() { (85, 115) } else { (75, 140) };
            let is_enough = guess * 100 >= o200k * 85 && guess * 100 >= cl100k * least_of_older;
            assert!(is_enough && guess * 100 <= o200k.min(cl100k) * most, "{name}: {guess} of {o200k} and {cl100k}");
        }
    }

    #[test]
    fn the_simplest_texts() {
        let texts = ["", "a", " ", "hello", "hello world", "7", "語"];
        assert_eq!(texts.map(estimate_text), [0, 1, 1, 1, 3, 2, 1]);
        assert_eq!(estimate_text(&"a".repeat(4000)), 1000);
        assert!(estimate_text(&" ".repeat(4000)) < 100);
    }
}
