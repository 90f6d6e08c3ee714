//! Reads documents in this process: for programs that know whom their documents are from, such as tests. The server has them
//! read elsewhere.

use bytes::Bytes;
use everturn_documents::{Bounds, ReadError, Reader, Reading};

/// Reads documents in this process, on a thread of its own.
#[derive(Clone, Copy, Debug)]
pub struct HereReader;

impl Reader for HereReader {
    fn read(&self, name: String, bytes: Bytes, bounds: Bounds) -> Reading {
        Box::pin(async move {
            let reading = tokio::task::spawn_blocking(move || everturn_documents::read(&name, &bytes, bounds));
            let read = reading.await.map_err(|error| ReadError::Failed(error.to_string()))?;
            read.map_err(ReadError::Document)
        })
    }
}
