//! A conversation in shared pieces, so that what a session already has is neither copied nor counted again.

use std::{fmt, sync::Arc};

use crate::{Block, Content, Message, context};

/// Messages that belong together, such as those of one turn, with their size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    messages: Vec<Message>,
    size: Size,
}

/// How much text and how many images messages have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// A guess at the tokens, see [`context::estimate`].
    pub tokens: u64,
    /// Bytes of all texts.
    pub bytes: u64,
    /// Images.
    pub images: u64,
    /// About how many bytes of memory they take, images and proofs of reasoning included.
    pub memory: u64,
}

/// What a block takes beside its content, in bytes of memory.
const BLOCK: u64 = size_of::<Block>() as u64;

impl Size {
    /// The size of messages.
    pub fn of(messages: &[Message]) -> Self {
        let memory = size_of_val(messages) as u64;
        let mut size = Self { tokens: context::estimate(messages), memory, ..Self::default() };
        messages.iter().for_each(|message| size.count(message));
        size
    }

    fn count(&mut self, message: &Message) {
        let content = match message {
            Message::System { content } => return self.text(content.len()),
            Message::User { content } | Message::Assistant { content } | Message::Tool { content, .. } => content,
        };
        let blocks = match content {
            Content::Text(text) => return self.text(text.len()),
            Content::Blocks(blocks) => blocks,
        };
        for block in blocks {
            self.memory += BLOCK;
            match block {
                Block::Text(text) => self.text(text.len()),
                Block::Thinking { text, signature } => {
                    self.text(text.len());
                    self.memory += signature.as_ref().map_or(0, |proof| proof.len() as u64);
                }
                Block::ToolUse(call) => self.text(call.name.len() + call.input.as_str().len()),
                Block::Document { name, .. } => self.text(name.len()),
                Block::Image { url } => {
                    self.images += 1;
                    self.memory += url.len() as u64;
                }
            }
        }
    }

    fn text(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.memory += bytes as u64;
    }
}

impl std::ops::AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.bytes += other.bytes;
        self.images += other.images;
        self.memory += other.memory;
    }
}

impl Piece {
    /// The messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Their size.
    pub fn size(&self) -> Size {
        self.size
    }
}

impl From<Vec<Message>> for Piece {
    fn from(messages: Vec<Message>) -> Self {
        let size = Size::of(&messages);
        Self { messages, size }
    }
}

/// Pieces in order. Adding one costs the same however many there are, if nobody else holds the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    pieces: Vec<Arc<Piece>>,
    size: Size,
}

impl Pieces {
    /// Adds a piece at the end.
    pub fn push(&mut self, piece: Arc<Piece>) {
        self.size += piece.size;
        self.pieces.push(piece);
    }

    /// The pieces.
    pub fn pieces(&self) -> &[Arc<Piece>] {
        &self.pieces
    }

    /// The size of all of them.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The messages of all pieces, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.pieces.iter().flat_map(|piece| piece.messages.iter())
    }

    /// The same with other pieces for some of them; the rest stay shared. `None` if all of them stay.
    pub fn replaced(&self, replace: impl Fn(&Piece) -> Option<Piece>) -> Option<Self> {
        let mut is_changed = false;
        let pieces = self.pieces.iter().map(|piece| match replace(piece) {
            Some(other) => {
                is_changed = true;
                Arc::new(other)
            }
            None => Arc::clone(piece),
        });
        let pieces = pieces.collect();
        is_changed.then_some(pieces)
    }
}

impl FromIterator<Arc<Piece>> for Pieces {
    fn from_iter<I: IntoIterator<Item = Arc<Piece>>>(pieces: I) -> Self {
        let mut all = Self::default();
        pieces.into_iter().for_each(|piece| all.push(piece));
        all
    }
}

/// A conversation: what was said earlier, which is shared, and what came since. Cheap to clone.
#[derive(Clone, Default)]
pub struct Messages {
    earlier: Arc<Pieces>,
    since: Pieces,
}

impl Messages {
    /// A conversation that goes on after an earlier part.
    pub fn after(earlier: Arc<Pieces>, since: Pieces) -> Self {
        Self { earlier, since }
    }

    /// What was said earlier.
    pub fn earlier(&self) -> &Arc<Pieces> {
        &self.earlier
    }

    /// What came since.
    pub fn since(&self) -> &Pieces {
        &self.since
    }

    /// The messages, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.earlier.iter().chain(self.since.iter())
    }

    /// The messages, copied into one list.
    pub fn to_vec(&self) -> Vec<Message> {
        self.iter().cloned().collect()
    }

    /// The first message.
    pub fn first(&self) -> Option<&Message> {
        self.iter().next()
    }

    /// The last message.
    pub fn last(&self) -> Option<&Message> {
        self.iter().next_back()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let pieces = self.earlier.pieces.iter().chain(&self.since.pieces);
        pieces.map(|piece| piece.messages.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.last().is_none()
    }

    /// The size of all of them, without looking at each.
    pub fn size(&self) -> Size {
        let mut size = self.earlier.size;
        size += self.since.size;
        size
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl From<Vec<Message>> for Messages {
    fn from(messages: Vec<Message>) -> Self {
        Self::after(Arc::default(), [Arc::new(messages.into())].into_iter().collect())
    }
}

impl From<&[Message]> for Messages {
    fn from(messages: &[Message]) -> Self {
        messages.to_vec().into()
    }
}

impl<const N: usize> From<[Message; N]> for Messages {
    fn from(messages: [Message; N]) -> Self {
        Vec::from(messages).into()
    }
}

impl FromIterator<Message> for Messages {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        messages.into_iter().collect::<Vec<_>>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_read_like_one_list() {
        let said = ["a", "bb", "ccc", "dddd"].map(Message::user);
        let mut earlier = Pieces::default();
        earlier.push(Arc::new(said[..1].to_vec().into()));
        earlier.push(Arc::default());
        earlier.push(Arc::new(said[1..3].to_vec().into()));
        let since = [Arc::new(said[3..].to_vec().into())].into_iter().collect();
        let messages = Messages::after(Arc::new(earlier), since);
        assert_eq!(messages, Messages::from(said.to_vec()));
        assert_eq!((messages.len(), messages.first(), messages.last()), (4, Some(&said[0]), Some(&said[3])));
        assert_eq!(messages.size(), Size::of(&said));
        assert!(messages.iter().rev().eq(said.iter().rev()));
        assert!(Messages::default().is_empty());
    }

    #[test]
    fn pieces_that_are_not_replaced_stay_shared() {
        let said = ["a", "bb", "ccc"].map(|text| Arc::new(Piece::from(vec![Message::user(text)])));
        let pieces: Pieces = said.iter().cloned().collect();
        assert_eq!(pieces.replaced(|_| None), None);
        let is_second = |piece: &Piece| piece.messages()[0] == Message::user("bb");
        let other = Piece::from(vec![Message::user("other")]);
        let replaced = pieces.replaced(|piece| is_second(piece).then(|| other.clone())).unwrap();
        assert!(Arc::ptr_eq(&replaced.pieces[0], &said[0]) && Arc::ptr_eq(&replaced.pieces[2], &said[2]));
        assert_eq!(*replaced.pieces[1], other);
        assert_eq!(replaced.size(), Size::of(&["a", "other", "ccc"].map(Message::user)));
    }
}
