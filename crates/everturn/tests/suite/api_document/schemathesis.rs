//! Property-based tests of every operation of the document.
