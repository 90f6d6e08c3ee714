//! Which commands a session takes.
