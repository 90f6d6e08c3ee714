//! What reading one PDF may cost.

use std::cell::Cell;

/// Bytes that may be looked at or made while one PDF is read. A PDF can name the same bytes again and again, and a few
/// of them can unpack to thousands. So every byte is paid for each time, whoever handles it; when the budget is spent,
/// whatever asks for more finds the end of its input, and reading ends with what there is.
pub(crate) struct Budget {
    left: Cell<usize>,
    spent: Cell<bool>,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { left: Cell::new(bytes), spent: Cell::new(false) }
    }

    /// Pays for `bytes`. Says whether there was enough.
    pub(crate) fn pay(&self, bytes: usize) -> bool {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                true
            }
            None => {
                self.left.set(0);
                self.spent.set(true);
                false
            }
        }
    }

    pub(crate) fn left(&self) -> usize {
        self.left.get()
    }

    /// Whether something was asked for that could not be paid.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.get()
    }
}
