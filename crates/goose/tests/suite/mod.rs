mod harness;
mod projection;
mod recipes;
mod replies;
mod sessions;
