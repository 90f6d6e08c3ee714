//! Fields that may be `null`.

use serde::{Deserialize, Deserializer};

/// For a field that may be `null`, which then is not the same as absent.
pub(crate) fn or_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
