//! Decodes a JSON text that arrives in pieces.

/// Where a decoder stands in a text, from after its opening quotation mark.
#[derive(Debug, Default)]
pub(super) struct TextDecoder {
    escape: Escape,
    /// The first half of a surrogate pair, whose second half should come next.
    high: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Escape {
    #[default]
    None,
    /// After a backslash.
    Begun,
    /// After `\u` and some of its four digits.
    Hex { value: u16, digits: u8 },
}

/// What a decoder took.
pub(super) struct Fed {
    /// How many bytes, including a closing quotation mark.
    pub(super) used: usize,
    /// Whether the text is complete. The decoder is then ready for the next one.
    pub(super) ended: bool,
}

impl TextDecoder {
    /// Decodes the text up to its end, or all there is. Fails with the place of what no text may hold.
    pub(super) fn feed(&mut self, chunk: &str, on: &mut impl FnMut(&str)) -> Result<Fed, usize> {
        let bytes = chunk.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match self.escape {
                Escape::None => {
                    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | 0..=0x1f);
                    let plain = bytes[at..].iter().take_while(|byte| is_plain(byte)).count();
                    if plain > 0 {
                        self.settle(on);
                        // Both ends lie beside ASCII or at the ends of the chunk.
                        on(&chunk[at..at + plain]);
                        at += plain;
                        continue;
                    }
                    match bytes[at] {
                        b'"' => {
                            self.settle(on);
                            return Ok(Fed { used: at + 1, ended: true });
                        }
                        b'\\' => self.escape = Escape::Begun,
                        _ => return Err(at),
                    }
                }
                Escape::Begun if bytes[at] == b'u' => self.escape = Escape::Hex { value: 0, digits: 0 },
                Escape::Begun => {
                    let character = match bytes[at] {
                        b'"' => "\"",
                        b'\\' => "\\",
                        b'/' => "/",
                        b'b' => "\u{8}",
                        b'f' => "\u{c}",
                        b'n' => "\n",
                        b'r' => "\r",
                        b't' => "\t",
                        _ => return Err(at),
                    };
                    self.escape = Escape::None;
                    self.settle(on);
                    on(character);
                }
                Escape::Hex { value, digits } => {
                    let digit = char::from(bytes[at]).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
                    let value = value << 4 | digit.ok_or(at)?;
                    if digits == 3 {
                        self.escape = Escape::None;
                        self.unit(value, on);
                    } else {
                        self.escape = Escape::Hex { value, digits: digits + 1 };
                    }
                }
            }
            at += 1;
        }
        Ok(Fed { used: at, ended: false })
    }

    /// Takes what `\u` names: a character or half of one.
    fn unit(&mut self, unit: u16, on: &mut impl FnMut(&str)) {
        if (0xd800..0xdc00).contains(&unit) {
            self.settle(on);
            self.high = Some(unit);
            return;
        }
        let high = self.high.take();
        for character in char::decode_utf16(high.into_iter().chain([unit])) {
            on(character.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut [0; 4]));
        }
    }

    /// Gives up on the second half of a surrogate pair.
    fn settle(&mut self, on: &mut impl FnMut(&str)) {
        if self.high.take().is_some() {
            on("\u{fffd}");
        }
    }
}
