//! A map from ranges of codes to values.

/// Values for ranges of codes. A range is kept as it is written, however long it is.
pub(crate) struct Ranges<T> {
    /// In order of the first code once it is complete.
    entries: Vec<(u32, u32, T)>,
}

impl<T> Ranges<T> {
    pub(crate) fn new(mut entries: Vec<(u32, u32, T)>) -> Self {
        entries.sort_by_key(|(first, _, _)| *first);
        Self { entries }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a code, and how far into its range the code is.
    pub(crate) fn get(&self, code: u32) -> Option<(&T, u32)> {
        let after = self.entries.partition_point(|(first, _, _)| *first <= code);
        let (first, last, value) = self.entries.get(after.checked_sub(1)?)?;
        (code <= *last).then_some((value, code - first))
    }
}
