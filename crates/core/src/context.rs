//! The history that a model is given.
