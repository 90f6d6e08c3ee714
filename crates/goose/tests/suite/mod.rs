mod api_document;
mod contract;
mod harness;
mod projection;
mod recipes;
mod replies;
mod sessions;
