//! The protocol's types, as they are on the wire.

mod content;
mod field;
mod image;
mod item;
mod message;
mod out;
mod result;
#[cfg(test)]
mod tests;
mod tokens;

pub(crate) use content::ContentIn;
pub(crate) use field::FieldError;
pub(crate) use image::ImageUrl;
pub(crate) use item::ItemIn;
pub(crate) use message::{MessageIn, UserSaid, Visible, history, user_message};
pub(crate) use out::{Conversation, Item, MessageOut, ResultItems, Speaker};
pub(crate) use tokens::Tokens;
